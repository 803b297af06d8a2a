package feed

import (
	"maps"
	"slices"
	"sync"
)

// maxChanged bounds how many sessions a Changes remembers.
const maxChanged = 10_000

// Changes tells which sessions got events, of all there are: names only, and
// each once however many events it got since the last Take.
type Changes struct {
	// C holds a value when Take has something to tell.
	C <-chan struct{}

	feed *Feed
	wake chan struct{}

	mu       sync.Mutex
	sessions map[string]struct{}
	missed   bool
}

// Changes starts to listen for all sessions. The caller closes it; it ends
// with the feed, without a word.
func (f *Feed) Changes() *Changes {
	wake := make(chan struct{}, 1)
	c := &Changes{C: wake, feed: f, wake: wake, sessions: map[string]struct{}{}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[c] = struct{}{}
	return c
}

// Take returns the sessions that got events since the last Take. With
// missed, others may have too: the connection was down meanwhile, or there
// were too many to remember.
func (c *Changes) Take() (sessions []string, missed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sessions, missed = slices.Sorted(maps.Keys(c.sessions)), c.missed
	clear(c.sessions)
	c.missed = false
	return sessions, missed
}

// Close ends it. It may be called more than once.
func (c *Changes) Close() {
	c.feed.mu.Lock()
	defer c.feed.mu.Unlock()
	delete(c.feed.all, c)
}

func (c *Changes) add(session string) {
	c.mu.Lock()
	if len(c.sessions) < maxChanged {
		c.sessions[session] = struct{}{}
	} else {
		c.missed = true
	}
	c.mu.Unlock()
	c.tell()
}

func (c *Changes) miss() {
	c.mu.Lock()
	c.missed = true
	c.mu.Unlock()
	c.tell()
}

func (c *Changes) tell() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (f *Feed) changed(session string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.all {
		c.add(session)
	}
}
