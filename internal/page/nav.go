package page

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/cdp"
	"sgclaw/internal/pipe"
)

const (
	// settleMost bounds the wait after an action that says nothing about
	// waiting (seed 001 §5.2: the default of wait_after).
	settleMost = 1000 * time.Millisecond
	// settleIdle is how long a page must not change to count as settled.
	settleIdle = 100 * time.Millisecond
	// loadMost bounds the wait for a document that an action opened.
	loadMost = 8 * time.Second
)

func goTo(ctx context.Context, p *Page, r Request) (*pipe.Data, *pipe.Error) {
	params, err := action.Decode[action.NavigateParams](r.Params)
	if err != nil {
		return nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	if e := expectHost(params.URL, r.ExpectedDomain); e != nil {
		return nil, e
	}
	text, e := p.navigate(ctx, params.URL)
	if e != nil {
		return nil, e
	}
	return &pipe.Data{Text: text}, nil
}

// navigate opens a URL in the page and waits until it is loaded and quiet.
// The caller holds the page.
func (p *Page) navigate(ctx context.Context, rawURL string) (string, *pipe.Error) {
	if e := p.b.allowed(rawURL); e != nil {
		return "", e
	}
	p.wake(ctx)
	var commits int
	p.update(func(s *state) {
		s.blocked, s.hops, s.crashed = nil, nil, false
		commits = s.commits
	})
	var res cdp.NavigateResult
	start := time.Now()
	err := p.conn.Call(ctx, p.session, "Page.navigate", cdp.Navigate{URL: rawURL}, &res)
	if e := p.popBlocked(); e != nil {
		p.update(func(s *state) { s.navigating = false })
		return "", e
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			_ = p.conn.Post(context.WithoutCancel(ctx), p.session, "Page.stopLoading", nil)
			return "", pipe.Errorf(pipe.CodeNavigationFailed, "%s did not answer within %d s", clip(rawURL, 200), int(time.Since(start).Seconds()))
		}
		return "", fault(err)
	}
	switch {
	case res.IsDownload:
		p.update(func(s *state) { s.navigating = false })
		return "the URL is a download; the page stays where it was", nil
	case res.ErrorText != "":
		p.update(func(s *state) { s.navigating = false })
		return "", pipe.Errorf(pipe.CodeNavigationFailed, "%s: %s", clip(rawURL, 200), res.ErrorText)
	case res.LoaderID == "":
		return "moved within the document", nil
	}
	if err := p.await(ctx, func(s *state) bool { return s.commits > commits || s.blocked != nil }); err != nil {
		return "", fault(err)
	}
	late, err := p.loaded(ctx)
	if err != nil {
		return "", fault(err)
	}
	if err := p.settle(ctx, 60*time.Millisecond); err != nil {
		return "", fault(err)
	}
	var a answer
	if err := p.ask(ctx, p.main(), "about", args{}, &a); err != nil {
		return "", fault(err)
	}
	text := "opened " + clip(a.URL, 300)
	if a.Status >= 400 {
		text += fmt.Sprintf(" (HTTP status %d)", a.Status)
	}
	if late {
		text += "; it is still loading"
	}
	p.dropEvent("navigation")
	return text, nil
}

// wake makes sure that a page whose script hangs can be left.
func (p *Page) wake(ctx context.Context) {
	if s := p.now(); s.crashed || s.commits == 0 {
		return
	}
	short, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
	defer cancel()
	err := p.conn.Call(short, p.session, "Runtime.evaluate", cdp.Evaluate{Expression: "0"}, nil)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		p.stopScript(ctx, p.session)
		p.event("crash", "the page's script did not end and was stopped")
	}
}

// loaded waits for the load event of the document in the main frame; late
// tells that it has not come.
func (p *Page) loaded(ctx context.Context) (late bool, err error) {
	done := func(s *state) bool { return !s.navigating && (s.loader == "" || s.loaded == s.loader) }
	if err := p.awaitFor(ctx, loadMost, done); err != nil {
		return false, err
	}
	s := p.now()
	return !done(&s), nil
}

// settle waits until the page has stopped changing: no navigation under way,
// no fetch or XHR, no change of the DOM for idle. It takes settleMost at
// most, a document that is being loaded apart.
func (p *Page) settle(ctx context.Context, idle time.Duration, frames ...frameKey) error {
	end := time.Now().Add(settleMost)
	for {
		s := p.now()
		if s.crashed || s.closed {
			return nil
		}
		if s.popups > 0 {
			if err := p.awaitFor(ctx, 4*time.Second, func(s *state) bool { return s.popups == 0 || s.closed }); err != nil {
				return ignoreGone(err)
			}
			continue
		}
		if s.navigating {
			if _, err := p.loaded(ctx); err != nil {
				return ignoreGone(err)
			}
			if p.now().navigating {
				return nil
			}
			end = time.Now().Add(settleMost)
			continue
		}
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		if err := p.quiet(ctx, min(idle, left), left, frames); err != nil {
			return ignoreGone(err)
		}
		busy := func(s *state) bool { return s.navigating || s.popups > 0 }
		s = p.now()
		switch {
		case busy(&s):
		case s.waiting > 0:
			if left = time.Until(end); left <= 0 {
				return nil
			}
			if err := p.awaitFor(ctx, left, func(s *state) bool { return busy(s) || s.waiting == 0 || s.closed || s.crashed }); err != nil {
				return ignoreGone(err)
			}
			idle = 40 * time.Millisecond // for what the answer changes
		default:
			return nil
		}
	}
}

// quiet waits until the DOM rests, or something else is afoot.
func (p *Page) quiet(ctx context.Context, idle, most time.Duration, frames []frameKey) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	frames = append([]frameKey{p.main()}, frames...)
	done := make(chan error, len(frames))
	for _, f := range frames {
		go func() {
			var a answer
			err := p.do(inner, f, "quiet", args{Idle: idle.Milliseconds(), Most: most.Milliseconds()}, &a)
			done <- err
		}()
	}
	busy := make(chan struct{})
	go func() {
		_ = p.await(inner, func(s *state) bool { return s.navigating || s.popups > 0 })
		close(busy)
	}()
	for range frames {
		select {
		case err := <-done:
			if errors.Is(err, errWorldGone) {
				return nil // it navigated
			}
			if err != nil {
				return err
			}
		case <-busy:
			return nil
		}
	}
	return nil
}

// ignoreGone keeps from failing an action that was done because its page is
// closed or crashed afterwards; events tell of that.
func ignoreGone(err error) error {
	if errors.Is(err, cdp.ErrDetached) || errors.Is(err, cdp.ErrCrashed) || errors.Is(err, errHung) || errors.Is(err, errWorldGone) {
		return nil
	}
	var refused *cdp.Error
	if errors.As(err, &refused) {
		return nil
	}
	return err
}

// afterwards waits as the action wants it: for exactly wait ms, or, with nil,
// until the page has settled.
func (p *Page) afterwards(ctx context.Context, wait *int, frames ...frameKey) *pipe.Error {
	if wait != nil {
		if *wait == 0 {
			return nil
		}
		if err := pause(ctx, time.Duration(*wait)*time.Millisecond); err != nil {
			return fault(err)
		}
		return nil
	}
	if err := p.settle(ctx, settleIdle, frames...); err != nil {
		return fault(err)
	}
	return nil
}
