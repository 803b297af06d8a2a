package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sgclaw/activities"
	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/browser"
	"sgclaw/internal/build"
	"sgclaw/internal/journal"
	"sgclaw/internal/pipe"
	"sgclaw/internal/policy"
)

// How the two seconds of a shutdown are spent (pipe.StopGrace): the command
// in hand gets most of them, then the process ends whatever hangs.
const (
	finishGrace = 1200 * time.Millisecond
	stopGrace   = 1700 * time.Millisecond
)

// session is one conversation with a browser host, from the handshake to the
// end of the process.
type session struct {
	settings settings
	log      *slog.Logger
	shake    pipe.Handshake
	client   *browser.Client
	journal  *journal.Journal
	gate     *gate
	acts     *activities.Browser
	status   *status
}

// serve runs the agent until the host or a signal ends it, and returns the
// exit status.
func serve(ctx context.Context, set settings, stdin io.Reader, wire io.Writer) int {
	log := set.log
	gate, err := newGate(log, set.rules)
	if err != nil {
		log.Error("policy cannot be used", "err", err)
		return exitUsage
	}
	r, w := pipe.NewReader(stdin), pipe.NewWriter(wire)
	shake, err := pipe.AgentHandshake(ctx, r, w, action.Names(), func(init pipe.Init) (string, error) {
		switch {
		case init.BrowserID != "":
			return init.BrowserID, nil
		case set.browserID != "":
			return set.browserID, nil
		}
		return journal.BrowserID(set.dataDir)
	})
	if err != nil {
		return refused(ctx, log, err)
	}
	log = log.With("browser", shake.Ack.BrowserID, "agent", shake.Ack.AgentID[:8])
	log.Info("handshake done", "version", shake.Init.Version, "capabilities", shake.Init.Capabilities)
	s := &session{
		settings: set, log: log, shake: shake, gate: gate,
		client: browser.New(log, r, w, shake),
	}
	s.status = &status{client: s.client}
	return s.run(ctx)
}

// refused is the exit status after a handshake that came to nothing.
func refused(ctx context.Context, log *slog.Logger, err error) int {
	var bad *pipe.Error
	switch {
	case errors.As(err, &bad):
		log.Error("handshake came to nothing", "code", bad.Code, "err", bad.Message)
		return exitHandshake
	case ctx.Err() != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		log.Info("ended before the handshake")
		return exitOK
	}
	log.Error("handshake came to nothing", "err", err)
	return exitHandshake
}

func (s *session) run(ctx context.Context) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		if err := s.client.Run(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			s.log.Warn("pipe broke", "err", err)
		}
	}()
	go func() {
		select {
		case <-s.client.Shutdown():
			s.log.Info("the browser asks to end")
		case <-s.client.Done():
			s.log.Info("the browser closed the pipe")
		case <-ctx.Done():
			s.log.Info("ending on a signal")
		}
		s.client.Drain()
		cancel()
	}()
	s.status.starting()
	finished := make(chan error, 1)
	go func() { finished <- s.work(ctx) }()
	select {
	case err := <-finished:
		if err != nil && ctx.Err() == nil {
			s.log.Error("cannot serve the browser", "err", err)
			s.client.Tell(0, pipe.Errorf(pipe.CodeInternal, "%v", err))
			s.farewell(err.Error())
			return exitFault
		}
	case <-ctx.Done():
		select {
		case err := <-finished:
			if err != nil {
				s.log.Warn("ended before the work began", "err", err)
			}
		case <-time.After(stopGrace):
			s.log.Warn("ending with work still in hand; the journal has it")
		}
	}
	s.farewell("")
	return exitOK
}

// farewell tells the browser, if it still listens, that this was all.
func (s *session) farewell(why string) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	err := s.client.Send(ctx, &pipe.State{Type: pipe.TypeState, State: pipe.StateStopped, Detail: why})
	if err != nil && !errors.Is(err, io.ErrClosedPipe) {
		s.log.Warn("farewell not sent", "err", err)
	}
}

// work does all that is to be done between handshake and end. It returns
// when the context has ended and everything is down, or with an error if the
// browser cannot be served.
func (s *session) work(ctx context.Context) error {
	j, err := journal.Open(ctx, s.log, s.settings.dataDir, s.shake.Ack.BrowserID)
	if errors.Is(err, journal.ErrLocked) {
		return fmt.Errorf("another pipehost serves the browser %q: %w", s.shake.Ack.BrowserID, err)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err := j.Close(); err != nil {
			s.log.Error("journal not closed", "err", err)
		}
	}()
	s.journal = j
	if err := s.gate.attach(j); err != nil {
		return err
	}
	s.acts = activities.NewBrowser(s.log, s.client, j, s.gate, activities.BrowserConfig{
		SnapshotAfter: slices.Contains(s.shake.Init.Capabilities, pipe.CapSnapshotAfter),
		Locale:        s.settings.locale,
	})
	var wg sync.WaitGroup
	wg.Go(func() { s.receive(ctx) })
	wg.Go(func() { s.link(ctx) })
	wg.Go(func() { j.Tend(ctx) })
	wg.Go(func() { s.reloads(ctx) })
	wg.Wait()
	return nil
}

// reloads puts the rules file in force again on SIGHUP.
func (s *session) reloads(ctx context.Context) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			if err := s.gate.reload(); err != nil {
				s.log.Error("rules not reloaded, the old ones stay in force", "err", err)
				continue
			}
			s.log.Info("rules reloaded")
		}
	}
}

// Body and Presence answer the queries of the workflow that stands for the
// browser (workflows.Shelf).
func (s *session) Body(ref string) (agent.Body, error) { return s.journal.Body(ref) }

// Presence tells who serves the browser.
func (s *session) Presence() activities.Presence {
	page, _ := s.client.Page("")
	return activities.Presence{BrowserID: s.shake.Ack.BrowserID, AgentID: s.shake.Ack.AgentID, Version: build.Version(), Page: page}
}

// status tells the browser how the agent stands, each change once.
type status struct {
	client *browser.Client
	mu     sync.Mutex
	state  string
	away   string // why the server cannot be used
	stuck  string // why a message of the browser is not delivered yet
}

// starting is the state before the first connection.
func (t *status) starting() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tell(pipe.StateStarting, "")
}

// server notes whether the server can be used; nil if it can.
func (t *status) server(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away = reason(err)
	t.refresh()
}

// delivery notes whether the browser's messages get through.
func (t *status) delivery(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stuck = reason(err)
	t.refresh()
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (t *status) refresh() {
	switch {
	case t.away != "":
		t.tell(pipe.StateOffline, t.away)
	case t.stuck != "":
		t.tell(pipe.StateOffline, t.stuck)
	default:
		t.tell(pipe.StateRunning, "")
	}
}

func (t *status) tell(state, detail string) {
	if state == t.state {
		return
	}
	t.state = state
	t.client.Offer(&pipe.State{Type: pipe.TypeState, State: state, Detail: detail})
}

func (t *status) offline() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == pipe.StateOffline
}

// gate is layer 2 of the access control: the policy's engine, its rules
// file, and the memory of cooldowns over restarts.
type gate struct {
	log     *slog.Logger
	path    string
	engine  *policy.Engine
	journal atomic.Pointer[journal.Journal]
	mu      sync.Mutex
	cooling map[string]time.Time // what the journal knows
}

// newGate loads the rules. Without a file nothing is permitted; a file with
// faults is an error that names them all.
func newGate(log *slog.Logger, path string) (*gate, error) {
	g := &gate{log: log, path: path, cooling: map[string]time.Time{}}
	rules, err := policy.Load(path)
	if errors.Is(err, os.ErrNotExist) {
		log.Warn("no rules file, so nothing is permitted", "path", path)
		rules, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	g.engine = policy.New(rules, nil)
	return g, nil
}

func (g *gate) reload() error {
	rules, err := policy.Load(g.path)
	if err != nil {
		return err
	}
	g.engine.Reload(rules)
	return nil
}

func (g *gate) attach(j *journal.Journal) error {
	cooling, err := j.Cooling()
	if err != nil {
		return err
	}
	g.engine.Restore(cooling)
	g.journal.Store(j)
	return nil
}

// Check judges an action (activities.Policy).
func (g *gate) Check(req policy.Request) policy.Verdict {
	v := g.engine.Check(req)
	if v.Code == policy.CodeRateLimit {
		g.keep(req.Domain)
	}
	return v
}

// keep writes a cooldown that has just begun to the journal.
func (g *gate) keep(domain string) {
	until, ok := g.engine.Cooldowns()[domain]
	j := g.journal.Load()
	if !ok || j == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// The same cooldown is told with some nanoseconds of difference.
	if until.Sub(g.cooling[domain]) < time.Second {
		return
	}
	if err := j.Cool(domain, until); err != nil {
		g.log.Error("cooldown not kept", "host", domain, "err", err)
		return
	}
	g.cooling[domain] = until
}
