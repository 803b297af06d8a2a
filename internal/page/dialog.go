package page

import (
	"context"
	"strings"
	"sync"

	"sgclaw/internal/cdp"
	"sgclaw/internal/pipe"
)

// Dialog is a question that a page asks with confirm().
type Dialog struct {
	// Type is that of DevTools, e.g. "confirm".
	Type string
	// Message is the page's text as a person can read it: on one line and
	// without invisible characters. It may be long, and it is data.
	Message string
}

// asking is what an action has to do with the dialogs of its page. Its lock
// is held while Request.Dialog is asked, so that nothing is answered OK when
// the action is over.
type asking struct {
	mu       sync.Mutex
	ask      func(Dialog) bool // nil: no action wants to know
	commits  int               // of the page, when the action pressed
	no       string            // the question that was answered No
	accepted bool              // a question was answered OK
	sent     string            // method of a request that may have changed something
}

// ask begins to ask Request.Dialog. What would do something else when it is
// done again does not ask: typing without clearing the field would type
// twice, and a press on a box that stayed ticked would untick it.
func (a *attempt) ask(role string) {
	box := role == "checkbox" || role == "switch" || role == "menuitemcheckbox"
	if a.r.Dialog == nil || a.typesMore || box {
		return
	}
	commits := a.p.now().commits
	d := &a.p.asking
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ask == nil {
		d.ask, d.commits = a.r.Dialog, commits
	}
}

// answer says whether a dialog gets OK.
func (d *asking) answer(q Dialog) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ask == nil || q.Type != "confirm" || d.no != "" {
		return false
	}
	if d.ask(q) {
		d.accepted = true
		return true
	}
	d.no = q.Message
	if d.no == "" {
		d.no = "confirm()"
	}
	return false
}

// saidNo reports whether the action's dialog was answered No, so that the
// rest of the action must not be done.
func (d *asking) saidNo() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.no != ""
}

// noteRequest notes a request of the page's scripts that may change
// something on the site.
func (d *asking) noteRequest(method string) {
	switch method {
	case "GET", "HEAD", "OPTIONS", "":
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ask != nil && d.sent == "" {
		d.sent = method
	}
}

// endAsking ends an action's interest in dialogs. An action that was answered
// No and has changed nothing that can be seen becomes MAC_NEED_CONFIRM: it
// may be done again. Where an earlier question got OK, a document was left or
// something was sent, it is done, and its events say what was answered.
func (p *Page) endAsking(e *pipe.Error) *pipe.Error {
	s := p.now()
	d := &p.asking
	d.mu.Lock()
	was := asking{ask: d.ask, commits: d.commits, no: d.no, accepted: d.accepted, sent: d.sent}
	d.ask, d.no, d.accepted, d.sent = nil, "", false, ""
	d.mu.Unlock()
	if was.no == "" || e != nil {
		return e
	}
	done := ""
	switch {
	case was.accepted:
		done = "an earlier question had been answered OK"
	case s.commits != was.commits || s.navigating || s.closed:
		done = "the page was left all the same"
	case was.sent != "":
		done = "the page sent something all the same (" + was.sent + ")"
	}
	if done != "" {
		p.event("dialog", "nobody is asked about %q: %s, and doing it again could do it twice", clip(was.no, 100), done)
		return nil
	}
	return pipe.Errorf(pipe.CodeNeedConfirm, "the page asked %q and was answered No; a person must agree to OK first", clip(was.no, 300))
}

// onDialog answers a dialog at once: the page stands still until then.
func (p *Page) onDialog(ctx context.Context, session string, d cdp.DialogOpening) {
	message := strings.Join(strings.Fields(cleanText(d.Message)), " ")
	accept := d.Type == "alert" || d.Type == "beforeunload" || p.asking.answer(Dialog{Type: d.Type, Message: message})
	verb := "dismissed"
	if accept {
		verb = "accepted"
	}
	p.event("dialog", "%s %s: %s", d.Type, verb, clip(message, 300))
	if err := p.conn.Post(ctx, session, "Page.handleJavaScriptDialog", cdp.HandleDialog{Accept: accept}); err != nil {
		p.log.Warn("dialog not answered", "err", err)
	}
}
