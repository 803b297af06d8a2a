package cdp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// far is the browser's end of a connection, played by a test.
type far struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func connect(t *testing.T) (*Conn, *far) {
	t.Helper()
	near, end := net.Pipe()
	c := New(slog.New(slog.DiscardHandler), Pipe(near))
	t.Cleanup(func() { _ = c.Close() })
	t.Cleanup(func() { _ = end.Close() })
	return c, &far{t, end, bufio.NewReader(end)}
}

func (f *far) read() message {
	f.t.Helper()
	raw, err := f.r.ReadBytes(0)
	if err != nil {
		f.t.Fatal(err)
	}
	var m message
	if err := json.Unmarshal(raw[:len(raw)-1], &m); err != nil {
		f.t.Fatal(err)
	}
	return m
}

func (f *far) write(format string, v ...any) {
	f.t.Helper()
	if _, err := fmt.Fprintf(f.conn, format+"\x00", v...); err != nil {
		f.t.Fatal(err)
	}
}

// start begins a call whose error comes out of the channel.
func start(c *Conn, session, method string, result any) chan error {
	done := make(chan error, 1)
	go func() { done <- c.Call(context.Background(), session, method, nil, result) }()
	return done
}

func wait(t *testing.T, done chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(5 * time.Second):
		t.Fatal("call hangs")
		return nil
	}
}

func TestCallsAreAnsweredOutOfOrder(t *testing.T) {
	c, f := connect(t)
	var a, b struct{ V string }
	first := start(c, "", "A.a", &a)
	m1 := f.read()
	second := start(c, "s", "B.b", &b)
	m2 := f.read()
	if m1.SessionID != "" || m2.SessionID != "s" || m1.Method != "A.a" {
		t.Errorf("sent %+v and %+v", m1, m2)
	}
	f.write(`{"id":%d,"sessionId":"s","result":{"V":"two","unknown":[1]}}`, m2.ID)
	f.write(`not JSON`)
	f.write(`{"id":9999,"result":{}}`)
	f.write(`{"id":%d,"result":{"V":"one"}}`, m1.ID)
	if err := wait(t, first); err != nil || a.V != "one" {
		t.Errorf("first: %q, %v", a.V, err)
	}
	if err := wait(t, second); err != nil || b.V != "two" {
		t.Errorf("second: %q, %v", b.V, err)
	}
}

func TestRefusedCall(t *testing.T) {
	c, f := connect(t)
	done := start(c, "", "A.a", nil)
	f.write(`{"id":%d,"error":{"code":-32000,"message":"no"}}`, f.read().ID)
	var refused *Error
	if err := wait(t, done); !errors.As(err, &refused) || refused.Code != -32000 || refused.Method != "A.a" {
		t.Errorf("got %v", err)
	}
}

func TestPendingCallsFail(t *testing.T) {
	tests := []struct {
		name string
		end  func(f *far)
		want error
	}{
		{"detached", func(f *far) { f.write(`{"method":"Target.detachedFromTarget","params":{"sessionId":"s"}}`) }, ErrDetached},
		{"crashed", func(f *far) { f.write(`{"method":"Inspector.targetCrashed","sessionId":"s","params":{}}`) }, ErrCrashed},
		{"closed by the browser", func(f *far) { _ = f.conn.Close() }, ErrClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, f := connect(t)
			done := start(c, "s", "A.a", nil)
			f.read()
			tt.end(f)
			if err := wait(t, done); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
	t.Run("context", func(t *testing.T) {
		c, f := connect(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Call(ctx, "s", "A.a", nil, nil) }()
		f.read()
		cancel()
		if err := wait(t, done); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if len(c.pending) != 0 {
			t.Error("the call is still pending")
		}
	})
	t.Run("after close", func(t *testing.T) {
		c, _ := connect(t)
		_ = c.Close()
		if err := wait(t, start(c, "", "A.a", nil)); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
		<-c.Done()
		if !errors.Is(c.Err(), ErrClosed) {
			t.Errorf("Err is %v", c.Err())
		}
	})
}

func TestEventsComeInOrderAndMayCall(t *testing.T) {
	c, f := connect(t)
	got := make(chan string, 10)
	c.Handle("s", func(e Event) {
		var p struct{ N int }
		if err := e.Decode(&p); err != nil {
			got <- err.Error()
			return
		}
		if p.N == 0 {
			if err := c.Call(context.Background(), "s", "A.a", nil, nil); err != nil {
				got <- err.Error()
				return
			}
		}
		got <- fmt.Sprint(e.Method, p.N)
	})
	for i := range 3 {
		f.write(`{"method":"X.x","sessionId":"s","params":{"N":%d}}`, i)
	}
	f.write(`{"method":"X.x","sessionId":"other","params":{"N":7}}`)
	f.write(`{"id":%d,"sessionId":"s","result":{}}`, f.read().ID)
	for i := range 3 {
		select {
		case s := <-got:
			if want := fmt.Sprint("X.x", i); s != want {
				t.Errorf("event %q, want %q", s, want)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("event did not come")
		}
	}
}

func TestLongMessage(t *testing.T) {
	c, f := connect(t)
	var out struct{ V string }
	done := start(c, "", "A.a", &out)
	f.write(`{"id":%d,"result":{"V":"%s"}}`, f.read().ID, strings.Repeat("长", 1<<20))
	if err := wait(t, done); err != nil || len(out.V) != 3<<20 {
		t.Errorf("%d bytes, %v", len(out.V), err)
	}
}

func TestWebsocket(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		for {
			_, raw, err := ws.Read(r.Context())
			if err != nil {
				return
			}
			var m message
			if json.Unmarshal(raw, &m) != nil {
				return
			}
			reply := fmt.Sprintf(`{"id":%d,"result":{"V":%q}}`, m.ID, m.Method)
			if ws.Write(r.Context(), websocket.MessageText, []byte(reply)) != nil {
				return
			}
		}
	}))
	defer srv.Close()
	tr, err := Dial(t.Context(), "ws"+strings.TrimPrefix(srv.URL, "http"))
	if err != nil {
		t.Fatal(err)
	}
	c := New(slog.New(slog.DiscardHandler), tr)
	var out struct{ V string }
	if err := wait(t, start(c, "", "A.a", &out)); err != nil || out.V != "A.a" {
		t.Errorf("%q, %v", out.V, err)
	}
	_ = c.Close()
	if err := wait(t, start(c, "", "A.a", nil)); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}
