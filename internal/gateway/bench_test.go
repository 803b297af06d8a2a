package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"sgclaw/internal/agent"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/temporaltest"
)

// The load: clients spread over sessions, and events over the sessions.
const (
	loadClients  = 1000
	loadSessions = 100
	loadRate     = 100 // events a second
	loadEvents   = 1000
	loadEnv      = "SGCLAW_TEST_LOAD_ADDR"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(loadEnv); addr != "" {
		if err := loadMain(addr, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	temporaltest.Stop()
	os.Exit(code)
}

// loadResult is what the clients saw.
type loadResult struct {
	N             int
	P50, P99, Max time.Duration
}

// loadMain is the clients' process: it connects them, says so, and when its
// input ends and all events are there says how long events took, from the moment that the database
// notes to their arrival.
func loadMain(addr string, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	var took []time.Duration
	all := make(chan struct{})
	seen := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if took = append(took, d); len(took) == loadEvents*loadClients/loadSessions {
			close(all)
		}
	}
	var connecting sync.WaitGroup
	errs := make([]error, loadClients)
	gate := make(chan struct{}, 32)
	for i := range loadClients {
		connecting.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			var ws *websocket.Conn
			if ws, errs[i] = loadClient(ctx, addr, fmt.Sprint("s", i%loadSessions)); errs[i] == nil {
				go loadRead(ctx, ws, seen)
			}
		})
	}
	connecting.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "ready")
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	select {
	case <-all:
	case <-time.After(patience):
	}
	mu.Lock()
	defer mu.Unlock()
	r := loadResult{N: len(took)}
	if slices.Sort(took); r.N > 0 {
		r.P50, r.P99, r.Max = took[r.N/2], took[r.N*99/100], took[r.N-1]
	}
	return json.NewEncoder(out).Encode(r)
}

func loadClient(ctx context.Context, addr, session string) (*websocket.Conn, error) {
	ws, _, err := websocket.Dial(ctx, "ws://"+addr+"/ws", nil)
	if err != nil {
		return nil, err
	}
	if _, _, err := ws.Read(ctx); err != nil {
		return nil, err
	}
	for _, frame := range []string{request("1", "connect", connectParams(testToken)), request("2", "test.watch", map[string]string{"sessionKey": session})} {
		if err := ws.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
			return nil, err
		}
		for {
			_, b, err := ws.Read(ctx)
			if err != nil {
				return nil, err
			}
			var r response
			if json.Unmarshal(b, &r) == nil && r.ID != "" {
				if !r.OK {
					return nil, r.Error
				}
				break
			}
		}
	}
	return ws, nil
}

func loadRead(ctx context.Context, ws *websocket.Conn, seen func(time.Duration)) {
	for {
		_, b, err := ws.Read(ctx)
		if err != nil {
			return
		}
		now := time.Now()
		var f struct {
			Event   string
			Payload agent.Event
		}
		if json.Unmarshal(b, &f) == nil && f.Event == EventNative {
			seen(now.Sub(f.Payload.At))
		}
	}
}

// BenchmarkLoad: 1 000 clients on 100 sessions, 100 events a second. The
// clients are a process of their own, so that what this one takes is the
// gateway's.
func BenchmarkLoad(b *testing.B) {
	s := newStage(b)
	g := s.gateway(Config{})
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	before := resident(b)
	for round := 0; b.Loop(); round++ {
		cmd := exec.CommandContext(b.Context(), self)
		cmd.Env = append(os.Environ(), loadEnv+"="+g.addr)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if !lines.Scan() || lines.Text() != "ready" {
			b.Fatalf("clients: %q, %v", lines.Text(), lines.Err())
		}
		connected := resident(b)
		tick := time.NewTicker(time.Second / loadRate)
		for i := range loadEvents {
			<-tick.C
			if _, err := s.store.AcceptMessage(b.Context(), fmt.Sprint("s", i%loadSessions), agent.Message{ID: fmt.Sprintf("%d-%d", round, i), Text: "一项普通的任务"}); err != nil {
				b.Fatal(err)
			}
		}
		tick.Stop()
		under := resident(b)
		in.Close()
		var r loadResult
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &r) != nil {
			b.Fatalf("clients: %q, %v", lines.Text(), lines.Err())
		}
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
		if want := loadEvents * loadClients / loadSessions; r.N != want {
			b.Errorf("%d deliveries, want %d", r.N, want)
		}
		b.ReportMetric(float64(r.P50.Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(r.P99.Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(r.Max.Microseconds())/1000, "max-ms")
		b.ReportMetric(float64(connected-before)/1024/loadClients, "KB/client")
		b.ReportMetric(float64(under)/1024/1024, "MB-under-load")
	}
}

// resident is how much memory this process takes, in bytes.
func resident(b *testing.B) int64 {
	b.Helper()
	runtime.GC()
	text, err := os.ReadFile(filepath.Join("/proc", "self", "status"))
	if err != nil {
		b.Skip("memory is measured on Linux only")
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb << 10
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

// BenchmarkFanOut: one event to the outboxes of 1 000 watchers.
func BenchmarkFanOut(b *testing.B) {
	g := &Gateway{log: (*stage)(nil).quiet()}
	t := &topic{watchers: map[*Conn]*watcher{}}
	conns := make([]*Conn, 1000)
	for i := range conns {
		conns[i] = &Conn{g: g, out: newOutbox(1 << 20)}
		t.watchers[conns[i]] = &watcher{to: ToNative}
	}
	data, err := json.Marshal(agent.DeltaEvent{Step: 1, Text: "一段文字"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		t.pass(agent.Event{Session: "s", RunID: "r", Kind: agent.EventStep, At: time.Now(), Data: data}, nil)
		for _, c := range conns {
			c.out.take()
		}
	}
}

// BenchmarkDecode: the parameters of a message.
func BenchmarkDecode(b *testing.B) {
	params := json.RawMessage(`{"sessionKey":"agent:main:main","message":"批准三天及以下的请假单","idempotencyKey":"0b9e5f0a-6a62-4ef2-9d4b-0f2b9f6f0a11"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, refused := openclaw.Decode[openclaw.ChatSendParams]("chat.send", params); refused != nil {
			b.Fatal(refused)
		}
	}
}
