package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"sgclaw/internal/agent"
	"sgclaw/workflows"
)

// Started says what became of a task that was handed in.
type Started struct {
	RunID   string `json:"run_id"`
	Session string `json:"session"`
	// Known is true when the message's id was used before: the task was not
	// started again.
	Known bool `json:"known,omitempty"`
}

// OwnSession is the key of the session that a task without one gets.
func OwnSession(runID string) string { return workflows.SingleSession + runID }

// StartTask hands a task to a session, which is started when it is not
// there. An empty session gives the task one of its own. An empty m.ID gets
// a new UUID v7; a message whose id the session knows is not run again. What
// becomes of it in a busy session is for the session to decide; see
// agent.Message. ErrFull if very many wait there.
func (c *Client) StartTask(ctx context.Context, session string, m agent.Message) (Started, error) {
	var before Run // what the id was used for before
	if m.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return Started{}, fmt.Errorf("make an id: %w", err)
		}
		m.ID = id.String()
	} else if err := checkID("id", m.ID); err != nil {
		return Started{}, err
	} else if before, err = c.describe(ctx, m.ID); err != nil && !errors.Is(err, ErrNotFound) {
		return Started{}, err
	}
	if session == "" {
		session = OwnSession(m.ID)
	}
	if err := checkTask(session, m); err != nil {
		return Started{}, err
	}
	started := Started{RunID: m.ID, Session: session}
	if before.RunID != "" {
		started.Known, started.Session = true, cmp.Or(before.Session, session)
		return started, nil
	}
	if waits, err := c.waits(ctx, session, m.ID); err != nil || waits {
		started.Known = waits
		return started, err
	}
	if m.At.IsZero() {
		m.At = time.Now().UTC()
	}
	opts := client.StartWorkflowOptions{
		TaskQueue:           workflows.AgentQueue,
		WorkflowTaskTimeout: workflows.TaskTimeout,
		StaticSummary:       "session " + session,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword(workflows.AttrSession).ValueSet(session),
			temporal.NewSearchAttributeKeyKeyword(workflows.AttrUser).ValueSet(m.Origin.User),
		),
	}
	send := func() error {
		_, err := c.tc.SignalWithStartWorkflow(ctx, workflows.SessionID(session), workflows.MessageSignal, m,
			opts, workflows.SessionType, workflows.SessionInput{Key: session})
		return err
	}
	err := send()
	var invalid *serviceerror.InvalidArgument
	if errors.As(err, &invalid) {
		// Before the first worker ever ran, the namespace may not know the
		// search attributes.
		missing, merr := c.MissingSearchAttributes(ctx)
		if merr == nil && len(missing) > 0 {
			if err := c.EnsureSearchAttributes(ctx); err != nil {
				return Started{}, err
			}
			err = send()
		}
	}
	if err != nil {
		return Started{}, fault(ctx, "start task", err)
	}
	return started, nil
}

// Bounds of a session's history, beyond which it takes no message until it
// has run some of those that wait. A server ends a workflow at about 50,000
// events or 50 MB, and what waited in it would be lost.
const (
	maxSessionEvents = 10_000
	maxSessionBytes  = 16 << 20
)

// waits reports whether an open session has got the message already; ErrFull
// if it has not and takes no more. One that waits in another session is not
// looked for; whichever gets it second refuses it.
func (c *Client) waits(ctx context.Context, session, id string) (bool, error) {
	d, err := c.tc.DescribeWorkflowExecution(ctx, workflows.SessionID(session), "")
	if err = fault(ctx, "session "+session, err); err != nil {
		if errors.Is(err, ErrNotFound) {
			return false, nil
		}
		return false, err
	}
	info := d.GetWorkflowExecutionInfo()
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return false, nil
	}
	m, err := c.mail(ctx, session, id)
	if err == nil && !m.arrived && (info.GetHistoryLength() > maxSessionEvents || info.GetHistorySizeBytes() > maxSessionBytes) {
		err = fmt.Errorf("session %s: %w", session, ErrFull)
	}
	return m.arrived, err
}

func checkTask(session string, m agent.Message) error {
	if strings.TrimSpace(m.Text) == "" {
		return fmt.Errorf("%w: the task is empty", ErrInvalid)
	}
	if len(m.Text) > agent.MaxInstruction {
		return fmt.Errorf("%w: the task has %d bytes, the limit is %d", ErrInvalid, len(m.Text), agent.MaxInstruction)
	}
	if !utf8.ValidString(m.Text) {
		return fmt.Errorf("%w: the task is not valid UTF-8", ErrInvalid)
	}
	if m.BrowserID != "" {
		if err := checkID("browser", m.BrowserID); err != nil {
			return err
		}
	}
	if m.Agent != "" {
		if err := checkID("agent", m.Agent); err != nil {
			return err
		}
	}
	if !m.Mode.Valid() {
		return fmt.Errorf("%w: mode %q is not one of %s, %s, %s", ErrInvalid, m.Mode, agent.ModeQueue, agent.ModeSteer, agent.ModeInterrupt)
	}
	if err := checkAside(m.Aside); err != nil {
		return err
	}
	return checkKey("session", session)
}

func checkAside(aside []agent.Aside) error {
	if len(aside) > agent.MaxAside {
		return fmt.Errorf("%w: %d asides, at most %d are allowed", ErrInvalid, len(aside), agent.MaxAside)
	}
	n := 0
	for _, a := range aside {
		n += len(a.Sender) + len(a.Text)
		if !utf8.ValidString(a.Sender) || !utf8.ValidString(a.Text) {
			return fmt.Errorf("%w: an aside is not valid UTF-8", ErrInvalid)
		}
	}
	if n > workflows.MaxAsideBytes {
		return fmt.Errorf("%w: the asides have %d bytes, the limit is %d", ErrInvalid, n, workflows.MaxAsideBytes)
	}
	return nil
}

// checkID accepts what can be part of a workflow id, of a once-only key and
// of a command line without quoting.
func checkID(what, id string) error {
	ok := id != "" && len(id) <= 128
	for _, r := range id {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:@-", r))
	}
	if !ok {
		return fmt.Errorf("%w: %s %q must have 1 to 128 characters out of A-Z a-z 0-9 . _ : @ -", ErrInvalid, what, id)
	}
	return nil
}

// checkKey accepts any printable text without spaces, quotes and
// backslashes.
func checkKey(what, key string) error {
	ok := key != "" && len(key) <= 200 && utf8.ValidString(key)
	for _, r := range key {
		ok = ok && unicode.IsGraphic(r) && !unicode.IsSpace(r) && !strings.ContainsRune("'\"`\\", r)
	}
	if !ok {
		return fmt.Errorf("%w: %s %q must have 1 to 200 bytes, without spaces, quotes and backslashes", ErrInvalid, what, key)
	}
	return nil
}
