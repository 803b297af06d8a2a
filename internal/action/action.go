// Package action is the catalogue of what can be done in a browser: the 14
// actions of seed 001 §5.2 and the three that change a log-in. It knows each
// action's name, its parameters and their schema, and whether it may be
// repeated. It does nothing by itself and imports nothing of ours.
//
// # Reads and effects
//
// An action is a read if doing it twice leaves the world as doing it once
// does: getText, getHtml, waitForSelector, pageScreenshot, scrollTo,
// getAomSnapshot, storageGet, and navigate. A read may be retried freely.
// Opening a URL counts as a read because HTTP says that GET is safe, because
// the place one ends up at is the same, and because a run that lost its
// browser could otherwise not even find its page again. Everything else is
// an effect: sent at most once, never repeated when its outcome is unknown.
// zombieSpawn is an effect although it opens a URL too: twice makes two
// pages.
//
// # Additions to the seed's schemas
//
// The schema files say what seed 001 §5.2 says, and besides: no properties
// but the named ones; required selectors and ids are not empty; scrollTo's
// numbers fit 32 bits (seed 001 §2.3); getAomSnapshot has format and
// max_tokens; sessionLogin, sessionLogout and clearStorage name a domain,
// never a credential.
//
// click's wait_after is the one default that is not filled in: given, it is
// kept to the millisecond; absent, the host waits until the page has settled,
// for 1000 ms at most. Absent and 1000 are therefore not the same.
package action

import (
	"embed"
	"encoding/json"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Names of the actions.
const (
	Click           = "click"
	Type            = "type"
	Navigate        = "navigate"
	GetText         = "getText"
	GetHTML         = "getHtml"
	WaitForSelector = "waitForSelector"
	PageScreenshot  = "pageScreenshot"
	Select          = "select"
	ScrollTo        = "scrollTo"
	GetAOMSnapshot  = "getAomSnapshot"
	StorageSet      = "storageSet"
	StorageGet      = "storageGet"
	ZombieSpawn     = "zombieSpawn"
	ZombieKill      = "zombieKill"
	SessionLogin    = "sessionLogin"
	SessionLogout   = "sessionLogout"
	ClearStorage    = "clearStorage"
)

// Spec describes one action.
type Spec struct {
	Name string
	// Effect says that the action changes something, and so must not be
	// repeated when its outcome is unknown.
	Effect bool
	// Confirm says that the seed's policy asks a person first. It is advice
	// for a default; what holds is the policy in force.
	Confirm bool
	// Selector says that the action addresses an element by a selector or a
	// ref.
	Selector bool
	// URL says that the action opens a URL: its host, not that of the page,
	// is the command's domain. See Target.
	URL bool
	// Description is one line for a model, in English; DescriptionZH the
	// same for people, in Chinese.
	Description   string
	DescriptionZH string
	// Schema is the JSON Schema (draft-07) of the parameters.
	Schema json.RawMessage
}

//go:embed schema/*.json
var schemaFiles embed.FS

// specs is the catalogue without the schemas, in the seed's order.
var specs = [...]Spec{
	{Name: Click, Effect: true, Selector: true, Description: "Click an element.", DescriptionZH: "点击元素"},
	{Name: Type, Effect: true, Selector: true, Description: "Type text into a field.", DescriptionZH: "输入文本"},
	{Name: Navigate, URL: true, Description: "Open a URL.", DescriptionZH: "打开网址"},
	{Name: GetText, Selector: true, Description: "Read the text of an element, or the value of a field.", DescriptionZH: "读取文本"},
	{Name: GetHTML, Selector: true, Description: "Read the HTML of an element.", DescriptionZH: "读取 HTML"},
	{Name: WaitForSelector, Selector: true, Description: "Wait until an element is there and visible.", DescriptionZH: "等待元素出现"},
	{Name: PageScreenshot, Description: "Take a picture of the page.", DescriptionZH: "页面截图"},
	{Name: Select, Effect: true, Selector: true, Description: "Choose an option of a select element by value or label.", DescriptionZH: "选择选项"},
	{Name: ScrollTo, Selector: true, Description: "Scroll to an element or a position.", DescriptionZH: "滚动页面"},
	{Name: GetAOMSnapshot, Selector: true, Description: "See what is on the page: roles, names, values and refs.", DescriptionZH: "获取页面快照"},
	{Name: StorageSet, Effect: true, Description: "Store a value in the page's local storage.", DescriptionZH: "写入本地存储"},
	{Name: StorageGet, Description: "Read a value from the page's local storage.", DescriptionZH: "读取本地存储"},
	{Name: ZombieSpawn, Effect: true, URL: true, Description: "Open a URL in a background page; answers its page_id.", DescriptionZH: "打开后台页面"},
	{Name: ZombieKill, Effect: true, Description: "Close a background page.", DescriptionZH: "关闭后台页面"},
	{Name: SessionLogin, Effect: true, Confirm: true, Description: "Log in to a domain with the credentials kept by the browser host. Never ask for or pass a password.", DescriptionZH: "登录"},
	{Name: SessionLogout, Effect: true, Confirm: true, Description: "Log out of a domain.", DescriptionZH: "退出登录"},
	{Name: ClearStorage, Effect: true, Confirm: true, Description: "Remove all that a domain has stored in the browser.", DescriptionZH: "清除站点数据"},
}

type catalogue struct {
	specs   []Spec
	byName  map[string]int
	schemas map[string]*jsonschema.Schema
}

// load reads and compiles the embedded schemas, once. It can only go wrong
// if a schema file is broken, which a test rules out.
var load = sync.OnceValues(func() (*catalogue, error) {
	cat := &catalogue{
		specs:   slices.Clone(specs[:]),
		byName:  make(map[string]int, len(specs)),
		schemas: make(map[string]*jsonschema.Schema, len(specs)),
	}
	comp := jsonschema.NewCompiler()
	comp.DefaultDraft(jsonschema.Draft7)
	comp.AssertFormat()
	for i := range cat.specs {
		s := &cat.specs[i]
		raw, err := schemaFiles.ReadFile("schema/" + s.Name + ".json")
		if err != nil {
			return nil, err
		}
		doc, err := unmarshal(raw)
		if err != nil {
			return nil, err
		}
		url := "sgclaw:" + s.Name
		if err := comp.AddResource(url, doc); err != nil {
			return nil, err
		}
		compiled, err := comp.Compile(url)
		if err != nil {
			return nil, err
		}
		s.Schema = raw
		cat.byName[s.Name] = i
		cat.schemas[s.Name] = compiled
	}
	return cat, nil
})

// All returns the catalogue in the seed's order. The caller may keep the
// slice but must not change what the schemas point to.
func All() []Spec {
	cat, err := load()
	if err != nil {
		return nil
	}
	return slices.Clone(cat.specs)
}

// Names returns the names of all actions in the seed's order.
func Names() []string {
	names := make([]string, len(specs))
	for i := range specs {
		names[i] = specs[i].Name
	}
	return names
}

// Lookup finds an action by its exact name.
func Lookup(name string) (Spec, bool) {
	cat, err := load()
	if err != nil {
		return Spec{}, false
	}
	i, ok := cat.byName[name]
	if !ok {
		return Spec{}, false
	}
	return cat.specs[i], true
}
