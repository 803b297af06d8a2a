// Package page drives the pages of one Chromium over DevTools: it carries out
// the actions of package action the way a person's hand would, describes
// pages for a model, and keeps every document away that Options.Allow does
// not allow.
//
// # Addressing
//
// A selector is a ref from a snapshot ("[ref=e12]", also "ref=e12" and
// "@e12"), or CSS. " >>> " in CSS enters an iframe or a shadow root; plain
// CSS searches open shadow roots too. A ref belongs to one node of one
// document and to what that node stood for: role, name, and the text of the
// table row or list item around it. The node keeps its number as long as that
// stays; if it comes to stand for something else, as the rows of a list that
// is patched in place do, a snapshot gives it a new one. Numbers are never
// used again. A ref whose node is gone, or stands for something else, is
// CMD_REF_STALE: nothing is ever found again in its place.
//
// # Acting
//
// An element is acted on when it is attached, visible, enabled, still for two
// frames, scrolled into view and hit at one of nine points; all that is
// tried until Options.Patience is over. Then Request.Inspect is asked, about the element that
// the press would really reach. The evaluation that computes the final point
// checks the same identity again and arms a guard in the page's capture
// phase that swallows the press if it should reach anything else, so that
// there is no gap between what was inspected and what is pressed.
//
// # Documents
//
// Every document is asked about before it is requested, and whatever runs in
// a new page or frame waits until that is in force. What is kept away leaves
// the page as it was. Sub-resources are not covered; chrome.Options.Strict
// and Options.Strict close those too.
//
// # Files
//
// tab.go is a page and what DevTools tells about it (state.go, dialog.go), browser.go
// the set of pages. world.go reaches into documents through the library in
// js/, which does what must happen in one evaluation; find.go, act.go, nav.go,
// read.go, snapshot.go and login.go are the actions.
//
// # Concurrency
//
// All methods may be used concurrently. A page does one request at a time, in
// order; different pages work side by side.
package page

import (
	"context"
	"encoding/json"
	"time"

	"sgclaw/internal/pipe"
)

// Options shape a Browser.
type Options struct {
	// Allow is asked for every document before it is requested: top-level
	// navigations, each hop of a redirect, script navigations, child frames,
	// popups. An error keeps the request from leaving. nil allows every http
	// and https URL. It must answer at once: the page waits.
	Allow func(rawURL string) *pipe.Error
	// Strict bypasses service workers, which Chrome does not ask about.
	// chrome.Options.Strict closes the rest.
	Strict bool
	// DownloadDir is where downloads go; empty refuses them.
	DownloadDir string
	// MaxDownload bounds one download in bytes; 0 means 100 MiB.
	MaxDownload int64
	// NumberAfter is what the numbers of refs, background pages and tabs begin
	// after, so that a browser that takes another's place never gives out one
	// of its numbers for something else.
	NumberAfter int
	// Patience is how long an element may take to appear and to become
	// ready; 0 means 3 s.
	Patience time.Duration
	// Attached says that the browser is somebody's own: a page is opened in
	// it, and pages that are not ours are left alone.
	Attached bool
}

// MaxZombies is how many background pages may be open (seed 001 §5.3).
const MaxZombies = 5

// Target is what a press would reach: the control, not the text inside it.
type Target struct {
	Role    string // accessible role, e.g. "button"
	Name    string // accessible name, e.g. "批准"
	Context string // text of the nearest row, list item or form, at most 200 characters
	URL     string // of the main frame's document
	Domain  string // of URL
	// FrameURL is the document that holds the element, if not the main
	// frame's.
	FrameURL string
	// FormSubmit says that the action would submit a form.
	FormSubmit bool
	// SubmitName is the name of the button that Enter in a field stands for.
	SubmitName string
	// LinkURL is where a link leads.
	LinkURL string
	// Picture takes a small JPEG of the element and its surroundings.
	Picture func(ctx context.Context) ([]byte, error)
}

// Request asks a page for one action.
type Request struct {
	// Action is one of package action's, without the session actions.
	Action string
	// Params have passed action.Parse.
	Params json.RawMessage
	// SnapshotAfter adds the compact snapshot to the reply.
	SnapshotAfter bool
	// ExpectedDomain is the domain of the page that is to be acted on; for
	// navigate and zombieSpawn that of the target. If it is another, nothing
	// is done (MAC_DOMAIN_MISMATCH). Empty: not checked.
	ExpectedDomain string
	// Inspect is asked at the moment of acting, for click, type and select.
	// If it returns an error, nothing is pressed, typed or chosen and the
	// error is the reply. It may take long (a person may be asked): the
	// element is checked again afterwards. nil agrees to everything.
	Inspect func(ctx context.Context, t Target) *pipe.Error
	// Dialog is asked when the page asks with confirm(), from the press of
	// a click, type or select to the end of the action: true answers OK. It
	// must answer at once, since the page stands still, and must not use the
	// page. After a No nothing more is pressed or typed, and the reply is
	// MAC_NEED_CONFIRM if doing it again with another answer can do nothing
	// twice; see dialog.go. Not asked about boxes to tick, nor when text is
	// added to a field. nil answers No and goes on.
	Dialog func(d Dialog) bool
}
