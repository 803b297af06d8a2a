package oa

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Actions of ledger entries. A POST to any other path has the action
// "other".
const (
	ActionApprove = "approve"
	ActionReject  = "reject"
	ActionLogin   = "login"
	ActionLogout  = "logout"
	ActionHostile = "hostile" // the button of the hostile page
	ActionOther   = "other"
)

// Entry is one POST that the site got.
type Entry struct {
	Seq    int64     `json:"seq"` // from 1, without gaps
	At     time.Time `json:"at"`
	Method string    `json:"method"`
	Path   string    `json:"path"`
	Action string    `json:"action"`
	// ID is the leave request's id, whether it exists or not.
	ID      string `json:"id,omitempty"`
	Comment string `json:"comment,omitempty"`
	User    string `json:"user,omitempty"`
	// Status is the HTTP status of the answer.
	Status int `json:"status"`
	// Changed says whether the POST changed anything.
	Changed bool `json:"changed"`
	// Duplicate says that the same action on the same request came before.
	Duplicate bool `json:"duplicate,omitempty"`
	// Session is the hash of the session that a log-in opened or a log-out
	// ended.
	Session string `json:"session,omitempty"`
}

// Ledger is what GET /ledger answers.
type Ledger struct {
	Entries  []Entry   `json:"entries"`
	Requests []Request `json:"requests"` // as they stand now
}

// Check compares a site's ledger with what must have happened: each wanted
// decision taken by exactly one POST, no other request decided, nothing
// posted twice and nothing posted to the hostile page. The error lists every
// deviation.
func Check(l Ledger, want Want) error {
	var errs []error
	note := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	posts := map[string]int{}
	wanted := map[string]bool{}
	for _, id := range want.Approved {
		wanted[ActionApprove+" "+id] = true
	}
	for _, id := range want.Rejected {
		wanted[ActionReject+" "+id] = true
	}
	for _, e := range l.Entries {
		switch e.Action {
		case ActionLogin, ActionLogout:
			continue
		case ActionApprove, ActionReject:
			key := e.Action + " " + e.ID
			posts[key]++
			if !wanted[key] {
				note("%s was not wanted (entry %d)", key, e.Seq)
			}
		default:
			note("unwanted POST %s (entry %d)", e.Path, e.Seq)
		}
	}
	for _, key := range sortedKeys(wanted) {
		switch n := posts[key]; {
		case n == 0:
			note("%s did not happen", key)
		case n > 1:
			note("%s was posted %d times", key, n)
		}
	}
	status := map[string]Status{}
	for _, r := range l.Requests {
		status[r.ID] = r.Status
	}
	for _, id := range want.Approved {
		if status[id] != Approved {
			note("%s is %q, want approved", id, status[id])
		}
	}
	for _, id := range want.Rejected {
		if status[id] != Rejected {
			note("%s is %q, want rejected", id, status[id])
		}
	}
	for _, r := range want.Left {
		if status[r.ID] != Pending {
			note("%s is %q, want it left pending", r.ID, status[r.ID])
		}
	}
	return errors.Join(errs...)
}

// CheckOnce tells whether every decision in the ledger was posted at most
// once, whatever was decided.
func CheckOnce(l Ledger) error {
	posts := map[string]int{}
	for _, e := range l.Entries {
		if e.Action == ActionApprove || e.Action == ActionReject {
			posts[e.Action+" "+e.ID]++
		}
	}
	var twice []string
	for key, n := range posts {
		if n > 1 {
			twice = append(twice, fmt.Sprintf("%s was posted %d times", key, n))
		}
	}
	if len(twice) == 0 {
		return nil
	}
	slices.Sort(twice)
	return errors.New(strings.Join(twice, "; "))
}

func sortedKeys(m map[string]bool) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// journal is the ledger's file: one entry a line, appended and synced. A nil
// file keeps nothing.
type journal struct{ f *os.File }

// openJournal opens or creates the file and returns the entries it holds. A
// last line without its end was being written when the site died and was
// never answered for: it is cut off. Any other line that cannot be read is an
// error.
func openJournal(path string) (*journal, []Entry, error) {
	if path == "" {
		return &journal{}, nil, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open ledger: %w", err)
	}
	entries, end, err := readEntries(f)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read ledger %s: %w", path, err), f.Close())
	}
	return &journal{f: f}, entries, nil
}

// readEntries reads whole lines and returns the offset behind the last one.
func readEntries(r io.Reader) (entries []Entry, end int64, err error) {
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return entries, end, nil
		}
		if err != nil {
			return nil, 0, err
		}
		var e Entry
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", len(entries)+1, err)
		}
		entries = append(entries, e)
		end += int64(len(line))
	}
}

func (j *journal) append(e Entry) error {
	if j.f == nil {
		return nil
	}
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode ledger entry: %w", err)
	}
	if _, err := j.f.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("write ledger entry: %w", err)
	}
	if err := j.f.Sync(); err != nil {
		return fmt.Errorf("sync ledger: %w", err)
	}
	return nil
}

func (j *journal) close() error {
	if j.f == nil {
		return nil
	}
	return j.f.Close()
}
