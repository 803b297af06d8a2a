package access

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

// What slows down guessing.
const (
	freeFailures = 5           // within window
	window       = time.Minute // after which a failure does not count any more
	firstWait    = time.Second // doubled by each further failure
	longestWait  = time.Minute
	maxAddresses = 10_000 // remembered; the one that failed longest ago goes first
)

// Backoff makes remote addresses wait that show wrong tokens: after five
// failures within a minute a second, then twice as long after each, up to a
// minute. An address is forgotten a minute after its last wait. It is safe
// for concurrent use.
type Backoff struct {
	now func() time.Time

	mu     sync.Mutex
	byAddr map[string]*list.Element
	order  *list.List // of *failures; the latest to fail is first
}

type failures struct {
	addr   string
	recent []time.Time // at most freeFailures
	wait   time.Duration
	until  time.Time
}

// NewBackoff returns a Backoff without memory. now is the clock.
func NewBackoff(now func() time.Time) *Backoff {
	return &Backoff{now: now, byAddr: map[string]*list.Element{}, order: list.New()}
}

// Wait returns how long an address, with or without a port, must not try; 0
// if it may.
func (b *Backoff) Wait(addr string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.byAddr[Network(addr)]
	if !ok {
		return 0
	}
	return max(0, e.Value.(*failures).until.Sub(b.now()))
}

// Failed tells that an address showed a wrong token, and returns how long it
// must wait now.
func (b *Backoff) Failed(addr string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, key := b.now(), Network(addr)
	e, ok := b.byAddr[key]
	if !ok {
		if b.order.Len() == maxAddresses {
			oldest := b.order.Back()
			delete(b.byAddr, oldest.Value.(*failures).addr)
			b.order.Remove(oldest)
		}
		e = b.order.PushFront(&failures{addr: key})
		b.byAddr[key] = e
	}
	b.order.MoveToFront(e)
	return e.Value.(*failures).add(now)
}

func (f *failures) add(now time.Time) time.Duration {
	if f.wait > 0 && now.Sub(f.until) >= window {
		f.wait, f.recent = 0, nil
	}
	for len(f.recent) > 0 && now.Sub(f.recent[0]) >= window {
		f.recent = f.recent[1:]
	}
	switch {
	case f.wait > 0:
		f.wait = min(2*f.wait, longestWait)
	case len(f.recent)+1 < freeFailures:
		f.recent = append(f.recent, now)
		return 0
	default:
		f.wait = firstWait
	}
	f.until = now.Add(f.wait)
	return f.wait
}

// Network is what an address, with or without a port, is remembered by: an
// IPv6 address by its /64, of which one customer has all addresses. What is
// not an IP address is its own network.
func Network(addr string) string {
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		ap, err := netip.ParseAddrPort(addr)
		if err != nil {
			return addr
		}
		ip = ap.Addr()
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	p, err := ip.Prefix(64)
	if err != nil {
		return ip.String()
	}
	return p.String()
}
