package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/workflows"
)

// Schedule is a task that is handed to a session again and again, or once at
// a time to come. Temporal keeps it and fires it, whoever is up.
type Schedule struct {
	// ID is given by CreateSchedule.
	ID string
	// Session and Fresh are those of workflows.FireInput.
	Session string
	Fresh   bool
	// Message is the task; its ID and time are given at each firing.
	Message agent.Message
	// When it is due.
	Timing Timing
	// Skip leaves a firing out while an earlier one waits or is under way;
	// otherwise they queue up.
	Skip bool
	// Catchup is for how long a firing that was missed, because the server
	// was down, is made up for; DefaultCatchup if 0.
	Catchup time.Duration
	// Paused schedules do not fire.
	Paused bool
	// Definition is what whoever made it wants back, JSON.
	Definition json.RawMessage

	// What the server knows; ignored when a schedule is made or changed.
	CreatedAt, UpdatedAt time.Time
	Next                 time.Time // zero if there is none
	Recent               []Firing  // the newest last, at most ten
}

// Timing says when a schedule is due; one of At, Every and Cron is set.
type Timing struct {
	At time.Time // once, to the second
	// Every is an interval of at least a second. Firings are at Anchor and
	// whole multiples from it; at the epoch's if it is zero.
	Every  time.Duration
	Anchor time.Time
	// Cron has five fields: minute, hour, day of month, month, day of week,
	// in the time zone TZ, an IANA name; empty is UTC. Jitter delays each
	// firing by up to so much.
	Cron   string
	TZ     string
	Jitter time.Duration
}

// Firing is one time that a schedule fired.
type Firing struct {
	Due, At time.Time
	// RunID is the run's that it is for. There is no such run on record if
	// the firing was left out.
	RunID   string
	Session string
}

// DefaultCatchup is how old a missed firing may be to be made up for.
const DefaultCatchup = time.Hour

// scheduleID is Temporal's id of a schedule.
func scheduleID(id string) string { return "cron/" + id }

func (t Timing) spec() (client.ScheduleSpec, error) {
	spec := client.ScheduleSpec{Jitter: t.Jitter}
	set := 0
	if !t.At.IsZero() {
		set++
		at := t.At.UTC()
		one := func(n int) []client.ScheduleRange { return []client.ScheduleRange{{Start: n}} }
		spec.Calendars = []client.ScheduleCalendarSpec{{
			Year: one(at.Year()), Month: one(int(at.Month())), DayOfMonth: one(at.Day()), Hour: one(at.Hour()), Minute: one(at.Minute()), Second: one(at.Second()),
		}}
	}
	if t.Every != 0 {
		set++
		if t.Every < time.Second || t.Every%time.Second != 0 {
			return spec, fmt.Errorf("%w: an interval is whole seconds", ErrInvalid)
		}
		interval := client.ScheduleIntervalSpec{Every: t.Every}
		if !t.Anchor.IsZero() {
			interval.Offset = time.Duration(t.Anchor.Unix()) * time.Second % t.Every
		}
		spec.Intervals = []client.ScheduleIntervalSpec{interval}
	}
	if t.Cron != "" {
		set++
		if len(strings.Fields(t.Cron)) != 5 {
			return spec, fmt.Errorf("%w: a cron expression has five fields: minute, hour, day of month, month, day of week", ErrInvalid)
		}
		spec.CronExpressions, spec.TimeZoneName = []string{t.Cron}, t.TZ
	}
	if set != 1 {
		return spec, fmt.Errorf("%w: a schedule has a time, an interval or a cron expression", ErrInvalid)
	}
	return spec, nil
}

func (s Schedule) action() (*client.ScheduleWorkflowAction, error) {
	definition, err := json.Marshal(kept{s.Timing, s.Definition})
	if err != nil {
		return nil, fmt.Errorf("schedule %s: %w", s.ID, err)
	}
	return &client.ScheduleWorkflowAction{
		ID: workflows.FireWorkflowID(s.ID), Workflow: workflows.FireType, TaskQueue: workflows.AgentQueue, WorkflowTaskTimeout: workflows.TaskTimeout,
		Args: []any{workflows.FireInput{
			Schedule: s.ID, Session: s.Session, Fresh: s.Fresh, Message: s.Message, Skip: s.Skip, Definition: definition,
		}},
	}, nil
}

// kept is what goes with a schedule, since the server rewrites its times: a
// cron expression does not come back.
type kept struct {
	Timing     Timing          `json:"timing"`
	Definition json.RawMessage `json:"definition,omitempty"`
}

func (s Schedule) overlap() enumspb.ScheduleOverlapPolicy {
	if s.Skip {
		return enumspb.SCHEDULE_OVERLAP_POLICY_SKIP
	}
	return enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL
}

func (s Schedule) check() error {
	session := s.Session
	if s.Fresh {
		session = workflows.FireSession(workflows.FireInput{Session: s.Session, Fresh: true}, time.Now())
	}
	return checkTask(session, s.Message)
}

func (s Schedule) catchup() time.Duration {
	if s.Catchup <= 0 {
		return DefaultCatchup
	}
	return s.Catchup
}

// remaining is how often a schedule may still fire; 0 is always.
func (s Schedule) remaining() int {
	if s.Timing.At.IsZero() {
		return 0
	}
	return 1
}

// CreateSchedule keeps a schedule and returns its id, a new one unless it has
// one. An id that is taken is ErrInvalid.
func (c *Client) CreateSchedule(ctx context.Context, s Schedule) (string, error) {
	if s.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return "", fmt.Errorf("make an id: %w", err)
		}
		s.ID = id.String()
	}
	if err := s.check(); err != nil {
		return "", err
	}
	spec, err := s.Timing.spec()
	if err != nil {
		return "", err
	}
	action, err := s.action()
	if err != nil {
		return "", err
	}
	_, err = c.tc.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: scheduleID(s.ID), Spec: spec, Action: action, Overlap: s.overlap(), CatchupWindow: s.catchup(), Paused: s.Paused, RemainingActions: s.remaining(),
	})
	if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return "", fmt.Errorf("create schedule %s: %w: the id is taken", s.ID, ErrInvalid)
	}
	return s.ID, fault(ctx, "create schedule "+s.ID, err)
}

// UpdateSchedule changes a schedule to what change makes of it. change may be
// called more than once.
func (c *Client) UpdateSchedule(ctx context.Context, id string, change func(*Schedule) error) error {
	err := c.schedule(ctx, id).Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			s, err := toSchedule(in.Description)
			if err != nil {
				return nil, err
			}
			at := s.Timing.At
			if err := change(&s); err != nil {
				return nil, err
			}
			if err := s.check(); err != nil {
				return nil, err
			}
			spec, err := s.Timing.spec()
			if err != nil {
				return nil, err
			}
			action, err := s.action()
			if err != nil {
				return nil, err
			}
			out := in.Description.Schedule
			out.Spec, out.Action = &spec, action
			out.Policy.Overlap, out.Policy.CatchupWindow = s.overlap(), s.catchup()
			out.State.Paused = s.Paused
			if !at.Equal(s.Timing.At) {
				out.State.LimitedActions, out.State.RemainingActions = s.remaining() > 0, s.remaining()
			}
			return &client.ScheduleUpdate{Schedule: &out}, nil
		},
	})
	return fault(ctx, "update schedule "+id, err)
}

func (c *Client) schedule(ctx context.Context, id string) client.ScheduleHandle {
	return c.tc.ScheduleClient().GetHandle(ctx, scheduleID(id))
}

// DescribeSchedule returns a schedule, or ErrNotFound.
func (c *Client) DescribeSchedule(ctx context.Context, id string) (Schedule, error) {
	d, err := c.schedule(ctx, id).Describe(ctx)
	if err != nil {
		return Schedule{}, fault(ctx, "schedule "+id, err)
	}
	s, err := toSchedule(*d)
	if err != nil {
		return s, fmt.Errorf("schedule %s: %w", id, err)
	}
	return s, nil
}

// toSchedule reads what the server keeps.
func toSchedule(d client.ScheduleDescription) (Schedule, error) {
	var s Schedule
	action, ok := d.Schedule.Action.(*client.ScheduleWorkflowAction)
	if !ok || len(action.Args) != 1 {
		return s, errors.New("not a schedule of ours")
	}
	var in workflows.FireInput
	if err := payload(action.Args[0], &in); err != nil {
		return s, err
	}
	var k kept
	if err := json.Unmarshal(in.Definition, &k); err != nil {
		return s, fmt.Errorf("definition: %w", err)
	}
	s = Schedule{
		Timing: k.Timing, ID: in.Schedule, Session: in.Session, Fresh: in.Fresh, Message: in.Message, Skip: in.Skip, Definition: k.Definition,
		CreatedAt: d.Info.CreatedAt.UTC(), UpdatedAt: d.Info.LastUpdateAt.UTC(),
	}
	if s.UpdatedAt.IsZero() || s.UpdatedAt.Before(s.CreatedAt) {
		s.UpdatedAt = s.CreatedAt
	}
	if p := d.Schedule.Policy; p != nil {
		s.Catchup = p.CatchupWindow
	}
	if st := d.Schedule.State; st != nil {
		s.Paused = st.Paused
	}
	if len(d.Info.NextActionTimes) > 0 && !s.Paused {
		s.Next = d.Info.NextActionTimes[0].UTC()
	}
	for _, a := range d.Info.RecentActions {
		due := dueOf(a, s.ID)
		s.Recent = append(s.Recent, Firing{
			Due: due, At: a.ActualTime.UTC(), RunID: workflows.FireMessageID(s.ID, due), Session: workflows.FireSession(in, due),
		})
	}
	return s, nil
}

// dueOf is when a firing was due, as its workflow knows it. The time that the
// server lists has the jitter in it; the one in the workflow's id has not.
func dueOf(a client.ScheduleActionResult, id string) time.Time {
	if w := a.StartWorkflowResult; w != nil {
		due, err := time.Parse(time.RFC3339, strings.TrimPrefix(w.WorkflowID, workflows.FireWorkflowID(id)+"-"))
		if err == nil {
			return due.UTC()
		}
	}
	return a.ScheduleTime.UTC()
}

// maxSchedules bounds how many schedules are listed.
const maxSchedules = 1000

// Schedules returns all schedules, in the order of their ids, which is that
// in which they were made.
func (c *Client) Schedules(ctx context.Context) ([]Schedule, error) {
	it, err := c.tc.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: 200})
	if err != nil {
		return nil, fault(ctx, "list schedules", err)
	}
	var ids []string
	for it.HasNext() && len(ids) < maxSchedules {
		e, err := it.Next()
		if err != nil {
			return nil, fault(ctx, "list schedules", err)
		}
		if id, ours := strings.CutPrefix(e.ID, scheduleID("")); ours {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	found := make([]*Schedule, len(ids))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i, id := range ids {
		g.Go(func() error {
			s, err := c.DescribeSchedule(gctx, id)
			if errors.Is(err, ErrNotFound) {
				return nil // deleted just now
			}
			found[i] = &s
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var out []Schedule
	for _, s := range found {
		if s != nil {
			out = append(out, *s)
		}
	}
	return out, nil
}

// DeleteSchedule ends a schedule; its runs go on. ErrNotFound if there is
// none.
func (c *Client) DeleteSchedule(ctx context.Context, id string) error {
	return fault(ctx, "delete schedule "+id, c.schedule(ctx, id).Delete(ctx))
}

// TriggerSchedule fires a schedule now, and waits for some moments until the
// server says which run that is for; it is without a RunID if it does not.
// Within one second it is fired once.
func (c *Client) TriggerSchedule(ctx context.Context, id string) (Firing, error) {
	before, err := c.DescribeSchedule(ctx, id)
	if err != nil {
		return Firing{}, err
	}
	h := c.schedule(ctx, id)
	if err := h.Trigger(ctx, client.ScheduleTriggerOptions{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL}); err != nil {
		return Firing{}, fault(ctx, "trigger schedule "+id, err)
	}
	for range 50 {
		s, err := c.DescribeSchedule(ctx, id)
		if err != nil {
			return Firing{}, err
		}
		for _, f := range slices.Backward(s.Recent) {
			if !slices.Contains(before.Recent, f) {
				return f, nil
			}
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return Firing{}, err
		}
	}
	return Firing{}, nil
}

// Deliver implements activities.Deliverer.
func (c *Client) Deliver(ctx context.Context, in activities.DeliverInput) (activities.DeliverResult, error) {
	out := activities.DeliverResult{RunID: in.Message.ID}
	if in.Skip {
		busy, err := c.busy(ctx, in)
		if err != nil || busy {
			out.Skipped = busy
			return out, err
		}
	}
	_, err := c.StartTask(ctx, in.Session, in.Message)
	var invalid *serviceerror.InvalidArgument
	if errors.Is(err, ErrInvalid) || errors.As(err, &invalid) {
		return out, temporal.NewNonRetryableApplicationError(err.Error(), activities.ErrInvalid, err)
	}
	return out, err
}

// busy reports whether another firing of a schedule waits in its session or is
// under way.
func (c *Client) busy(ctx context.Context, in activities.DeliverInput) (bool, error) {
	mine := workflows.FireMessageID(in.Schedule, time.Time{})
	mine = mine[:strings.LastIndex(mine, ":")+1]
	box, err := c.Inbox(ctx, in.Session)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return false, err
	}
	for _, id := range slices.Concat([]string{box.Running}, box.Queued, box.Steered) {
		if strings.HasPrefix(id, mine) && id != in.Message.ID {
			return true, nil
		}
	}
	// Where each firing has a session of its own, or it was given to another
	// one before.
	n, err := c.tc.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: c.ns, Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND WorkflowId STARTS_WITH '%s' AND WorkflowId != '%s'",
			workflows.RunType, workflows.RunWorkflowID(mine), workflows.RunWorkflowID(in.Message.ID)),
	})
	return n.GetCount() > 0, fault(ctx, "firings of schedule "+in.Schedule, err)
}

// payload decodes an argument as the server gives it back.
func payload(arg any, to any) error {
	p, ok := arg.(*commonpb.Payload)
	if !ok {
		return fmt.Errorf("an argument of type %T", arg)
	}
	return converter.GetDefaultDataConverter().FromPayload(p, to)
}
