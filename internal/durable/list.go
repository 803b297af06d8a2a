package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sync/errgroup"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/workflows"
)

// Filter narrows a list of runs. Zero fields do not.
type Filter struct {
	Status  agent.Status
	Active  bool // only runs that are not over
	Browser string
	Session string
	User    string
	Limit   int // 20 if 0, at most 1000
}

// List returns runs, the latest first, those that wait in a session before
// all others. The server needs a moment until a new run is listed.
func (c *Client) List(ctx context.Context, f Filter) ([]Run, error) {
	if f.Limit <= 0 {
		f.Limit = 20
	}
	f.Limit = min(f.Limit, 1000)
	var runs []Run
	if f.User == "" && f.Browser == "" && (f.Status == "" || f.Status == agent.StatusQueued) {
		queued, err := c.queued(ctx, func(string) bool { return true })
		if err != nil && !errors.Is(err, ErrNoWorker) {
			return nil, err
		}
		for _, r := range queued {
			if f.Session == "" || r.Session == f.Session {
				runs = append(runs, r)
			}
		}
	}
	if f.Status == agent.StatusQueued {
		return runs[:min(len(runs), f.Limit)], nil
	}
	q, err := f.query()
	if err != nil {
		return nil, err
	}
	ids, err := c.find(ctx, q, f.Limit)
	if err != nil {
		return nil, fault(ctx, "list runs", err)
	}
	// The list shows executions as they were some moments ago, and of a
	// rewound run the old ones too; the description is of now.
	described := make([]*Run, len(ids))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i, id := range ids {
		g.Go(func() error {
			r, err := c.describe(gctx, runIDOf(id))
			if err != nil {
				if errors.Is(err, ErrNotFound) {
					return nil
				}
				return err
			}
			if f.match(r) {
				described[i] = &r
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, r := range described {
		if r != nil {
			runs = append(runs, *r)
		}
	}
	return runs[:min(len(runs), f.Limit)], nil
}

func (f Filter) match(r Run) bool {
	return (f.Status == "" || f.Status == r.Status) && (!f.Active || r.EndedAt.IsZero())
}

// query builds the visibility query of a filter.
func (f Filter) query() (string, error) {
	terms := []string{"WorkflowType = '" + workflows.RunType + "'", "ExecutionStatus != 'ContinuedAsNew'"}
	for _, t := range []struct{ attr, value string }{
		{workflows.AttrBrowser, f.Browser}, {workflows.AttrSession, f.Session}, {workflows.AttrUser, f.User},
	} {
		if t.value == "" {
			continue
		}
		if err := checkKey("filter", t.value); err != nil {
			return "", err
		}
		terms = append(terms, t.attr+" = '"+t.value+"'")
	}
	switch {
	case f.Status == agent.StatusAborted:
		terms = append(terms, "("+workflows.AttrState+" = 'aborted' OR ExecutionStatus IN ('Terminated', 'Canceled'))")
	case f.Status == agent.StatusFailed:
		terms = append(terms, "("+workflows.AttrState+" = 'failed' OR ExecutionStatus IN ('Failed', 'TimedOut'))")
	case f.Status != "":
		if err := checkID("status", string(f.Status)); err != nil {
			return "", err
		}
		terms = append(terms, workflows.AttrState+" = '"+string(f.Status)+"'")
	}
	if f.Active {
		terms = append(terms, "ExecutionStatus = 'Running'")
	}
	return strings.Join(terms, " AND "), nil
}

// find returns the ids of the workflows that a visibility query matches,
// each once, the latest started first.
func (c *Client) find(ctx context.Context, query string, limit int) ([]string, error) {
	var ids []string
	var token []byte
	for {
		page, err := c.tc.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: c.ns, Query: query, PageSize: int32(min(limit+10, 200)), NextPageToken: token,
		})
		if err != nil {
			return nil, err
		}
		for _, e := range page.GetExecutions() {
			if id := workflowIDOf(e); !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		token = page.GetNextPageToken()
		if len(token) == 0 || len(ids) >= limit {
			return ids, nil
		}
	}
}

func workflowIDOf(e *workflowpb.WorkflowExecutionInfo) string {
	return e.GetExecution().GetWorkflowId()
}

func runIDOf(workflowID string) string {
	return strings.TrimPrefix(workflowID, workflows.RunWorkflowID(""))
}

// sessions returns the keys of the open sessions, the latest first.
func (c *Client) sessions(ctx context.Context) ([]string, error) {
	ids, err := c.find(ctx, "WorkflowType = '"+workflows.SessionType+"' AND ExecutionStatus = 'Running'", maxSessions)
	if err != nil {
		return nil, fault(ctx, "list sessions", err)
	}
	for i, id := range ids {
		ids[i] = strings.TrimPrefix(id, workflows.SessionID(""))
	}
	return ids, nil
}

// SessionRun returns the run that a session is at, or if there is none, the
// first that waits, or the last that it ran.
func (c *Client) SessionRun(ctx context.Context, session string) (string, error) {
	if err := checkKey("session", session); err != nil {
		return "", err
	}
	box, err := c.Inbox(ctx, session)
	switch {
	case err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrNoWorker):
		return "", err
	case err == nil && box.Running != "":
		return box.Running, nil
	case err == nil && len(box.Queued) > 0:
		return box.Queued[0], nil
	}
	ids, err := c.find(ctx, "WorkflowType = '"+workflows.RunType+"' AND "+workflows.AttrSession+" = '"+session+"'", 1)
	if err != nil {
		return "", fault(ctx, "session "+session, err)
	}
	if len(ids) == 0 {
		return "", fmt.Errorf("session %s: %w", session, ErrNotFound)
	}
	return runIDOf(ids[0]), nil
}

// Browser is a browser that runs can act in.
type Browser struct {
	ID string `json:"id"`
	// Online is true when its pipehost answered just now.
	Online  bool       `json:"online"`
	AgentID string     `json:"agent_id,omitempty"`
	Version string     `json:"version,omitempty"`
	Page    agent.Page `json:"page,omitzero"`
	// LastSeen is when its pipehost last asked for work, zero if not in the
	// last minutes.
	LastSeen time.Time `json:"last_seen,omitzero"`
}

// presenceTimeout bounds how long a pipehost may take to say that it is
// there.
const presenceTimeout = 3 * time.Second

// Browsers returns all browsers that ever served this namespace, sorted by
// id, and whether they are online.
func (c *Client) Browsers(ctx context.Context) ([]Browser, error) {
	ids, err := c.find(ctx, "WorkflowType = '"+activities.BrowserWorkflow+"' AND ExecutionStatus = 'Running'", 1000)
	if err != nil {
		return nil, fault(ctx, "list browsers", err)
	}
	slices.Sort(ids)
	browsers := make([]Browser, len(ids))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i, id := range ids {
		g.Go(func() error {
			browsers[i].ID = strings.TrimPrefix(id, activities.BrowserQueue(""))
			return c.presence(gctx, &browsers[i])
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return browsers, nil
}

func (c *Client) presence(ctx context.Context, b *Browser) error {
	queue := activities.BrowserQueue(b.ID)
	pollers, err := c.pollers(ctx, queue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil {
		return err
	}
	for _, p := range pollers {
		if p.LastSeen.After(b.LastSeen) {
			b.LastSeen = p.LastSeen
		}
	}
	if len(pollers) == 0 {
		return nil
	}
	// A poller is remembered for minutes after it died; an answer is proof.
	asked, cancel := context.WithTimeout(ctx, presenceTimeout)
	defer cancel()
	var p activities.Presence
	err = c.ask(asked, queue, activities.PresenceQuery, &p)
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, ErrUnreachable) {
			return err
		}
		return nil
	}
	b.Online, b.AgentID, b.Version, b.Page = true, p.AgentID, p.Version, p.Page
	return nil
}

// Poller is a process that asks a queue for work.
type Poller struct {
	Identity string    `json:"identity"`
	LastSeen time.Time `json:"last_seen"`
}

// Workers returns the workers that asked for runs in the last minutes.
func (c *Client) Workers(ctx context.Context) ([]Poller, error) {
	return c.pollers(ctx, workflows.AgentQueue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
}

func (c *Client) pollers(ctx context.Context, queue string, typ enumspb.TaskQueueType) ([]Poller, error) {
	resp, err := c.tc.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: c.ns, TaskQueue: &taskqueuepb.TaskQueue{Name: queue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL}, TaskQueueType: typ,
	})
	if err != nil {
		return nil, fault(ctx, "queue "+queue, err)
	}
	var pollers []Poller
	for _, p := range resp.GetPollers() {
		pollers = append(pollers, Poller{Identity: p.GetIdentity(), LastSeen: p.GetLastAccessTime().AsTime()})
	}
	return pollers, nil
}

// CheckNamespace returns ErrNoNamespace if the namespace does not exist.
func (c *Client) CheckNamespace(ctx context.Context) error {
	_, err := c.tc.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: c.ns})
	return fault(ctx, "namespace "+c.ns, err)
}
