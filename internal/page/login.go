package page

import (
	"context"
	"time"

	"sgclaw/internal/pipe"
)

// Login is what FillLogin fills in. Empty selectors are found by looking at
// the form.
type Login struct {
	Domain           string // the page must be there
	User, Password   string
	UserSelector     string
	PasswordSelector string
	SubmitSelector   string
}

// FillLogin fills in the login form that the page shows and submits it.
// SESSION_LOGIN_FAILED means that there is no such form, or that the page
// still asks for the password afterwards. User and password go to the page
// and nowhere else: no log, no reply.
func (p *Page) FillLogin(ctx context.Context, l Login) (*pipe.Data, *pipe.Error) {
	release, err := p.acquire(ctx)
	if err != nil {
		return &pipe.Data{Page: ptr(p.Info())}, fault(err)
	}
	defer release()
	c := newClock(ctx, patience)
	defer c.stop()
	e := login(c, p, l)
	data := &pipe.Data{}
	if e == nil {
		data.Text = "logged in to " + l.Domain
	}
	p.finish(c.ctx, Request{}, data, e)
	return data, e
}

func login(c *clock, p *Page, l Login) *pipe.Error {
	if e := p.expect(l.Domain); e != nil {
		return e
	}
	var form answer
	end := time.Now().Add(p.b.opts.Patience)
	for {
		form = answer{}
		err := p.ask(c.ctx, p.main(), "login", args{User: l.UserSelector, Password: l.PasswordSelector, Submit: l.SubmitSelector}, &form)
		if err != nil {
			return fault(err)
		}
		if form.Invalid != "" {
			return pipe.Errorf(pipe.CodeInvalidSelector, "a selector of the login form is not valid CSS: %s", form.Invalid)
		}
		if !form.None {
			break
		}
		if time.Now().After(end) {
			return pipe.Errorf(pipe.CodeSessionLoginFail, "the page shows no login form; navigate to the login page first")
		}
		if err := pause(c.ctx, 100*time.Millisecond); err != nil {
			return fault(err)
		}
	}
	w, err := p.world(c.ctx, p.main())
	if err != nil {
		return fault(err)
	}
	at := func(id int) found { return found{node: node{frame: p.main(), token: w.token, id: id}, matched: 1} }
	r := Request{ExpectedDomain: l.Domain}
	fill := func(id int, what, text, tail string) *pipe.Error {
		a := newAttempt(c, p, r, what)
		for {
			_, done, e := a.fill(at(id), text, tail, true)
			if e != nil || done {
				return e
			}
			if e := a.again(a.why); e != nil {
				return e
			}
		}
	}
	if form.User > 0 {
		if e := fill(form.User, "the user name's field", l.User, ""); e != nil {
			return e
		}
	}
	tail := ""
	if form.Submit == 0 {
		tail = "\n"
	}
	if e := fill(form.Password, "the password's field", l.Password, tail); e != nil {
		return e
	}
	if form.Submit > 0 {
		if e := newAttempt(c, p, r, "the login button").clickUntil(at(form.Submit)); e != nil {
			return e
		}
		if e := p.afterwards(c.ctx, nil); e != nil {
			return e
		}
	}
	return loggedIn(c.ctx, p)
}

// loggedIn waits until the page no longer asks for a password.
func loggedIn(ctx context.Context, p *Page) *pipe.Error {
	end := time.Now().Add(5 * time.Second)
	for {
		var a answer
		if err := p.ask(ctx, p.main(), "loginShown", args{}, &a); err != nil {
			return fault(err)
		}
		if !a.Shown {
			return nil
		}
		if time.Now().After(end) {
			return pipe.Errorf(pipe.CodeSessionLoginFail, "the page still asks for a password; check the credentials")
		}
		if err := pause(ctx, 150*time.Millisecond); err != nil {
			return fault(err)
		}
	}
}
