package action

import (
	"encoding/json"
	"fmt"
)

// Params are the parameters of an action, typed. A field that the schema
// gives a default is never absent after Parse, except ClickParams.WaitAfter.
type Params interface {
	ClickParams | TypeParams | NavigateParams | GetTextParams | GetHTMLParams |
		WaitForSelectorParams | PageScreenshotParams | SelectParams | ScrollToParams |
		GetAOMSnapshotParams | StorageSetParams | StorageGetParams | ZombieSpawnParams |
		ZombieKillParams | SessionParams
}

// ClickParams are the parameters of Click.
type ClickParams struct {
	Selector string `json:"selector"`
	// WaitAfter is how long to wait after the click, in milliseconds, kept
	// exactly; nil waits until the page has settled, at most 1000 ms.
	WaitAfter *int `json:"wait_after,omitempty"`
}

// TypeParams are the parameters of Type.
type TypeParams struct {
	Selector   string `json:"selector"`
	Text       string `json:"text"`
	ClearFirst bool   `json:"clear_first"` // default true
}

// NavigateParams are the parameters of Navigate.
type NavigateParams struct {
	URL string `json:"url"`
}

// GetTextParams are the parameters of GetText.
type GetTextParams struct {
	Selector string `json:"selector"`
}

// GetHTMLParams are the parameters of GetHTML.
type GetHTMLParams struct {
	Selector string `json:"selector"`
	Outer    bool   `json:"outer"` // outerHTML instead of innerHTML; default false
}

// WaitForSelectorParams are the parameters of WaitForSelector.
type WaitForSelectorParams struct {
	Selector  string `json:"selector"`
	TimeoutMS int    `json:"timeout_ms"` // default 5000
}

// PageScreenshotParams are the parameters of PageScreenshot.
type PageScreenshotParams struct {
	FullPage bool `json:"full_page"` // default false
}

// SelectParams are the parameters of Select.
type SelectParams struct {
	Selector string `json:"selector"`
	Value    string `json:"value"`
}

// ScrollToParams are the parameters of ScrollTo. Selector goes before X and
// Y; with both, X and Y are positions inside the element.
type ScrollToParams struct {
	Selector string `json:"selector,omitempty"`
	X        *int   `json:"x,omitempty"` // pixels
	Y        *int   `json:"y,omitempty"` // pixels
}

// Formats of a snapshot.
const (
	FormatText = "text" // compact lines for a model
	FormatTree = "tree" // the seed's nodes, in Response.AOMSnapshot
)

// GetAOMSnapshotParams are the parameters of GetAOMSnapshot.
type GetAOMSnapshotParams struct {
	RootSelector string `json:"root_selector,omitempty"` // empty: the whole page
	Format       string `json:"format"`                  // default FormatText
	MaxTokens    int    `json:"max_tokens"`              // default 4000
}

// StorageSetParams are the parameters of StorageSet.
type StorageSetParams struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// StorageGetParams are the parameters of StorageGet.
type StorageGetParams struct {
	Key string `json:"key"`
}

// ZombieSpawnParams are the parameters of ZombieSpawn.
type ZombieSpawnParams struct {
	URL string `json:"url"`
}

// ZombieKillParams are the parameters of ZombieKill.
type ZombieKillParams struct {
	PageID string `json:"page_id"`
}

// SessionParams are the parameters of SessionLogin, SessionLogout and
// ClearStorage. After Parse, Domain is a host name as Host returns it.
type SessionParams struct {
	Domain string `json:"domain"`
}

// withDefaults sets the defaults of *p.
func withDefaults[T Params](p *T) {
	switch p := any(p).(type) {
	case *TypeParams:
		p.ClearFirst = true
	case *WaitForSelectorParams:
		p.TimeoutMS = 5000
	case *GetAOMSnapshotParams:
		p.Format = FormatText
		p.MaxTokens = 4000
	}
}

// Decode gives typed access to parameters that have passed Parse. Defaults
// are set; nothing is checked but the types.
func Decode[T Params](params json.RawMessage) (T, error) {
	var p T
	withDefaults(&p)
	if err := json.Unmarshal(params, &p); err != nil {
		return p, fmt.Errorf("decode %T: %w", p, err)
	}
	return p, nil
}

// normalise decodes canonical parameters, sets the defaults and encodes them
// again.
func normalise(name string, params json.RawMessage) (json.RawMessage, error) {
	switch name {
	case Click:
		return recode[ClickParams](params)
	case Type:
		return recode[TypeParams](params)
	case Navigate:
		return recode[NavigateParams](params)
	case GetText:
		return recode[GetTextParams](params)
	case GetHTML:
		return recode[GetHTMLParams](params)
	case WaitForSelector:
		return recode[WaitForSelectorParams](params)
	case PageScreenshot:
		return recode[PageScreenshotParams](params)
	case Select:
		return recode[SelectParams](params)
	case ScrollTo:
		return recode[ScrollToParams](params)
	case GetAOMSnapshot:
		return recode[GetAOMSnapshotParams](params)
	case StorageSet:
		return recode[StorageSetParams](params)
	case StorageGet:
		return recode[StorageGetParams](params)
	case ZombieSpawn:
		return recode[ZombieSpawnParams](params)
	case ZombieKill:
		return recode[ZombieKillParams](params)
	case SessionLogin, SessionLogout, ClearStorage:
		p, err := Decode[SessionParams](params)
		if err != nil {
			return nil, err
		}
		if p.Domain, err = Host(p.Domain); err != nil {
			return nil, &Error{Action: name, Field: "domain", Message: "domain: " + err.Error()}
		}
		return json.Marshal(p)
	}
	return nil, fmt.Errorf("no parameters for action %q", name)
}

func recode[T Params](params json.RawMessage) (json.RawMessage, error) {
	p, err := Decode[T](params)
	if err != nil {
		return nil, err
	}
	return json.Marshal(p)
}
