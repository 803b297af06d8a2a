package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sgclaw/internal/agent"
	"sgclaw/internal/child"
	"sgclaw/internal/durable"
	"sgclaw/internal/oa"
	"sgclaw/workflows"
)

// DemoUser is who answers the demo's questions when no person is at the
// terminal.
const DemoUser = "demo"

// DemoTask is the demo's task in words, for the site at url.
func DemoTask(lang, url string) string {
	if lang == "en" {
		return "Open " + url + "/?lang=en . " + oa.Task().EN + "."
	}
	return "打开 " + url + "/ ，" + oa.Task().ZH + "。"
}

// Client connects to the stack's Temporal.
func (s *Stack) Client(ctx context.Context) (*durable.Client, error) {
	return durable.Dial(ctx, s.log, durable.Config{Address: s.temporal, Namespace: "default"})
}

func (s *Stack) browserOnline(ctx context.Context) error {
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	browsers, err := c.Browsers(ctx)
	if err != nil {
		return err
	}
	for _, b := range browsers {
		if b.ID == BrowserID && b.Online {
			return nil
		}
	}
	return errors.New("the browser is not online")
}

// Terminal is where the demo shows itself and, if Person says that somebody
// is there, asks.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
	Person   bool
	Lang     string // "zh" or "en"
}

// Demo runs the main job: the task through starter, the confirmations by the
// person at the terminal or else by the signal that a person's answer would
// be, and at the end the site's own ledger against what had to happen.
func (s *Stack) Demo(ctx context.Context, t Terminal) error {
	starter, err := s.binary("starter")
	if err != nil {
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	runID := id.String()
	task := DemoTask(t.Lang, s.siteURL)
	if s.gatewayURL != "" {
		fmt.Fprintf(t.Out, "\npanel: %s\n", s.PanelURL())
	}
	fmt.Fprintf(t.Out, "\ntask: %s\nrun:  %s\nlook: %s\n\n", task, runID, s.ui+"/namespaces/default/workflows/run%2F"+runID)
	whole := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, 1)
	if t.Person {
		answers <- nil
	} else {
		fmt.Fprintf(t.Out, "nobody is at the terminal: confirmations are answered with the signal that a person's yes is\n\n")
		go func() { answers <- s.Approve(ctx, runID) }()
	}
	cmd := exec.CommandContext(ctx, starter, "start", "--id", runID, "--browser", BrowserID, "--watch", task)
	cmd.Env = append(s.Env(), "SGCLAW_LOCALE="+t.Lang)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t.In, t.Out, t.Err
	cmd.Cancel = func() error { return child.Interrupt(cmd.Process) }
	cmd.WaitDelay = 5 * time.Second
	// The run's end shows in the ledger below; starter's exit status says
	// the same in one number.
	watched := cmd.Run()
	cancel()
	if err := <-answers; err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("answer confirmations: %w", err)
	}
	fmt.Fprintf(t.Out, "\nwhat the site saw:\n%s", ledger(s.Ledger()))
	if err := whole.Err(); err != nil {
		return err
	}
	want := oa.Expected()
	if t.Person {
		refused, err := s.refused(whole, starter, runID)
		if err != nil {
			return fmt.Errorf("see what was refused: %w", err)
		}
		want.Approved = slices.DeleteFunc(want.Approved, func(id string) bool { return refused[id] })
		for _, id := range slices.Sorted(maps.Keys(refused)) {
			fmt.Fprintf(t.Out, "  refused by you, so it has to be left: %s\n", id)
		}
	}
	if err := oa.Check(s.Ledger(), want); err != nil {
		return fmt.Errorf("the site's records are not as they should be: %w", err)
	}
	if watched != nil {
		return fmt.Errorf("the run did not end well: %w", watched)
	}
	fmt.Fprintf(t.Out, "\nexactly the right things happened, each once.\n")
	return nil
}

// refused reads from the run's events which requests a person at the terminal
// did not want approved.
func (s *Stack) refused(ctx context.Context, starter, runID string) (map[string]bool, error) {
	cmd := exec.CommandContext(ctx, starter, "watch", "--json", runID)
	cmd.Env = s.Env()
	// The status tells how the run ended, which is known already.
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	asked, refused := map[string]string{}, map[string]bool{}
	for line := range bytes.Lines(out) {
		var event struct {
			Kind string `json:"kind"`
			Data struct {
				ID  string `json:"id"`
				Ask struct {
					URL string `json:"url"`
				} `json:"ask"`
				ConfirmID string `json:"confirm_id"`
				Approved  bool   `json:"approved"`
			} `json:"data"`
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, err
		}
		switch agent.EventKind(event.Kind) {
		case agent.EventConfirm:
			if u, err := url.Parse(event.Data.Ask.URL); err == nil {
				asked[event.Data.ID] = path.Base(u.Path)
			}
		case agent.EventConfirmed:
			if id, ok := asked[event.Data.ConfirmID]; ok && !event.Data.Approved {
				refused[id] = true
			}
		}
	}
	return refused, nil
}

// Approve answers yes to every question of a run until the run ends or ctx
// does, with the signal that a person's answer would be.
func (s *Stack) Approve(ctx context.Context, runID string) error {
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		// A server or worker that is away for a moment is asked again.
		st, err := c.State(ctx, runID)
		if err != nil {
			continue
		}
		if st.Status.Final() {
			return nil
		}
		if st.Confirm == nil || st.Confirm.ID == last {
			continue
		}
		err = c.Temporal().SignalWorkflow(ctx, workflows.RunWorkflowID(runID), "", workflows.ConfirmName,
			agent.Answer{ConfirmID: st.Confirm.ID, Approved: true, By: DemoUser, Digest: st.Confirm.Digest})
		if err == nil {
			last = st.Confirm.ID
		}
	}
}

// ledger tells the ledger in lines.
func ledger(l oa.Ledger) string {
	var b strings.Builder
	for _, e := range l.Entries {
		fmt.Fprintf(&b, "  %s %-8s request %s  (%s %s, status %d)\n", e.At.Local().Format(time.TimeOnly), e.Action, e.ID, e.Method, e.Path, e.Status)
	}
	if len(l.Entries) == 0 {
		b.WriteString("  nothing\n")
	}
	return b.String()
}
