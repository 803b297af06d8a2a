package transcript

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"sgclaw/internal/record"
	"sgclaw/internal/store"
)

// Record is the part of the written record that a transcript is made from
// and goes to. The real one is store.Store.
type Record interface {
	Session(ctx context.Context, key string) (record.Session, error)
	History(ctx context.Context, session string, f store.HistoryFilter) ([]store.HistoryItem, int, error)
	Past(ctx context.Context, session, beforeRun string) (record.Past, error)
	Confirmations(ctx context.Context, f store.ConfirmationFilter) ([]store.Confirmation, error)
	AddEntry(ctx context.Context, session string, e record.Entry) (fresh bool, err error)
	PatchSession(ctx context.Context, key, by string, change func(*record.SessionSettings) error) (record.Session, error)
}

// pageSize is how much of a history is read at once.
const pageSize = 1000

// Export makes a transcript of a session: its history since the last reset,
// with the questions to people and the newest summary in their places.
// Pictures are left out. No such session is record.ErrNotFound.
func Export(ctx context.Context, r Record, key string) (Session, error) {
	info, err := r.Session(ctx, key)
	if err != nil {
		return Session{}, err
	}
	out := Session{Key: key, Agent: info.Agent, Label: info.Settings.Label, At: time.Now().UTC().Truncate(time.Millisecond)}
	history, err := all(ctx, r, key)
	if err != nil {
		return Session{}, err
	}
	past, err := r.Past(ctx, key, "")
	if err != nil {
		return Session{}, err
	}
	items := make([]Item, 0, len(history))
	for i := 0; i < len(history); {
		end := i + 1
		for run := history[i].RunID; run != "" && end < len(history) && history[end].RunID == run; {
			end++
		}
		var part []Item
		for _, h := range history[i:end] {
			part = append(part, item(h))
		}
		if run := history[i].RunID; run != "" {
			asked, err := r.Confirmations(ctx, store.ConfirmationFilter{RunID: run, Limit: 1000})
			if err != nil {
				return Session{}, err
			}
			part = withConfirmations(part, asked)
		}
		items = append(items, part...)
		// The summary stands after the last thing that it covers.
		if s := past.Summary; s != nil && (history[i].RunID == s.UpToID || history[i].RunID == "" && history[i].ID == s.UpToID) {
			items = append(items, Item{
				ID: "summary/" + s.UpToID, Role: "note", Text: s.Text, At: milli(s.At),
				EntryData: record.EntryData{Kind: KindSummary},
			})
		}
		i = end
	}
	out.Items = distinct(items)
	return out, nil
}

// all reads a whole history. If it grows meanwhile, it is read again.
func all(ctx context.Context, r Record, key string) ([]store.HistoryItem, error) {
	for {
		var out []store.HistoryItem
		first := -1
		for {
			page, total, err := r.History(ctx, key, store.HistoryFilter{Limit: pageSize, Offset: len(out)})
			if err != nil {
				return nil, err
			}
			if first < 0 {
				first = total
			}
			if total != first {
				break // begin again
			}
			out = append(page, out...)
			if len(page) == 0 || len(out) >= total {
				return out, nil
			}
		}
	}
}

func milli(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func item(h store.HistoryItem) Item {
	i := Item{ID: h.ID, Role: h.Role, Text: h.Text, Label: h.Label, By: h.By, At: milli(h.At)}
	if h.Entry != nil {
		if d, err := h.Entry.Detail(); err == nil {
			i.EntryData = d
			return i
		}
	}
	i.EntryData = record.EntryData{Calls: h.Calls, Call: h.Call, Outcome: h.Outcome, Code: h.Code, Model: h.Model, Usage: h.Usage, RunID: h.RunID}
	return i
}

// withConfirmations puts the questions to people that a run asked before
// what came of the actions that they were about.
func withConfirmations(items []Item, asked []store.Confirmation) []Item {
	for _, c := range asked {
		body, err := json.Marshal(Confirmation{c.Question, c.Decision, c.By, c.Note, c.DecidedAt})
		if err != nil {
			continue // plain data; it cannot fail
		}
		i := Item{
			ID: "confirm/" + c.Question.ID, Role: "note", At: milli(c.Question.Since), Text: sentence(c),
			EntryData: record.EntryData{Kind: KindConfirmation, Body: body, RunID: c.RunID},
		}
		at := len(items)
		for n, other := range items {
			if other.Call != nil && strings.HasSuffix(c.Question.ID, "-"+other.Call.ID) {
				at = n
				break
			}
		}
		items = append(items[:at], append([]Item{i}, items[at:]...)...)
	}
	return items
}

// sentence tells of a confirmation in words.
func sentence(c store.Confirmation) string {
	text := fmt.Sprintf("asked about %s %s %q: ", c.Question.Action, c.Question.Ask.Role, c.Question.Ask.Name)
	switch {
	case c.Decision == "":
		return text + "open"
	case c.By != "":
		text += c.Decision + " by " + c.By
	default:
		text += c.Decision
	}
	if c.Note != "" {
		text += ": " + c.Note
	}
	return text
}

// distinct makes ids that occur twice different: those of calls are unique
// in their run only.
func distinct(items []Item) []Item {
	seen := map[string]int{}
	for n := range items {
		id := items[n].ID
		if seen[id]++; seen[id] > 1 {
			items[n].ID = fmt.Sprintf("%s~%d", id, seen[id])
		}
	}
	return items
}

// Why a transcript is not imported.
var (
	// ErrOther: the session has other content than the transcript.
	ErrOther = errors.New("the session has other content")
	// ErrReset: what the transcript has was in the session before it was
	// reset.
	ErrReset = errors.New("the session had this before it was reset")
)

// Imported tells what was imported.
type Imported struct {
	Session string
	Added   int // items that were not there
	Known   int // items that were
}

// Import writes a transcript's items into a session, once: what is there
// already stays, so that an import that broke off can be repeated. A session
// that has anything that the transcript does not have is ErrOther, and stays
// as it is.
func Import(ctx context.Context, r Record, s Session, key, by string) (Imported, error) {
	out := Imported{Session: key}
	history, err := all(ctx, r, key)
	if err != nil {
		return out, err
	}
	have := make([]Item, 0, len(history))
	for _, h := range history {
		have = append(have, item(h))
	}
	texts := map[string]string{}
	for _, i := range s.Items {
		texts[i.ID] = i.Text
	}
	there := map[string]bool{}
	for _, i := range distinct(have) {
		if text, ok := texts[i.ID]; !ok || text != i.Text && text != clip(i.Text, MaxText/2) {
			return out, fmt.Errorf("%w: %s in session %s", ErrOther, i.ID, key)
		}
		there[i.ID] = true
	}
	whole := len(there) > 0 && isSession(have, there, s)
	for _, i := range s.Items {
		if there[i.ID] || whole && i.derived() {
			out.Known++
			continue
		}
		e, err := i.entry()
		if err != nil {
			return out, err
		}
		fresh, err := r.AddEntry(ctx, key, e)
		switch {
		case errors.Is(err, record.ErrConflict):
			return out, fmt.Errorf("%w: %w", ErrOther, err)
		case err != nil:
			return out, err
		case !fresh:
			return out, fmt.Errorf("%w: %s in session %s", ErrReset, i.ID, key)
		}
		out.Added++
	}
	if s.Label != "" && out.Added > 0 && len(there) == 0 {
		_, err := r.PatchSession(ctx, key, by, func(set *record.SessionSettings) error {
			if set.Label == "" {
				set.Label = s.Label
			}
			return nil
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// isSession tells whether a session is the very one that a transcript was
// made from, and not one that it was imported into before: that has no runs
// of its own.
func isSession(have []Item, there map[string]bool, s Session) bool {
	for _, i := range s.Items {
		if !there[i.ID] && !i.derived() {
			return false
		}
	}
	for _, i := range have {
		if i.derived() {
			return false
		}
	}
	return true
}

// derived tells whether an item is made by Export and not a part of a
// history.
func (i Item) derived() bool {
	return i.Kind == KindConfirmation && strings.HasPrefix(i.ID, "confirm/") || i.Kind == KindSummary && strings.HasPrefix(i.ID, "summary/")
}
