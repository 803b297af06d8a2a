package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/record"
	"sgclaw/internal/store/sqldb"
)

// HistoryItem is one message of a session's history as people see it.
type HistoryItem struct {
	// ID is unique in the session: the run's for a task, the instruction's,
	// the entry's, the call's for what came of it, "RUN/STEP" for a reply
	// and "RUN/end" for the end of a run that was stopped.
	ID    string
	RunID string // empty for entries
	// Role is "user" for tasks and instructions, "assistant" for the model's
	// replies, "tool" for what came of a call, "note" for what nobody said.
	Role string
	Text string
	// Calls are what a reply asks for.
	Calls []agent.Call
	// Call and Outcome are a tool's: what was done, and what came of it.
	Call    *agent.Call
	Outcome agent.Outcome
	// Code is that of the outcome, or the reason why a run was stopped.
	Code  string
	Model string
	Usage agent.Usage
	By    string // who said it
	Label string
	At    time.Time
	// Entry is what the item was made from; nil for what a run said.
	Entry *record.Entry
}

// HistoryFilter chooses a page of a session's history.
type HistoryFilter struct {
	// Limit is at most 1000; 0 means 50. Offset leaves out that many of the
	// newest.
	Limit, Offset int
	// RunID, if not empty, is the only run.
	RunID string
}

// History returns a page of a session's history since its last reset, oldest
// first, and how many items there are in all pages. It has the runs in the
// order in which they began, each whole, those under way and those that wait
// too, and the entries between them. A session that does not exist has none.
func (s *Store) History(ctx context.Context, session string, f HistoryFilter) (items []HistoryItem, total int, err error) {
	err = s.look(ctx, func(t *tx) error {
		items, total, err = t.history(ctx, session, f)
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("history of session %s: %w", session, permanent(err))
	}
	return items, total, nil
}

func (t *tx) history(ctx context.Context, session string, f HistoryFilter) ([]HistoryItem, int, error) {
	row, err := t.GetSession(ctx, session)
	if errors.Is(err, sql.ErrNoRows) {
		return []HistoryItem{}, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	groups, err := t.HistoryGroups(ctx, sqldb.HistoryGroupsParams{Session: session, Since: row.Since, RunID: nullString(f.RunID)})
	if err != nil {
		return nil, 0, err
	}
	var total int
	for _, g := range groups {
		total += int(g.Items)
	}
	last := total - max(0, f.Offset)
	first := max(0, last-int(limit(f.Limit)))
	if last <= first {
		return []HistoryItem{}, total, nil
	}
	// Only the groups that the page touches are read.
	var page []sqldb.HistoryGroupsRow
	skip, at := 0, 0
	for _, g := range groups {
		n := int(g.Items)
		if at+n > first && at < last {
			if len(page) == 0 {
				skip = first - at
			}
			page = append(page, g)
		}
		at += n
	}
	items, err := t.groupItems(ctx, session, page)
	if err != nil {
		return nil, 0, err
	}
	return items[skip : skip+last-first], total, nil
}

// groupItems reads all items of groups, in order.
func (t *tx) groupItems(ctx context.Context, session string, groups []sqldb.HistoryGroupsRow) ([]HistoryItem, error) {
	var runIDs, entryIDs []string
	for _, g := range groups {
		if g.RunID != "" {
			runIDs = append(runIDs, g.RunID)
		} else {
			entryIDs = append(entryIDs, g.EntryID)
		}
	}
	runs, err := t.GetRuns(ctx, runIDs)
	if err != nil {
		return nil, err
	}
	turns, err := t.turnsOf(ctx, runIDs)
	if err != nil {
		return nil, err
	}
	entries, err := t.GetEntries(ctx, sqldb.GetEntriesParams{Session: session, Ids: entryIDs})
	if err != nil {
		return nil, err
	}
	runByID := make(map[string]sqldb.Run, len(runs))
	for _, r := range runs {
		runByID[r.ID] = r
	}
	entryByID := make(map[string]sqldb.Entry, len(entries))
	for _, e := range entries {
		entryByID[e.ID] = e
	}
	out := []HistoryItem{}
	for _, g := range groups {
		if g.RunID == "" {
			item, err := entryItem(toEntry(entryByID[g.EntryID]))
			if err != nil {
				return nil, err
			}
			out = append(out, item)
			continue
		}
		items, err := runItems(runByID[g.RunID], turns[g.RunID])
		if err != nil {
			return nil, err
		}
		out = append(out, items...)
	}
	return out, nil
}

func entryItem(e *record.Entry) (HistoryItem, error) {
	d, err := e.Detail()
	if err != nil {
		return HistoryItem{}, err
	}
	return HistoryItem{
		ID: e.ID, Role: e.Role, Text: e.Text, Calls: d.Calls, Call: d.Call, Outcome: d.Outcome, Code: d.Code, Model: d.Model,
		Usage: d.Usage, By: e.By, Label: e.Label, At: e.At, Entry: e,
	}, nil
}

// runItems are as many as the query HistoryGroups counts.
func runItems(row sqldb.Run, turns []record.Turn) ([]HistoryItem, error) {
	run, err := toRun(row)
	if err != nil {
		return nil, err
	}
	task := HistoryItem{ID: run.ID, RunID: run.ID, Role: "user", Text: run.Task, By: run.Origin.User, At: run.CreatedAt}
	if len(turns) == 0 {
		turns = []record.Turn{{Kind: record.TurnTask}}
	}
	var out []HistoryItem
	for _, turn := range turns {
		item := HistoryItem{RunID: run.ID, At: turn.At}
		switch {
		case turn.Kind == record.TurnTask:
			item = task
		case turn.Thought != nil:
			th := turn.Thought
			item.ID, item.Role, item.Text = fmt.Sprintf("%s/%d", run.ID, turn.Step), "assistant", th.Text
			item.Calls, item.Model, item.Usage = th.Calls, th.Model, th.Usage
		case turn.Observation != nil:
			o := turn.Observation
			item.ID, item.Role, item.Text = o.Call.ID, "tool", o.Text
			item.Call, item.Outcome, item.Code = &o.Call, o.Outcome, o.Code
		default:
			item.ID, item.Role, item.Text, item.By = turn.ID, "user", turn.Text, turn.By
		}
		out = append(out, item)
	}
	if row.EndedAt.Valid && !row.Success && run.Reason != agent.ReasonGaveUp {
		out = append(out, HistoryItem{ID: run.ID + "/end", RunID: run.ID, Role: "note", Text: run.Summary, Code: run.Reason, At: run.EndedAt})
	}
	return out, nil
}

// StepImage returns the picture that an action brought, and its type. None is
// record.ErrNotFound.
func (s *Store) StepImage(ctx context.Context, runID string, step, index int) (image []byte, mime string, err error) {
	row, err := s.q.StepImage(ctx, sqldb.StepImageParams{RunID: runID, Step: int32(step), Idx: int32(index)})
	if err != nil {
		return nil, "", fmt.Errorf("picture of step %d.%d of run %s: %w", step, index, runID, notFound(err))
	}
	return row.Image, row.Mime, nil
}

// UsageRow adds up the runs of a day that one agent carried out with one
// model in one browser.
type UsageRow struct {
	Day     string // "2006-01-02" in the time zone asked for
	Agent   string // id; empty if the run never began, or had none
	Model   string // empty if none was asked
	Browser string // empty for summaries of sessions
	// Runs ended that day. Failed ones count those too that nobody answered.
	Runs, Succeeded, Failed, Aborted int
	Usage                            agent.Usage
	DurationMS                       int64 // from beginning to end, with all waiting
	Steps                            int
}

// Usage adds up the runs that ended from one moment to before another, by day
// of a time zone (an IANA name; empty is UTC), agent, model and browser. A run
// that used several models is counted in the row of the one that it used most;
// its tokens are in the rows of their models. The tokens of summaries of
// sessions are counted without a run. A time zone that the database does not
// know is record.ErrInvalid.
func (s *Store) Usage(ctx context.Context, from, to time.Time, tz string) ([]UsageRow, error) {
	if tz == "" {
		tz = "UTC"
	}
	rows, err := s.q.Usage(ctx, sqldb.UsageParams{Tz: clean(tz), Since: from, Until: to})
	if err != nil {
		return nil, fmt.Errorf("usage: %w", permanent(err))
	}
	out := make([]UsageRow, 0, len(rows))
	for _, r := range rows {
		out = append(out, UsageRow{
			Day: r.Day, Agent: r.Agent, Model: r.Model, Browser: r.Browser,
			Runs: int(r.Runs), Succeeded: int(r.Succeeded), Failed: int(r.Failed), Aborted: int(r.Aborted),
			Usage: agentUsage(r.PromptTokens, r.CompletionTokens, r.TotalTokens), DurationMS: r.DurationMs, Steps: int(r.Steps),
		})
	}
	return out, nil
}
