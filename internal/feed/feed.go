// Package feed brings the events of sessions from PostgreSQL to whoever
// watches: from the table what was, and then live what comes, without gaps
// and without repetition, whatever happens to the connection.
//
// A process has one Feed and with it one connection that listens. A
// notification carries no event, it only says that there is one; each
// subscription then reads on from where it is, in the table. So
// notifications may be lost, doubled or merged, and a slow subscriber holds
// up nobody. Pieces of replies being written (deltas) are not in the table:
// they are passed on as they come, and left out where a subscriber cannot
// keep up or the connection is down.
package feed

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"sync"
	"time"

	"github.com/lib/pq"

	"sgclaw/internal/agent"
	"sgclaw/internal/store"
)

// Errors of a Subscription.
var (
	// ErrClosed: the feed was closed.
	ErrClosed = errors.New("the feed is closed")
	// ErrSlow: the subscriber did not take an event for too long. It may
	// subscribe again after the last one it took.
	ErrSlow = errors.New("the subscriber is too slow")
)

// errLost stands where the driver does not say why.
var errLost = errors.New("the connection ended")

// Options are choices for New; zero values work.
type Options struct {
	// Buffer is how many events wait for a subscriber, 64 if 0.
	Buffer int
	// Stall is how long a full buffer is waited for, 30 s if 0.
	Stall time.Duration
	// Poll is how often a subscription looks without being told, 30 s if 0.
	Poll time.Duration
	// Lost, if set, is told instead of the log that the connection is lost,
	// once, and with nil that it is back. It must not wait.
	Lost func(error)
}

// Feed passes events to subscriptions. It is safe for concurrent use.
type Feed struct {
	log      *slog.Logger
	store    *store.Store
	opts     Options
	listener *pq.Listener
	done     chan struct{} // closed by Close
	running  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	subs   map[string]map[*Subscription]struct{} // by session
	all    map[*Changes]struct{}
}

// New starts a feed of the events in s, which must be the database at url.
// It does not wait for the database: subscriptions do. The caller closes the
// feed, before the store.
func New(log *slog.Logger, s *store.Store, url string, opts Options) *Feed {
	if opts.Buffer <= 0 {
		opts.Buffer = 64
	}
	if opts.Stall <= 0 {
		opts.Stall = 30 * time.Second
	}
	if opts.Poll <= 0 {
		opts.Poll = 30 * time.Second
	}
	f := &Feed{log: log, store: s, opts: opts, done: make(chan struct{}), subs: map[string]map[*Subscription]struct{}{}, all: map[*Changes]struct{}{}}
	if opts.Lost == nil {
		opts.Lost = func(err error) {
			if err == nil {
				log.Info("event feed is connected again")
			} else {
				log.Warn("event feed is not connected", "err", err)
			}
		}
	}
	lost := false
	f.listener = pq.NewListener(url, 50*time.Millisecond, 2*time.Second, func(e pq.ListenerEventType, err error) {
		switch e {
		case pq.ListenerEventDisconnected, pq.ListenerEventConnectionAttemptFailed:
			if !lost {
				lost = true
				opts.Lost(cmp.Or(err, errLost))
			}
		case pq.ListenerEventConnected, pq.ListenerEventReconnected:
			if lost {
				lost = false
				opts.Lost(nil)
			}
		}
	})
	f.running.Go(f.listen)
	f.running.Go(f.pass)
	return f
}

// Close ends all subscriptions and waits for them. It may be called once.
func (f *Feed) Close() error {
	f.mu.Lock()
	f.closed = true
	for _, subs := range f.subs {
		for s := range subs {
			s.cancel(ErrClosed)
		}
	}
	f.mu.Unlock()
	close(f.done)
	err := f.listener.Close()
	f.running.Wait()
	go func() {
		// The listener ends when it has got rid of its last notifications,
		// which may take as long as its attempt to connect.
		for range f.listener.NotificationChannel() {
		}
	}()
	return err
}

// listen asks for the notifications. That waits for the database.
func (f *Feed) listen() {
	for _, channel := range []string{store.EventsChannel, store.DeltasChannel} {
		if err := f.listener.Listen(channel); err != nil {
			if !errors.Is(err, net.ErrClosed) {
				f.log.Error("event feed does not listen", "channel", channel, "err", err)
			}
			return
		}
	}
	// What came before it listened was not announced to it.
	f.wakeAll()
}

// pass takes notifications and tells the subscriptions.
func (f *Feed) pass() {
	// A connection that died silently is noticed by asking.
	ping := time.NewTicker(f.opts.Poll)
	defer ping.Stop()
	for {
		select {
		case <-f.done:
			return
		case <-ping.C:
			f.running.Go(func() {
				// A failure is reported by the listener itself.
				_ = f.listener.Ping()
			})
		case n, ok := <-f.listener.NotificationChannel():
			switch {
			case !ok:
				return
			case n == nil:
				// Connected again: whatever was announced meanwhile is lost.
				f.wakeAll()
			case n.Channel == store.EventsChannel:
				session, seq, err := store.ParseEvent(n.Extra)
				if err != nil {
					f.log.Warn("event notification", "err", err)
					continue
				}
				f.each(session, func(s *Subscription) { s.wakeFor(seq) })
				f.changed(session)
			case n.Channel == store.DeltasChannel:
				e, err := store.ParseDelta(n.Extra)
				if err != nil {
					f.log.Warn("delta notification", "err", err)
					continue
				}
				f.each(e.Session, func(s *Subscription) { s.delta(e) })
			}
		}
	}
}

func (f *Feed) each(session string, do func(*Subscription)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.subs[session] {
		do(s)
	}
}

func (f *Feed) wakeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, subs := range f.subs {
		for s := range subs {
			s.wakeFor(math.MaxInt64)
		}
	}
	for c := range f.all {
		c.miss()
	}
}

// Query says what to watch: a session, or one run. With both, the run need
// not exist yet.
type Query struct {
	Session string
	RunID   string
}

// Subscription is a stream of events.
type Subscription struct {
	// C delivers the events in order. It is closed at the end; Err says why.
	C <-chan agent.Event

	feed    *Feed
	query   Query
	out     chan agent.Event
	wake    chan struct{} // holds one: several notifications are one reading
	deltas  chan agent.Event
	mu      sync.Mutex
	wanted  int64 // the newest number heard of
	err     error
	cancel  context.CancelCauseFunc
	stalled *time.Timer
}

// Subscribe delivers the stored events numbered higher than after, then
// those to come, and deltas, until ctx ends. While the database is away it
// waits. A RunID without a Session must exist, else record.ErrNotFound.
func (f *Feed) Subscribe(ctx context.Context, q Query, after int64) (*Subscription, error) {
	if q.Session == "" && q.RunID == "" {
		return nil, errors.New("neither session nor run to watch")
	}
	if q.Session == "" {
		run, err := f.store.Run(ctx, q.RunID)
		if err != nil {
			return nil, err
		}
		q.Session = run.Session
	}
	s := &Subscription{
		feed: f, query: q,
		out:    make(chan agent.Event, f.opts.Buffer),
		wake:   make(chan struct{}, 1),
		deltas: make(chan agent.Event, f.opts.Buffer),
		wanted: math.MaxInt64, // read once in any case
	}
	s.C = s.out
	s.wake <- struct{}{}
	ctx, s.cancel = context.WithCancelCause(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		s.cancel(ErrClosed)
		return nil, ErrClosed
	}
	if f.subs[q.Session] == nil {
		f.subs[q.Session] = map[*Subscription]struct{}{}
	}
	f.subs[q.Session][s] = struct{}{}
	f.running.Go(func() {
		err := s.run(ctx, after)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		s.cancel(err)
		f.remove(s)
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		close(s.out)
	})
	return s, nil
}

func (f *Feed) remove(s *Subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	subs := f.subs[s.query.Session]
	delete(subs, s)
	if len(subs) == 0 {
		delete(f.subs, s.query.Session)
	}
}

// Err says why C was closed: the context's error, ErrClosed, ErrSlow, or
// that of the database. It is nil before.
func (s *Subscription) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// wakeFor has the subscription read, if it has not got as far as seq.
func (s *Subscription) wakeFor(seq int64) {
	s.mu.Lock()
	s.wanted = max(s.wanted, seq)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// delta passes a delta on, if there is room.
func (s *Subscription) delta(e agent.Event) {
	if s.query.RunID != "" && s.query.RunID != e.RunID {
		return
	}
	select {
	case s.deltas <- e:
	default:
	}
}

func (s *Subscription) run(ctx context.Context, last int64) error {
	poll := time.NewTicker(s.feed.opts.Poll)
	defer poll.Stop()
	s.stalled = time.NewTimer(time.Hour)
	defer s.stalled.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-s.deltas:
			if err := s.send(ctx, e); err != nil {
				return err
			}
		case <-poll.C:
			s.wakeFor(math.MaxInt64)
		case <-s.wake:
			// The pieces of a reply were announced before the reply.
			for len(s.deltas) > 0 {
				if err := s.send(ctx, <-s.deltas); err != nil {
					return err
				}
			}
			var err error
			if last, err = s.catchUp(ctx, last); err != nil {
				return err
			}
		}
	}
}

// batch is how many events are read at once.
const batch = 200

// catchUp sends what the table has after last, and returns how far it got.
func (s *Subscription) catchUp(ctx context.Context, last int64) (int64, error) {
	s.mu.Lock()
	news := s.wanted > last
	s.wanted = 0
	s.mu.Unlock()
	for news {
		events, err := s.read(ctx, last)
		if err != nil {
			return last, err
		}
		for _, e := range events {
			if err := s.send(ctx, e); err != nil {
				return last, err
			}
			last = e.Seq
		}
		news = len(events) == batch
	}
	return last, nil
}

// read reads a batch. It waits for a database that is away.
func (s *Subscription) read(ctx context.Context, after int64) ([]agent.Event, error) {
	wait := 50 * time.Millisecond
	for {
		var events []agent.Event
		var err error
		if s.query.RunID != "" {
			events, err = s.feed.store.EventsOfRun(ctx, s.query.RunID, after, batch)
		} else {
			events, err = s.feed.store.Events(ctx, s.query.Session, after, batch)
		}
		if err == nil || !store.Unavailable(err) {
			return events, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
			wait = min(2*wait, 5*time.Second)
		}
	}
}

// send hands an event to the subscriber. A delta that finds no room is left
// out.
func (s *Subscription) send(ctx context.Context, e agent.Event) error {
	select {
	case s.out <- e:
		return nil
	default:
	}
	if e.Kind == agent.EventDelta {
		return nil
	}
	s.stalled.Reset(s.feed.opts.Stall)
	select {
	case s.out <- e:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stalled.C:
		return ErrSlow
	}
}
