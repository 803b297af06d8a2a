package page

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sgclaw/internal/cdp"
	"sgclaw/internal/pipe"
)

// found is an element that a selector stands for.
type found struct {
	node
	ref     bool // addressed by ref: its identity is what a snapshot showed
	matched int
}

// find resolves a selector once; with mustShow, to a visible element only.
// An element that is not there is CMD_SELECTOR_NOT_FOUND.
func (p *Page) find(ctx context.Context, raw string, mustShow bool) (found, *pipe.Error) {
	sel, why := parseSelector(raw)
	if why != "" {
		return found{}, pipe.Errorf(pipe.CodeInvalidSelector, "%q: %s", clip(raw, 100), why)
	}
	if sel.ref > 0 {
		return p.findRef(ctx, sel.ref)
	}
	f := p.main()
	for from := 0; ; {
		var a answer
		if err := p.ask(ctx, f, "find", args{Parts: sel.parts, From: from, MustShow: mustShow}, &a); err != nil {
			return found{}, fault(err)
		}
		switch {
		case a.Invalid != "":
			return found{}, pipe.Errorf(pipe.CodeInvalidSelector, "%q is not a valid CSS selector%s", clip(raw, 100), sel.hint())
		case a.Closed > 0:
			return found{}, pipe.Errorf(pipe.CodeSelectorNotFound, "%q: the element before >>> is neither an iframe nor has it a shadow root", clip(raw, 100))
		case a.Hidden > 0:
			return found{}, pipe.Errorf(pipe.CodeSelectorNotFound, "%q matches %d elements, none of them visible", clip(raw, 100), a.Hidden)
		case a.Matched == 0:
			return found{}, pipe.Errorf(pipe.CodeSelectorNotFound, "nothing matches %q", clip(raw, 100))
		}
		w, err := p.world(ctx, f)
		if err != nil {
			return found{}, fault(err)
		}
		n := node{frame: f, token: w.token, id: a.ID}
		if a.Next == 0 {
			return found{node: n, matched: a.Matched}, nil
		}
		from = a.Next
		inner, err := p.child(ctx, n)
		if err != nil {
			if errors.Is(err, errWorldGone) {
				return found{}, pipe.Errorf(pipe.CodeSelectorNotFound, "the frame of %q went away", clip(raw, 100))
			}
			return found{}, fault(err)
		}
		f = inner
	}
}

func (p *Page) findRef(ctx context.Context, num int) (found, *pipe.Error) {
	e, ok := p.b.refs.find(num)
	if !ok || e.page != p {
		return found{}, stale(num, "its page is gone, or it never was")
	}
	var a answer
	if err := p.ask(ctx, e.node.frame, "resolve", args{Token: e.node.token, ID: e.node.id}, &a); err != nil {
		var refused *cdp.Error
		if e.node.frame != p.main() && (errors.As(err, &refused) || errors.Is(err, cdp.ErrDetached)) {
			return found{}, stale(num, "its frame is gone")
		}
		return found{}, fault(err)
	}
	switch {
	case a.Gone:
		return found{}, stale(num, "the element is gone")
	case a.Changed != "":
		return found{}, stale(num, a.Changed)
	}
	return found{node: e.node, ref: true, matched: 1}, nil
}

func stale(num int, why string) *pipe.Error {
	return pipe.Errorf(pipe.CodeRefStale, "ref %s is stale: %s; take a new snapshot", refName(num), why)
}

// refuse turns an answer about an element that is not what it was into an
// error; nil if it is.
func (f found) refuse(p *Page, a answer) *pipe.Error {
	name := "the element"
	if f.ref {
		name = "ref " + refName(p.b.refs.ref(p, f.node))
	}
	switch {
	case a.Gone:
		return pipe.Errorf(pipe.CodeRefStale, "%s is stale: the element is gone; take a new snapshot", name)
	case a.Changed != "":
		return pipe.Errorf(pipe.CodeRefStale, "%s is stale: %s; take a new snapshot", name, a.Changed)
	}
	return nil
}

// awaitElement resolves a selector, again and again until something matches.
func (p *Page) awaitElement(ctx context.Context, raw string, d time.Duration, mustShow bool) (found, *pipe.Error) {
	end := time.Now().Add(d)
	for wait := 20 * time.Millisecond; ; wait = min(wait*2, 150*time.Millisecond) {
		f, e := p.find(ctx, raw, mustShow)
		if e == nil || e.Code != pipe.CodeSelectorNotFound {
			return f, e
		}
		if time.Now().Add(wait).After(end) {
			return found{}, e
		}
		if err := pause(ctx, wait); err != nil {
			return found{}, fault(err)
		}
	}
}

// locate is awaitElement for actions: an element that does not come is answered
// with those that may have been meant.
func (p *Page) locate(ctx context.Context, raw string) (found, *pipe.Error) {
	f, e := p.awaitElement(ctx, raw, p.b.opts.Patience, false)
	if e != nil && e.Code == pipe.CodeSelectorNotFound {
		e.Message += p.nearText(ctx, raw)
	}
	return f, e
}

func (p *Page) nearText(ctx context.Context, raw string) string {
	var near candidates
	if err := p.ask(ctx, p.main(), "near", args{Selector: raw}, &near); err != nil {
		return ""
	}
	w, err := p.world(ctx, p.main())
	if err != nil || len(near) == 0 {
		return ""
	}
	list := make([]string, 0, len(near))
	for _, c := range near {
		n := p.b.refs.ref(p, node{frame: p.main(), token: w.token, id: c.ID})
		list = append(list, fmt.Sprintf("%s [ref=%s]", c.Text, refName(n)))
	}
	return "; near candidates: " + strings.Join(list, ", ")
}

type candidates []struct {
	Text string `json:"text"`
	ID   int    `json:"id"`
}

func (*candidates) missing() bool { return false }
