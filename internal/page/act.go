package page

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/cdp"
	"sgclaw/internal/pipe"
)

// attempt is one action on one element, over several tries.
type attempt struct {
	p        *Page
	c        *clock
	r        Request
	selector string
	end      time.Time
	wait     time.Duration
	why      string    // what stood in the way of the last try
	approved *identity // what Inspect has agreed to
	at       string    // URL of the element's document, when it agreed
	// typesMore: text is added to what the field holds.
	typesMore bool
}

func newAttempt(c *clock, p *Page, r Request, selector string) *attempt {
	return &attempt{p: p, c: c, r: r, selector: selector, end: time.Now().Add(p.b.opts.Patience), wait: 20 * time.Millisecond}
}

// again waits before the next try, or says why there is none.
func (a *attempt) again(why string) *pipe.Error {
	a.why = why
	if a.p.asking.saidNo() {
		return pipe.Errorf(pipe.CodeNotActionable, "%s was given up: the page asked something, and was answered No", clip(a.selector, 100))
	}
	if time.Now().Add(a.wait).After(a.end) {
		return pipe.Errorf(pipe.CodeNotActionable, "%s cannot be acted on: %s", clip(a.selector, 100), a.why)
	}
	if err := pause(a.c.ctx, a.wait); err != nil {
		return fault(err)
	}
	a.wait = min(a.wait*2, 200*time.Millisecond)
	return nil
}

// inspect asks Request.Inspect about a target, off the clock. What it has
// agreed to once it is not asked about again.
func (a *attempt) inspect(t identity, submitName string, f found, rect [4]float64) *pipe.Error {
	if a.approved != nil {
		if *a.approved == t {
			return nil
		}
		return pipe.Errorf(pipe.CodeRefStale, "%s changed while it was about to be acted on: it is now %s %q; take a new snapshot", clip(a.selector, 100), t.Role, t.Name)
	}
	if e := a.p.expect(a.r.ExpectedDomain); e != nil {
		return e
	}
	var about answer
	if err := a.p.ask(a.c.ctx, f.frame, "about", args{Token: f.token}, &about); err != nil {
		return fault(err)
	}
	inFrame := f.frame != a.p.main()
	if inFrame && Domain(about.URL) != "" {
		if e := a.p.b.allowed(about.URL); e != nil {
			return e
		}
	}
	a.at = about.URL
	if a.r.Inspect == nil {
		a.approved = &t
		return nil
	}
	info := a.p.Info()
	target := Target{
		Role: t.Role, Name: t.Name, Context: t.Context, URL: info.URL, Domain: info.Domain,
		FormSubmit: t.Submit, SubmitName: submitName, LinkURL: t.Link,
		Picture: func(ctx context.Context) ([]byte, error) { return a.p.picture(ctx, f.frame, rect) },
	}
	if inFrame {
		target.FrameURL = about.URL
	}
	var e *pipe.Error
	a.c.hold(func() { e = a.r.Inspect(a.c.ctx, target) })
	if e != nil {
		return e
	}
	if a.end.Before(time.Now().Add(time.Second)) {
		a.end = time.Now().Add(time.Second) // a person was asked
	}
	if e := a.p.expect(a.r.ExpectedDomain); e != nil {
		return e
	}
	a.approved = &t
	return nil
}

// refuse is found.refuse, and CMD_REF_STALE for an element that is no longer
// what Inspect agreed to.
func (a *attempt) refuse(f found, ans answer) *pipe.Error {
	if ans.Other {
		return pipe.Errorf(pipe.CodeRefStale, "%s changed while it was about to be acted on: it is now %s %q; take a new snapshot", clip(a.selector, 100), ans.Target.Role, ans.Target.Name)
	}
	if ans.Gone && !f.ref && a.approved == nil {
		return nil // CSS finds what has taken its place
	}
	return f.refuse(a.p, ans)
}

func clickOn(c *clock, p *Page, r Request) (*pipe.Data, *pipe.Error) {
	params, err := action.Decode[action.ClickParams](r.Params)
	if err != nil {
		return nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	a := newAttempt(c, p, r, params.Selector)
	f, e := p.locate(c.ctx, params.Selector)
	if e != nil {
		return nil, e
	}
	a.end = time.Now().Add(p.b.opts.Patience)
	for {
		target, done, e := a.click(f)
		if e != nil {
			return nil, e
		}
		if done {
			e := p.afterwards(c.ctx, params.WaitAfter, f.frame)
			return &pipe.Data{Text: "clicked " + named(target), Matched: f.matched}, e
		}
		if e := a.again(a.why); e != nil {
			return nil, e
		}
		if !f.ref && a.approved == nil {
			if f, e = p.locate(c.ctx, params.Selector); e != nil {
				return nil, e
			}
		}
	}
}

func named(t identity) string {
	if t.Name == "" {
		return t.Role
	}
	return fmt.Sprintf("%s %q", t.Role, t.Name)
}

// click tries once. done is false if something stands in the way that may
// go; a.why then says what.
func (a *attempt) click(f found) (t identity, done bool, _ *pipe.Error) {
	p, ctx := a.p, a.c.ctx
	if err := p.reveal(ctx, f.frame); err != nil {
		return t, false, fault(err)
	}
	var ready answer
	if err := p.ask(ctx, f.frame, "prepare", args{Token: f.token, ID: f.id, Strict: f.ref}, &ready); err != nil {
		return t, false, a.beforePress(err)
	}
	if e := a.refuse(f, ready); e != nil {
		return t, false, e
	}
	if ready.Gone || ready.Reason != "" {
		a.why = orElse(ready.Reason, "it is gone")
		return t, false, nil
	}
	x, y, why, e := p.outward(ctx, f.frame, ready.X, ready.Y, false)
	if e != nil {
		return t, false, e
	}
	if why != "" {
		a.why = why
		return t, false, nil
	}
	// The page may react to the mouse; what counts is what is there then.
	if err := p.mouse(ctx, cdp.MouseEvent{Type: "mouseMoved", X: x, Y: y}); err != nil {
		return t, false, fault(err)
	}
	if a.r.Inspect != nil || a.r.ExpectedDomain != "" || f.frame != p.main() {
		var now answer
		if err := p.ask(ctx, f.frame, "look", args{Token: f.token, ID: f.id, Strict: f.ref}, &now); err != nil {
			return t, false, a.beforePress(err)
		}
		if e := a.refuse(f, now); e != nil {
			return t, false, e
		}
		if now.Gone || now.Reason != "" {
			a.why = orElse(now.Reason, "it is gone")
			return t, false, nil
		}
		seen := time.Now()
		if e := a.inspect(now.Target, "", f, now.Rect); e != nil {
			return t, false, e
		}
		// If nobody was asked, the page has just had its frame.
		return a.press(f, x, y, time.Since(seen) < 50*time.Millisecond)
	}
	return a.press(f, x, y, false)
}

// press checks everything again in the evaluation that says where to press,
// arms the guards and presses.
func (a *attempt) press(f found, mouseX, mouseY float64, atOnce bool) (t identity, done bool, _ *pipe.Error) {
	p, ctx := a.p, a.c.ctx
	var armed answer
	if err := p.ask(ctx, f.frame, "arm", args{Token: f.token, ID: f.id, Strict: f.ref, Expect: a.approved, URL: a.at, AtOnce: atOnce}, &armed); err != nil {
		return t, false, a.beforePress(err)
	}
	if e := a.refuse(f, armed); e != nil {
		return t, false, e
	}
	if armed.Gone || armed.Reason != "" {
		a.why = orElse(armed.Reason, "it is gone")
		return t, false, nil
	}
	t = armed.Target
	x, y, why, e := p.outward(ctx, f.frame, armed.X, armed.Y, true)
	if e != nil || why != "" {
		_, _ = a.disarm(f)
		a.why = why
		return t, false, e
	}
	events := []cdp.MouseEvent{
		{Type: "mousePressed", X: x, Y: y, Button: "left", Buttons: 1, ClickCount: 1},
		{Type: "mouseReleased", X: x, Y: y, Button: "left", ClickCount: 1},
	}
	if math.Abs(x-mouseX) > 1 || math.Abs(y-mouseY) > 1 {
		events = append([]cdp.MouseEvent{{Type: "mouseMoved", X: x, Y: y}}, events...)
	}
	a.ask(t.Role)
	pressed := p.mouse(ctx, events...)
	if pressed != nil && ignoreGone(pressed) != nil {
		return t, false, fault(pressed)
	}
	state, hit := a.disarm(f)
	switch {
	case state == "swallowed":
		a.why = "it is covered by " + hit
		return t, false, nil
	case state == "unseen" && pressed == nil:
		// The browser took the events and no document of the page got them,
		// which happens to a page that is just being drawn anew.
		a.why = "the press did not reach the page"
		return t, false, nil
	}
	return t, true, nil
}

// beforePress is fault for a time when nothing has been pressed yet: the
// outcome is then known.
func (a *attempt) beforePress(err error) *pipe.Error {
	if errors.Is(err, errHung) {
		return pipe.Errorf(pipe.CodeNotActionable, "%s was not acted on: %v; take a new snapshot", clip(a.selector, 100), errHung)
	}
	return fault(err)
}

// disarm takes the guards away and says what they saw: "swallowed" means
// that nothing was pressed, "unseen" that the press did not come to the
// element's document, which is still there.
func (a *attempt) disarm(f found) (state, hit string) {
	frames := []frameKey{f.frame}
	for _, owner := range a.p.chain(f.frame) {
		frames = append(frames, owner.frame)
	}
	for i, frame := range frames {
		var ans answer
		// A document that is gone has been left by the press.
		if err := a.p.do(a.c.ctx, frame, "disarm", args{}, &ans); err != nil {
			continue
		}
		if ans.State == "swallowed" || ans.State == "unseen" && i == 0 {
			state, hit = ans.State, ans.Hit
		}
	}
	return state, hit
}

// inputPatience is how long the page may take to handle a press. Longer, and
// the action counts as done: the press is in the page's queue.
const inputPatience = 8 * time.Second

// mouse sends mouse events in one go and waits until the page has handled
// them.
func (p *Page) mouse(ctx context.Context, events ...cdp.MouseEvent) error {
	calls := make([]command, len(events))
	for i, e := range events {
		calls[i] = command{method: "Input.dispatchMouseEvent", params: e}
	}
	return p.input(ctx, calls)
}

func (p *Page) input(ctx context.Context, calls []command) error {
	limited, cancel := context.WithTimeout(ctx, inputPatience)
	defer cancel()
	pending := make([]cdp.Pending, 0, len(calls))
	for _, c := range calls {
		call, err := p.conn.Go(limited, p.session, c.method, c.params)
		if err != nil {
			return err
		}
		pending = append(pending, call)
	}
	var first error
	for _, call := range pending {
		if err := call.Wait(limited, nil); err != nil && first == nil {
			first = err
		}
	}
	if first != nil && limited.Err() != nil && ctx.Err() == nil {
		p.stopScript(ctx, p.session)
		p.event("crash", "the page's script did not end after the input and was stopped")
		return errHung
	}
	return first
}

func typeInto(c *clock, p *Page, r Request) (*pipe.Data, *pipe.Error) {
	params, err := action.Decode[action.TypeParams](r.Params)
	if err != nil {
		return nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	text := strings.ReplaceAll(params.Text, "\r\n", "\n")
	body := strings.TrimRight(text, "\n\t")
	tail := text[len(body):]
	if strings.Contains(body, "\t") {
		return nil, pipe.Errorf(pipe.CodeInvalidParams, "a tab may only end the text: type into one field at a time")
	}
	a := newAttempt(c, p, r, params.Selector)
	a.typesMore = !params.ClearFirst && body != ""
	f, e := p.locate(c.ctx, params.Selector)
	if e != nil {
		return nil, e
	}
	a.end = time.Now().Add(p.b.opts.Patience)
	for {
		data, done, e := a.fill(f, body, tail, params.ClearFirst)
		if e != nil || done {
			if data != nil {
				data.Matched = f.matched
			}
			return data, e
		}
		if e := a.again(a.why); e != nil {
			return nil, e
		}
		if !f.ref && a.approved == nil {
			if f, e = p.locate(c.ctx, params.Selector); e != nil {
				return nil, e
			}
		}
	}
}

// fill tries once to type into a field.
func (a *attempt) fill(f found, body, tail string, clear bool) (_ *pipe.Data, done bool, _ *pipe.Error) {
	p, ctx := a.p, a.c.ctx
	if err := p.reveal(ctx, f.frame); err != nil {
		return nil, false, fault(err)
	}
	enter := strings.Contains(tail, "\n")
	var field answer
	if err := p.ask(ctx, f.frame, "field", args{Token: f.token, ID: f.id, Strict: f.ref, Enter: enter}, &field); err != nil {
		return nil, false, a.beforePress(err)
	}
	if e := a.blocked(f, field); e != nil || a.why != "" {
		return nil, false, e
	}
	if field.Multi {
		body, tail = body+strings.TrimRight(tail, "\t"), tail[len(strings.TrimRight(tail, "\t")):]
		enter = false
	} else if strings.Contains(body, "\n") {
		return nil, false, pipe.Errorf(pipe.CodeInvalidParams, "%s has one line: a newline may only end the text, as Enter", clip(a.selector, 100))
	}
	midX, midY := field.Rect[0]+field.Rect[2]/2, field.Rect[1]+field.Rect[3]/2
	if _, _, why, e := p.outward(ctx, f.frame, midX, midY, false); e != nil || why != "" {
		a.why = why
		return nil, false, e
	}
	if e := a.inspect(field.Target, field.SubmitName, f, field.Rect); e != nil {
		return nil, false, e
	}
	set := args{Token: f.token, ID: field.ID, From: f.id, Strict: f.ref, Expect: a.approved, URL: a.at, Enter: enter, Clear: clear}
	var ans answer
	a.ask(field.Target.Role)
	if field.Native {
		set.Text = body
		if err := p.do(ctx, f.frame, "setNative", set, &ans); err != nil && !errors.Is(err, errWorldGone) {
			return nil, false, a.beforePress(err)
		}
		if ans.BadValue != "" {
			return nil, false, pipe.Errorf(pipe.CodeInvalidParams, "%s: %s", clip(a.selector, 100), ans.BadValue)
		}
		if e := a.blocked(f, ans); e != nil || a.why != "" {
			return nil, false, e
		}
		if tail != "" && !p.asking.saidNo() {
			set.Clear = false
			if err := p.do(ctx, f.frame, "focus", set, &ans); err != nil {
				return nil, false, a.beforePress(err)
			}
		}
	} else {
		if err := p.do(ctx, f.frame, "focus", set, &ans); err != nil {
			return nil, false, a.beforePress(err)
		}
		if e := a.blocked(f, ans); e != nil || a.why != "" {
			return nil, false, e
		}
	}
	var keys []command
	if ans.ToEnd {
		keys = press(keys, cdp.KeyEvent{Key: "End", Code: "End", WindowsVirtualKeyCode: 35})
	}
	if !field.Native {
		keys = keystrokes(keys, body, clear && !ans.Empty)
	}
	seen, e := a.keys(f, keys, tail)
	if e != nil {
		return nil, false, e
	}
	var back answer
	err := p.do(ctx, f.frame, "readBack", args{Token: f.token, ID: field.ID}, &back)
	if err != nil && ignoreGone(err) != nil {
		return nil, false, fault(err)
	}
	data := &pipe.Data{Value: back.Value, Text: "typed into " + named(field.Target)}
	if seen == "" && back.State == "swallowed" {
		seen = back.Hit
	}
	if seen != "" {
		return data, true, pipe.Errorf(pipe.CodeNotEditable, "the focus moved to %s while typing; nothing was typed there, the field now holds %q", seen, back.Value)
	}
	if enter {
		data.Text += " and pressed Enter"
		return data, true, p.afterwards(ctx, nil, f.frame)
	}
	return data, true, nil
}

// blocked sorts what the library says against acting: for good, for now (in
// a.why), or nothing.
func (a *attempt) blocked(f found, ans answer) *pipe.Error {
	a.why = ""
	if e := a.refuse(f, ans); e != nil {
		return e
	}
	switch {
	case ans.Uneditable != "":
		return pipe.Errorf(pipe.CodeNotEditable, "%s cannot be typed into: %s", clip(a.selector, 100), ans.Uneditable)
	case ans.Gone:
		a.why = "it is gone"
	case ans.Reason != "":
		a.why = ans.Reason
	}
	return nil
}

// realKeys is up to how many ASCII characters are typed as keys; longer text
// is put in at once, with a real key at its end for the page to notice.
const realKeys = 32

// keystrokes adds the input that types text into the field that has the
// focus, over what is selected in it.
func keystrokes(list []command, text string, erase bool) []command {
	switch {
	case text == "":
		if erase {
			list = press(list, cdp.KeyEvent{Key: "Backspace", Code: "Backspace", WindowsVirtualKeyCode: 8})
		}
	case len(text) <= realKeys && printable(text):
		for _, r := range text {
			list = press(list, charKey(r))
		}
	case printable(text[len(text)-1:]):
		end := len(text) - 1
		list = append(list, command{method: "Input.insertText", params: cdp.InsertText{Text: text[:end]}})
		list = press(list, charKey(rune(text[end])))
	default:
		// What an input method does.
		list = append(list,
			command{method: "Input.dispatchKeyEvent", params: cdp.KeyEvent{Type: "rawKeyDown", Key: "Process", WindowsVirtualKeyCode: 229}},
			command{method: "Input.insertText", params: cdp.InsertText{Text: text}},
			command{method: "Input.dispatchKeyEvent", params: cdp.KeyEvent{Type: "keyUp", Key: "Process", WindowsVirtualKeyCode: 229}})
	}
	return list
}

// press adds a key going down and up.
func press(list []command, e cdp.KeyEvent) []command {
	e.Type = "keyDown"
	if e.Text == "" {
		e.Type = "rawKeyDown"
	}
	list = append(list, command{method: "Input.dispatchKeyEvent", params: e})
	e.Type, e.Text, e.UnmodifiedText = "keyUp", "", ""
	return append(list, command{method: "Input.dispatchKeyEvent", params: e})
}

// keys sends the keys of a text and then those that end it: Enter and Tab.
// stolen says where the focus went instead, if it did.
func (a *attempt) keys(f found, text []command, tail string) (stolen string, _ *pipe.Error) {
	p, ctx := a.p, a.c.ctx
	if err := p.input(ctx, text); err != nil && ignoreGone(err) != nil {
		return "", fault(err)
	}
	for _, r := range tail {
		if p.asking.saidNo() {
			return "", nil
		}
		var seen answer
		if err := p.do(ctx, f.frame, "peek", args{Token: f.token}, &seen); err != nil {
			if ignoreGone(err) != nil {
				return "", fault(err)
			}
			seen.Gone = true
		}
		if seen.Gone { // the page was left
			return "", nil
		}
		if seen.State == "swallowed" {
			return seen.Hit, nil
		}
		e := cdp.KeyEvent{Key: "Tab", Code: "Tab", WindowsVirtualKeyCode: 9}
		if r == '\n' {
			e = cdp.KeyEvent{Key: "Enter", Code: "Enter", Text: "\r", UnmodifiedText: "\r", WindowsVirtualKeyCode: 13}
		}
		if err := p.input(ctx, press(nil, e)); err != nil && ignoreGone(err) != nil {
			return "", fault(err)
		}
	}
	return "", nil
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func charKey(r rune) cdp.KeyEvent {
	e := cdp.KeyEvent{Key: string(r), Text: string(r), UnmodifiedText: string(r)}
	switch {
	case r >= 'a' && r <= 'z':
		e.WindowsVirtualKeyCode, e.Code = int(r-'a'+'A'), "Key"+strings.ToUpper(string(r))
	case r >= 'A' && r <= 'Z':
		e.WindowsVirtualKeyCode, e.Code, e.Modifiers = int(r), "Key"+string(r), 8
	case r >= '0' && r <= '9':
		e.WindowsVirtualKeyCode, e.Code = int(r), "Digit"+string(r)
	case r == ' ':
		e.WindowsVirtualKeyCode, e.Code = 32, "Space"
	}
	return e
}

func selectIn(c *clock, p *Page, r Request) (*pipe.Data, *pipe.Error) {
	params, err := action.Decode[action.SelectParams](r.Params)
	if err != nil {
		return nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	a := newAttempt(c, p, r, params.Selector)
	f, e := p.locate(c.ctx, params.Selector)
	if e != nil {
		return nil, e
	}
	a.end = time.Now().Add(p.b.opts.Patience)
	for {
		data, done, e := a.choose(f, params.Value)
		if e != nil || done {
			p.unchosen = ""
			if p.asking.saidNo() {
				p.unchosen = a.selector
			}
			if data != nil {
				data.Matched = f.matched
			}
			return data, e
		}
		if e := a.again(a.why); e != nil {
			return nil, e
		}
		if !f.ref && a.approved == nil {
			if f, e = p.locate(c.ctx, params.Selector); e != nil {
				return nil, e
			}
		}
	}
}

// choose tries once to choose an option. Options may be late, as those that
// depend on another choice.
func (a *attempt) choose(f found, value string) (_ *pipe.Data, done bool, _ *pipe.Error) {
	p, ctx := a.p, a.c.ctx
	var list answer
	if err := p.ask(ctx, f.frame, "options", args{Token: f.token, ID: f.id, Strict: f.ref}, &list); err != nil {
		return nil, false, a.beforePress(err)
	}
	if e := a.blocked(f, list); e != nil || a.why != "" {
		return nil, false, e
	}
	if list.NotSelect != "" {
		data, e := a.chooseByHand(f, value, list.NotSelect)
		return data, true, e
	}
	if e := a.inspect(list.Target, "", f, list.Rect); e != nil {
		return nil, false, e
	}
	var ans answer
	a.ask(list.Target.Role)
	err := p.do(ctx, f.frame, "choose", args{
		Token: f.token, ID: list.ID, From: f.id, Strict: f.ref, Expect: a.approved, URL: a.at, Value: value,
		// After a No, pages may leave the option chosen.
		Again: p.unchosen == a.selector,
	}, &ans)
	if err != nil && !errors.Is(err, errWorldGone) {
		return nil, false, a.beforePress(err)
	}
	if e := a.blocked(f, ans); e != nil || a.why != "" {
		return nil, false, e
	}
	if ans.NoOption != "" {
		if time.Now().Before(a.end.Add(-p.b.opts.Patience * 2 / 3)) {
			a.why = ans.NoOption
			return nil, false, nil
		}
		more := ""
		if ans.More > 0 {
			more = fmt.Sprintf(" and %d more", ans.More)
		}
		return nil, false, pipe.Errorf(pipe.CodeOptionNotFound, "%s, %q: %s; the options are: %s%s", named(list.Target), clip(value, 80), ans.NoOption, strings.Join(ans.Options, ", "), more)
	}
	data := &pipe.Data{Value: ans.Value, Text: fmt.Sprintf("selected %q in %s", ans.Value, named(list.Target))}
	return data, true, p.afterwards(ctx, nil, f.frame)
}

// chooseByHand works a home-made list: it clicks the element, and then the
// option that comes up. Both are inspected.
func (a *attempt) chooseByHand(f found, value, role string) (*pipe.Data, *pipe.Error) {
	p, ctx := a.p, a.c.ctx
	if role != "combobox" && role != "listbox" && role != "textbox" && role != "clickable" && role != "button" && role != "generic" {
		return nil, pipe.Errorf(pipe.CodeNotActionable, "%s is a %s, not a list of options", clip(a.selector, 100), role)
	}
	opener := *a
	if e := opener.clickUntil(f); e != nil {
		return nil, e
	}
	end := time.Now().Add(2 * time.Second)
	for !p.asking.saidNo() {
		var ans answer
		if err := p.ask(ctx, f.frame, "choices", args{Value: value}, &ans); err != nil {
			return nil, fault(err)
		}
		if ans.ID > 0 {
			w, err := p.world(ctx, f.frame)
			if err != nil {
				return nil, fault(err)
			}
			option := *a
			option.approved, option.end = nil, time.Now().Add(p.b.opts.Patience)
			if e := option.clickUntil(found{node: node{frame: f.frame, token: w.token, id: ans.ID}}); e != nil {
				return nil, e
			}
			data := &pipe.Data{Value: value, Text: fmt.Sprintf("selected %q", value)}
			return data, p.afterwards(ctx, nil, f.frame)
		}
		if time.Now().After(end) {
			return nil, pipe.Errorf(pipe.CodeOptionNotFound, "%s is not a select element; it was clicked, and no option %q came up (there are: %s)", clip(a.selector, 100), clip(value, 80), strings.Join(ans.Options, ", "))
		}
		if err := pause(ctx, 60*time.Millisecond); err != nil {
			return nil, fault(err)
		}
	}
	return &pipe.Data{}, nil
}

// clickUntil clicks one element, within the attempt's time.
func (a *attempt) clickUntil(f found) *pipe.Error {
	for {
		_, done, e := a.click(f)
		if e != nil || done {
			return e
		}
		if e := a.again(a.why); e != nil {
			return e
		}
	}
}
