package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/workflows"
)

// eventLine is what `watch --json` prints for each event.
type eventLine struct {
	Type string `json:"type"` // "event"
	agent.Event
}

func (a *app) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watch RUN|SESSION", Short: a.t("watch"), Long: a.t("watch_long"), Args: a.exactly("RUN|SESSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, err := a.durable(ctx)
			if err != nil {
				return err
			}
			_, err = c.Describe(ctx, args[0])
			if err == nil {
				return a.watchRun(ctx, c, args[0])
			}
			if !errors.Is(err, durable.ErrNotFound) {
				return err
			}
			err = a.watchSession(ctx, c, args[0])
			if errors.Is(err, durable.ErrNotFound) {
				return fmt.Errorf("run or session %s: %w", args[0], durable.ErrNotFound)
			}
			return err
		},
	}
}

// watchSession watches the run that a session is at, and those that follow,
// until none is left.
func (a *app) watchSession(ctx context.Context, c *durable.Client, session string) error {
	last := ""
	for {
		runID, err := c.SessionRun(ctx, session)
		if err != nil {
			return err
		}
		if runID == last {
			return nil
		}
		if !a.json {
			a.note("watching", runID)
		}
		if err := a.watchRun(ctx, c, runID); err != nil {
			return err
		}
		last = runID
	}
}

// watchRun shows a run until it is over, and asks the person at the terminal
// what the run asks. It returns errDetached when the person leaves; the run
// goes on.
func (a *app) watchRun(ctx context.Context, c *durable.Client, runID string) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &watcher{
		app: a, view: newView(a), client: c, runID: runID,
		events: make(chan agent.Event, 64), outcome: make(chan ended, 1), stopped: make(chan struct{}), links: make(chan error, 16),
	}
	if a.asks {
		w.lines = a.typed()
	}
	go func() {
		defer close(w.stopped)
		a.follow(inner, c, runID, w.events, func(err error) {
			select {
			case w.links <- err:
			default:
			}
		})
	}()
	go func() {
		out, err := c.WaitResult(inner, runID)
		w.outcome <- ended{out, err}
	}()
	out, err := w.loop(inner)
	cancel()
	<-w.stopped
	w.view.clear()
	if ctx.Err() != nil {
		a.detached(runID)
		return errDetached
	}
	if err != nil {
		return err
	}
	// The summary is the model's last reply, which stands there already.
	a.shown = out.Summary != "" && strings.HasPrefix(w.view.said, strings.TrimSuffix(out.Summary, "…"))
	return a.finished(ctx, out)
}

type ended struct {
	out workflows.Outcome
	err error
}

// watcher is one run being watched.
type watcher struct {
	app     *app
	view    *view
	client  *durable.Client
	runID   string
	events  chan agent.Event
	outcome chan ended
	stopped chan struct{} // closed when nobody sends events any more
	links   chan error    // why events do not come at the moment, nil when they do again

	question *agent.Confirmation // that waits for the person
	lines    <-chan string       // what the person types; nil if nobody can
}

// drain is how long after its end a run's last events may take to arrive.
const drain = 2 * time.Second

func (w *watcher) loop(ctx context.Context) (workflows.Outcome, error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var over *ended
	var last <-chan time.Time
	told := false // the last event was shown
	for {
		select {
		case e := <-w.events:
			if err := w.show(ctx, e); err != nil {
				return workflows.Outcome{}, err
			}
			told = e.Kind == agent.EventDone
			if over != nil && told {
				return over.out, over.err
			}
		case end := <-w.outcome:
			if end.err != nil || told {
				return end.out, end.err
			}
			over, last = &end, time.After(drain)
		case <-last:
			return over.out, over.err
		case line, ok := <-w.lines:
			if !ok {
				w.lines = nil
				if w.question != nil {
					w.app.note("cannot_ask", w.runID, w.runID)
				}
				continue
			}
			w.typed(ctx, line)
		case err := <-w.links:
			w.view.clear()
			if err != nil {
				w.app.note("link_lost", err)
				continue
			}
			w.app.note("link_back")
			if w.question != nil {
				w.prompt()
			}
		case <-tick.C:
			w.view.tick()
		case <-ctx.Done():
			return workflows.Outcome{}, ctx.Err()
		}
	}
}

func (w *watcher) show(ctx context.Context, e agent.Event) error {
	if w.app.json {
		return w.app.emit(eventLine{"event", e})
	}
	switch e.Kind {
	case agent.EventConfirm:
		var q agent.Confirmation
		if err := json.Unmarshal(e.Data, &q); err != nil {
			return fmt.Errorf("event %s: %w", e.Kind, err)
		}
		w.ask(ctx, q)
		return nil
	case agent.EventConfirmed:
		var ans agent.Answer
		if err := json.Unmarshal(e.Data, &ans); err != nil {
			return fmt.Errorf("event %s: %w", e.Kind, err)
		}
		w.settle(ans.ConfirmID)
		w.view.answered(ans)
		return nil
	}
	if e.Kind == agent.EventState || e.Kind == agent.EventDone {
		w.settle("")
	}
	return w.view.event(e)
}

// settle takes back a question that is answered.
func (w *watcher) settle(id string) {
	if w.question == nil || id != "" && w.question.ID != id {
		return
	}
	w.question = nil
	w.view.quiet = false
}

// ask shows a question and, at a terminal, waits for an answer. A question
// from the past, shown because the whole run is, is asked no more.
func (w *watcher) ask(ctx context.Context, q agent.Confirmation) {
	w.view.question(q)
	if !w.app.asks {
		w.view.line(w.app.dim(w.app.t("answer_hint", w.runID, w.runID)))
		return
	}
	// When nobody answers it may well be open.
	if st, err := w.client.State(ctx, w.runID); err == nil && (st.Confirm == nil || st.Confirm.ID != q.ID) {
		return
	}
	if w.lines == nil {
		w.app.note("cannot_ask", w.runID, w.runID)
		return
	}
	w.question = &q
	w.view.quiet = true
	w.forget()
	w.prompt()
}

// forget drops what was typed before a question stood on the screen: it is
// no answer to it.
func (w *watcher) forget() {
	for {
		select {
		case _, ok := <-w.lines:
			if !ok {
				return
			}
		default:
			return
		}
	}
}

// typed returns the lines that the person types. They are read by one reader
// for as long as the program runs, so that none is lost between two runs.
func (a *app) typed() <-chan string {
	if a.lines == nil {
		a.lines = make(chan string)
		go readLines(bufio.NewScanner(a.stdin), a.lines)
	}
	return a.lines
}

// readLines ends with its input.
func readLines(s *bufio.Scanner, lines chan<- string) {
	defer close(lines)
	for s.Scan() {
		lines <- s.Text()
	}
}

func (w *watcher) prompt() {
	w.view.clear()
	fmt.Fprint(w.app.stderr, w.app.bold(w.app.t("prompt"))+" ")
}

// typed takes what the person typed: yes, no with a note, anything else is
// asked again.
func (w *watcher) typed(ctx context.Context, line string) {
	if w.question == nil {
		return
	}
	word, note, _ := strings.Cut(strings.TrimSpace(line), " ")
	answer := agent.Answer{ConfirmID: w.question.ID, Digest: w.question.Digest, By: w.app.who(), Note: strings.TrimSpace(note)}
	switch strings.ToLower(word) {
	case "y", "yes", "是", "好", "批准", "同意":
		answer.Approved = true
	case "n", "no", "否", "不", "拒绝":
	case "?", "？":
		w.view.question(*w.question)
		w.prompt()
		return
	default:
		w.prompt()
		return
	}
	id := w.question.ID
	w.app.recordAnswer(ctx, w.runID, answer)
	_, receipt, err := w.client.Confirm(ctx, w.runID, answer)
	switch {
	case err == nil:
		w.settle(id)
		w.app.signalled(w.app.stderr, receipt)
	case errors.Is(err, durable.ErrAlreadyDecided), errors.Is(err, durable.ErrUnknownConfirm), errors.Is(err, durable.ErrNothingToConfirm),
		errors.Is(err, durable.ErrRunOver), errors.Is(err, durable.ErrConfirmExpired):
		// Somebody else was quicker, or it was too late: nothing is open.
		w.settle(id)
		w.app.note("too_late")
	default:
		w.app.note("not_answered", err)
		w.prompt()
	}
}
