package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"unicode/utf8"

	"sgclaw/internal/agent"
	"sgclaw/internal/page"
	"sgclaw/internal/pipe"
	"sgclaw/internal/policy"
)

// dialogPrompt tells a person what a yes then does.
var dialogPrompt = policy.Prompt{
	ZH: "网页弹出了确认框，已先选“取消”。批准后将再做一次此操作，并对同样的确认框选“确定”。",
	EN: "The page asked by a dialog of the browser and was answered Cancel. A yes does the action again and answers the same dialog OK.",
}

// maxDialogText bounds what a person is shown of a dialog's text, in bytes.
const maxDialogText = 600

// dialogContext is Subject.Context of an element whose page asked something:
// the element's own, and the question. Of a text that is too long its
// beginning is shown, and a hash stands for the rest, so that the digest is of
// all of it.
func dialogContext(context string, d page.Dialog) string {
	text := d.Message
	if len(text) > maxDialogText {
		n := maxDialogText
		for !utf8.RuneStart(text[n]) {
			n--
		}
		sum := sha256.Sum256([]byte(text))
		text = text[:n] + "… #" + hex.EncodeToString(sum[:8])
	}
	asked := fmt.Sprintf("%s(): “%s”", d.Type, text)
	if context == "" {
		return asked
	}
	return context + " · " + asked
}

// dialogue is what an order has to do with its page's questions. Its methods
// may be called from any goroutine.
type dialogue struct {
	r *Router
	o *order

	mu      sync.Mutex
	target  page.Target // that was agreed to last
	granted bool        // the grant is used up by this order
	over    bool        // a question was answered
	ask     *pipe.ConfirmAsk
}

// agreed notes what the action is about to press. granted says that it does
// so by its grant.
func (d *dialogue) agreed(t *page.Target, granted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.target, d.granted = *t, d.granted || granted
}

// answer decides a dialog: OK to the one that a person has agreed to, once;
// else No.
func (d *dialogue) answer(q page.Dialog) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over || d.o.isTaken() {
		return false
	}
	d.over = true
	o, g := d.o, d.o.Security.Grant
	about := elementSubject(o, &d.target)
	subject := about
	subject.Context = dialogContext(about.Context, q)
	digest := agent.Digest(o.Action, o.params, o.PageID, subject)
	switch {
	case o.agreed != "":
		if o.agreed == digest {
			return true
		}
	case g != nil && g.Digest == digest && (d.granted || d.r.grants.use(g.ID)):
		d.r.log.Info("grant used for a dialog", "seq", o.Seq, "action", o.Action, "grant", g.ID, "by", g.By, "at", g.At)
		return true
	}
	d.r.dialogs.note(digest, agent.Digest(o.Action, o.params, o.PageID, about))
	subject.URL, subject.Rule, subject.Prompt = d.target.URL, agent.RuleNativeDialog, dialogPrompt
	d.ask = &pipe.ConfirmAsk{Subject: subject, Digest: digest}
	return false
}

// missed reports whether a person agreed to a dialog that did not come up.
func (d *dialogue) missed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	yes := d.o.agreed
	if g := d.o.Security.Grant; yes == "" && g != nil {
		yes = g.Digest
	}
	return !d.over && d.r.dialogs.known(yes)
}

// asked is what a person must be asked about a dialog that got No; nil if
// there was none.
func (d *dialogue) asked(ctx context.Context) *pipe.ConfirmAsk {
	d.mu.Lock()
	ask, t := d.ask, d.target
	d.mu.Unlock()
	if ask == nil || t.Picture == nil {
		return ask
	}
	image, err := t.Picture(ctx)
	if err != nil {
		d.r.log.Debug("no picture of the element", "seq", d.o.Seq, "err", err)
	}
	ask.Image = image
	return ask
}

// elementSubject is what counts of an element in a digest.
func elementSubject(o *order, t *page.Target) agent.Subject {
	return agent.Subject{Role: t.Role, Name: t.Name, Context: t.Context, Domain: o.domain}
}

// dialogs remembers which questions of pages were put to a person: the
// digest of the question, and that of the element alone. So a yes to the
// question is known as one to the press that brings it up, before it does.
type dialogs struct {
	mu    sync.Mutex
	about map[string]string
	order []string
}

func (d *dialogs) note(digest, about string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.about[digest]; ok {
		return
	}
	if d.about == nil {
		d.about = make(map[string]string)
	}
	d.about[digest] = about
	d.order = append(d.order, digest)
	if len(d.order) > maxGrants {
		delete(d.about, d.order[0])
		d.order = d.order[1:]
	}
}

func (d *dialogs) known(digest string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.about[digest]
	return ok
}

// covers reports whether digest is of a question that came up at the element.
func (d *dialogs) covers(digest, about string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return digest != "" && d.about[digest] == about
}
