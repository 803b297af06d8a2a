package agent

import "strconv"

// Effect names one side effect of a run, so that it happens at most once.
type Effect struct {
	RunID   string
	Step    int
	CallID  string
	GrantID string // of the person's yes that it is done with; empty if none
	Action  string // for people; not part of the key
}

// Key is the once-only key: it depends on what the run decided, never on the
// clock, the attempt or the process.
func (e Effect) Key() string { return e.CallKey() + e.GrantID }

// CallKey is the beginning that the keys of all effects of a call share.
func (e Effect) CallKey() string {
	return e.RunID + "/" + strconv.Itoa(e.Step) + "/" + e.CallID + "/"
}
