// Package chrometest gives tests a real browser: one headless Chromium for a
// test binary, handed from test to test with a single blank page, and a check
// that tests leave nothing behind.
//
//	var chromium chrometest.Shared
//
//	func TestMain(m *testing.M) { os.Exit(chrometest.Main(m, &chromium)) }
package chrometest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"sgclaw/internal/cdp"
	"sgclaw/internal/chrome"
)

// Shared is a browser that the tests of a binary use one after the other. It
// is started by the first that wants it.
type Shared struct {
	// Options are for the start. Headless is always set.
	Options chrome.Options

	mu   sync.Mutex // held by the test that uses the browser
	proc *chrome.Process
}

// Main runs the tests and ends the browser; it returns the exit status.
func Main(m *testing.M, s *Shared) int {
	code := m.Run()
	if err := s.close(); err != nil {
		fmt.Fprintln(os.Stderr, "chrometest:", err)
		return 1
	}
	return code
}

func (s *Shared) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return s.proc.Close(ctx)
}

// Process lends the browser to a test until it ends. Tests without a browser
// on the machine are skipped. A browser that a test has ended is started
// again.
func (s *Shared) Process(tb testing.TB) *chrome.Process {
	tb.Helper()
	path, err := chrome.Find(os.Getenv("SGCLAW_CHROME"))
	if err != nil {
		tb.Fatal(err)
	}
	s.mu.Lock()
	tb.Cleanup(s.mu.Unlock)
	if s.proc != nil && s.proc.Err() != nil {
		s.proc = nil
	}
	if s.proc == nil {
		opts := s.Options
		opts.Path, opts.Headless = path, true
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if s.proc, err = chrome.Start(ctx, slog.New(slog.DiscardHandler), opts); err != nil {
			tb.Fatal(err)
		}
	}
	proc := s.proc
	tb.Cleanup(func() {
		if proc.Err() == nil {
			clean(tb, proc.Conn())
		}
	})
	return proc
}

// clean leaves a single blank page, and complains about browsers that a test
// has not closed.
func clean(tb testing.TB, conn *cdp.Conn) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var fresh cdp.TargetRef
	if err := conn.Call(ctx, "", "Target.createTarget", cdp.CreateTarget{URL: "about:blank"}, &fresh); err != nil {
		tb.Errorf("open a fresh page: %v", err)
		return
	}
	for {
		others, err := pages(ctx, conn)
		if err != nil {
			tb.Errorf("list pages: %v", err)
			return
		}
		left := 0
		for _, id := range others {
			if id == fresh.TargetID {
				continue
			}
			left++
			_ = conn.Call(ctx, "", "Target.closeTarget", cdp.TargetRef{TargetID: id}, nil)
		}
		if left == 0 {
			return
		}
		select {
		case <-ctx.Done():
			tb.Errorf("%d pages cannot be closed", left)
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func pages(ctx context.Context, conn *cdp.Conn) ([]string, error) {
	var res struct {
		TargetInfos []cdp.TargetInfo `json:"targetInfos"`
	}
	if err := conn.Call(ctx, "", "Target.getTargets", nil, &res); err != nil {
		return nil, err
	}
	var ids []string
	for _, t := range res.TargetInfos {
		if t.Type == "page" {
			ids = append(ids, t.TargetID)
		}
	}
	return ids, nil
}
