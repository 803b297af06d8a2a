package page

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"sgclaw/internal/action"
	"sgclaw/internal/cdp"
	"sgclaw/internal/pipe"
)

// replyBudget is how many bytes of a reply line text may take, encoded as
// JSON with HTML escaping. The rest of pipe.MaxLine is for what else a reply
// has.
const replyBudget = 560 << 10

// cutText shortens text so that it fits a reply, and says how much is left
// out, in characters.
func cutText(s string, budget int) (kept string, left int) {
	cost := 0
	for i, r := range s {
		cost += jsonCost(r)
		if cost > budget {
			return s[:i], utf8.RuneCountInString(s[i:])
		}
	}
	return s, 0
}

func jsonCost(r rune) int {
	switch {
	case r == '\n' || r == '\t' || r == '\r' || r == '"' || r == '\\':
		return 2
	case r < ' ' || r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029' || r == utf8.RuneError:
		return 6
	default:
		return utf8.RuneLen(r)
	}
}

func cutInto(data *pipe.Data, into *string, s, what string) {
	kept, left := cutText(s, replyBudget)
	if left > 0 {
		kept += fmt.Sprintf("\n[... %d more characters]", left)
		data.Truncated = true
		data.Rest = fmt.Sprintf("%d characters of the %s are left out; name a smaller element to get them", left, what)
	}
	*into = kept
}

func getText(ctx context.Context, p *Page, r Request) (*pipe.Data, *pipe.Error) {
	params, err := action.Decode[action.GetTextParams](r.Params)
	if err != nil {
		return nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	text, f, e := read(ctx, p, params.Selector, "text", false)
	if e != nil {
		return nil, e
	}
	data := &pipe.Data{Matched: f.matched}
	cutInto(data, &data.Text, text, "text")
	return data, nil
}

func getHTML(ctx context.Context, p *Page, r Request) (*pipe.Data, *pipe.Error) {
	params, err := action.Decode[action.GetHTMLParams](r.Params)
	if err != nil {
		return nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	html, f, e := read(ctx, p, params.Selector, "html", params.Outer)
	if e != nil {
		return nil, e
	}
	data := &pipe.Data{Matched: f.matched}
	cutInto(data, &data.HTML, html, "HTML")
	return data, nil
}

func read(ctx context.Context, p *Page, selector, what string, outer bool) (string, found, *pipe.Error) {
	for try := 0; ; try++ {
		f, e := p.locate(ctx, selector)
		if e != nil {
			return "", f, e
		}
		if e := p.mayRead(ctx, f); e != nil {
			return "", f, e
		}
		var a answer
		if err := p.ask(ctx, f.frame, what, args{Token: f.token, ID: f.id, Outer: outer}, &a); err != nil {
			return "", f, fault(err)
		}
		if a.Gone && !f.ref && try < 3 {
			continue
		}
		if e := f.refuse(p, a); e != nil {
			return "", f, e
		}
		return a.Text, f, nil
	}
}

// mayRead keeps what is in the frame of another host from being read unless
// that host is allowed too.
func (p *Page) mayRead(ctx context.Context, f found) *pipe.Error {
	if f.frame == p.main() {
		return nil
	}
	var about answer
	if err := p.ask(ctx, f.frame, "about", args{Token: f.token}, &about); err != nil {
		return fault(err)
	}
	if Domain(about.URL) == "" {
		return nil
	}
	return p.b.allowed(about.URL)
}

func waitFor(ctx context.Context, p *Page, r Request) (*pipe.Data, *pipe.Error) {
	params, err := action.Decode[action.WaitForSelectorParams](r.Params)
	if err != nil {
		return nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	d := min(time.Duration(params.TimeoutMS)*time.Millisecond, 28*time.Second)
	f, e := p.awaitElement(ctx, params.Selector, d, true)
	if e != nil && e.Code == pipe.CodeSelectorNotFound {
		return nil, pipe.Errorf(pipe.CodeSelectorTimeout, "not within %d ms: %s%s", d.Milliseconds(), e.Message, p.nearText(ctx, params.Selector))
	}
	if e != nil {
		return nil, e
	}
	return &pipe.Data{Text: fmt.Sprintf("%s is there", clip(params.Selector, 100)), Matched: f.matched}, nil
}

func scroll(ctx context.Context, p *Page, r Request) (*pipe.Data, *pipe.Error) {
	params, err := action.Decode[action.ScrollToParams](r.Params)
	if err != nil {
		return nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	f := found{node: node{frame: p.main()}}
	if params.Selector != "" {
		var e *pipe.Error
		if f, e = p.locate(ctx, params.Selector); e != nil {
			return nil, e
		}
		if err := p.reveal(ctx, f.frame); err != nil {
			return nil, fault(err)
		}
	}
	a := args{Token: f.token, ID: f.id}
	if params.X != nil {
		a.X = ptr(float64(*params.X))
	}
	if params.Y != nil {
		a.Y = ptr(float64(*params.Y))
	}
	var ans answer
	if err := p.ask(ctx, f.frame, "scroll", a, &ans); err != nil {
		return nil, fault(err)
	}
	if e := f.refuse(p, ans); e != nil {
		return nil, e
	}
	return &pipe.Data{Text: fmt.Sprintf("scrolled to %.0f, %.0f; %.0f px of %.0f px are in view", ans.X, ans.Y, ans.View, ans.Height), Matched: f.matched}, nil
}

// storagePrefix is what keys of ours begin with (seed 001 §2.5); it is
// checked here once more because a page's own keys must never be touched.
const storagePrefix = "sgclaw."

func storageSet(ctx context.Context, p *Page, r Request) (*pipe.Data, *pipe.Error) {
	params, err := action.Decode[action.StorageSetParams](r.Params)
	if err != nil {
		return nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	if _, e := storage(ctx, p, "storageSet", args{Key: params.Key, Value: params.Value}); e != nil {
		return nil, e
	}
	return &pipe.Data{Text: fmt.Sprintf("stored %d characters under %s", utf8.RuneCountInString(params.Value), params.Key)}, nil
}

func storageGet(ctx context.Context, p *Page, r Request) (*pipe.Data, *pipe.Error) {
	params, err := action.Decode[action.StorageGetParams](r.Params)
	if err != nil {
		return nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	a, e := storage(ctx, p, "storageGet", args{Key: params.Key})
	if e != nil {
		return nil, e
	}
	data := &pipe.Data{Found: &a.Found}
	cutInto(data, &data.Text, a.Text, "value")
	return data, nil
}

func storage(ctx context.Context, p *Page, method string, a args) (answer, *pipe.Error) {
	var ans answer
	if !strings.HasPrefix(a.Key, storagePrefix) {
		return ans, pipe.Errorf(pipe.CodeStorageKey, "storage keys begin with %q", storagePrefix)
	}
	if Domain(p.url()) == "" {
		return ans, pipe.Errorf(pipe.CodeNoPage, "no page of a site is open; navigate first")
	}
	if err := p.ask(ctx, p.main(), method, a, &ans); err != nil {
		return ans, fault(err)
	}
	if ans.Refused != "" {
		return ans, pipe.Errorf(pipe.CodeStorageFailed, "the page's storage cannot be used: %s", ans.Refused)
	}
	return ans, nil
}

const (
	// maxImage is how many bytes a picture may have: as base64 it stays
	// well under pipe.MaxLine.
	maxImage = 700 << 10
	// maxSide is how long the longer side of a picture may be, in pixels.
	maxSide = 7680
)

func takeScreenshot(ctx context.Context, p *Page, r Request) (*pipe.Data, *pipe.Error) {
	params, err := action.Decode[action.PageScreenshotParams](r.Params)
	if err != nil {
		return nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	data, err := screenshot(ctx, p, params.FullPage)
	if err != nil {
		return nil, fault(err)
	}
	return data, nil
}

// screenshot takes a picture and steps quality and scale down until it fits.
func screenshot(ctx context.Context, p *Page, full bool) (*pipe.Data, error) {
	var m cdp.LayoutMetrics
	if err := p.patiently(ctx, p.session, callPatience, "Page.getLayoutMetrics", nil, &m); err != nil {
		return nil, err
	}
	v := m.CSSLayoutViewport
	clip := cdp.Viewport{X: v.PageX, Y: v.PageY, Width: v.ClientWidth, Height: v.ClientHeight, Scale: 1}
	data := &pipe.Data{MIME: "image/jpeg"}
	if full {
		clip.X, clip.Y, clip.Width, clip.Height = 0, 0, m.CSSContentSize.Width, m.CSSContentSize.Height
		// A long page is made smaller, a very long one cut off.
		if most := float64(2 * maxSide); clip.Height > most {
			clip.Height = most
			data.Truncated = true
			data.Rest = fmt.Sprintf("the picture ends at %.0f of %.0f px; scrollTo and take further ones", most, m.CSSContentSize.Height)
		}
		clip.Width = min(clip.Width, maxSide)
		clip.Scale = min(1, maxSide/max(clip.Height, 1))
	}
	if clip.Width < 1 || clip.Height < 1 {
		return nil, errors.New("the page has no size")
	}
	scale := clip.Scale
	for _, step := range []struct {
		quality int
		scale   float64
	}{{80, 1}, {50, 1}, {60, 0.75}, {60, 0.5}, {50, 0.35}, {40, 0.2}, {30, 0.1}} {
		clip.Scale = scale * step.scale
		var shot cdp.Screenshot
		c := cdp.CaptureScreenshot{Format: "jpeg", Quality: step.quality, Clip: &clip, CaptureBeyondViewport: full, OptimizeForSpeed: true}
		if err := p.patiently(ctx, p.session, slowPatience, "Page.captureScreenshot", c, &shot); err != nil {
			return nil, err
		}
		if len(shot.Data) > maxImage {
			continue
		}
		data.Image, data.Scale = shot.Data, clip.Scale
		data.Width, data.Height = int(clip.Width*clip.Scale+0.5), int(clip.Height*clip.Scale+0.5)
		data.Text = fmt.Sprintf("picture of %d x %d px, scale %.2f", data.Width, data.Height, data.Scale)
		return data, nil
	}
	return nil, errors.New("the picture cannot be made small enough")
}

// picture takes a small JPEG of a rectangle of a frame and what is around it.
func (p *Page) picture(ctx context.Context, f frameKey, rect [4]float64) ([]byte, error) {
	x, y, _, e := p.outward(ctx, f, rect[0], rect[1], false)
	if e != nil {
		return nil, e
	}
	var m cdp.LayoutMetrics
	if err := p.patiently(ctx, p.session, callPatience, "Page.getLayoutMetrics", nil, &m); err != nil {
		return nil, err
	}
	v := m.CSSLayoutViewport
	const aroundX, aroundY = 240, 60
	left, top := max(0, x-aroundX), max(0, y-aroundY)
	right, bottom := min(v.ClientWidth, x+rect[2]+aroundX), min(v.ClientHeight, y+rect[3]+aroundY)
	clip := cdp.Viewport{X: v.PageX + left, Y: v.PageY + top, Width: max(1, right-left), Height: max(1, bottom-top)}
	clip.Scale = min(1, 640/clip.Width)
	var shot cdp.Screenshot
	err := p.patiently(ctx, p.session, callPatience, "Page.captureScreenshot", cdp.CaptureScreenshot{Format: "jpeg", Quality: 60, Clip: &clip}, &shot)
	return shot.Data, err
}
