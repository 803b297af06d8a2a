// Package temporaltest gives tests a real Temporal server: one development
// server per test binary, a fresh namespace per test, with the search
// attributes of the product. A missing temporal command fails the test and
// says how to get one; nothing is skipped silently.
package temporaltest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"sgclaw/internal/devserver"
)

// pool is how many namespaces the server is started with. Making one later
// works too, but costs seconds until the server's caches know it.
const pool = 40

// Server is a Temporal server and a namespace that belongs to one test.
type Server struct {
	Address   string
	Namespace string
	// Client is connected to the namespace. It is closed when the test
	// ends.
	Client client.Client
}

var shared struct {
	sync.Mutex
	server *devserver.Server
	used   int
}

// Start returns a server for the test, starting it at the first call. The
// server ends with the test binary.
func Start(t testing.TB) *Server {
	t.Helper()
	address, namespace := take(t)
	c, err := client.DialContext(t.Context(), client.Options{
		HostPort:  address,
		Namespace: namespace,
		Logger:    Logger(t, slog.LevelError),
		Identity:  "test",
	})
	if err != nil {
		t.Fatalf("dial temporal test server: %v", err)
	}
	t.Cleanup(c.Close)
	return &Server{Address: address, Namespace: namespace, Client: c}
}

func take(t testing.TB) (address, namespace string) {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		shared.server = start(t)
	}
	select {
	case <-shared.server.Done():
		t.Fatal("the temporal test server has ended; an earlier test or the system killed it")
	default:
	}
	if shared.used == pool {
		t.Fatalf("more than %d tests of this package want a namespace; raise the pool in package temporaltest", pool)
	}
	shared.used++
	return shared.server.Address(), namespaces()[shared.used-1]
}

func start(t testing.TB) *devserver.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "sgclaw-temporal-")
	if err != nil {
		t.Fatal(err)
	}
	s, err := devserver.Start(ctx, slog.New(slog.DiscardHandler), devserver.Config{
		Path:       os.Getenv(devserver.Env),
		LogFile:    filepath.Join(dir, "temporal.log"),
		Namespaces: namespaces(),
		Keywords:   Keywords(),
	})
	if err != nil {
		t.Fatalf("these tests need a Temporal server: %v", err)
	}
	// The log is of use when the start fails; afterwards it is only kept
	// open, so that nothing stays behind. Where an open file cannot be
	// removed, it stays.
	_ = os.RemoveAll(dir)
	if runtime.GOOS != "linux" {
		t.Logf("temporal server %d must be ended by TestMain calling temporaltest.Stop", s.PID())
	}
	return s
}

// Keywords lists the search attributes that the namespaces have. They are
// the ones of package workflows, repeated here so that the tests of that
// package can use this one.
func Keywords() []string { return []string{"SgState", "SgUser", "SgBrowser", "SgSession"} }

func namespaces() []string {
	names := make([]string, pool)
	for i := range names {
		names[i] = fmt.Sprintf("t%02d", i)
	}
	return names
}

// Stop ends the server of this test binary, if there is one. On Linux it
// ends by itself with the binary; elsewhere a TestMain should call this.
func Stop() {
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		shared.server.Stop()
	}
}

// Logger writes to the test's log from level upwards; after the end of the
// test it drops everything, since clients may still have something to say.
func Logger(t testing.TB, level slog.Level) *slog.Logger {
	w := &testWriter{t: t}
	t.Cleanup(w.close)
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

type testWriter struct {
	mu sync.Mutex
	t  testing.TB
}

func (w *testWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t = nil
}

// Write logs p as one line of the test.
func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t != nil {
		w.t.Logf("%s", p)
	}
	return len(p), nil
}
