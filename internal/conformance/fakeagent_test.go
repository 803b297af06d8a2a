package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"sgclaw/internal/action"
	"sgclaw/internal/pipe"
)

// fakeAgent is a small agent that keeps the rules but for one fault.
func fakeAgent(fault string) int {
	if fault == "no-sigterm" {
		signal.Ignore(syscall.SIGTERM)
	} else {
		terminated := make(chan os.Signal, 1)
		signal.Notify(terminated, syscall.SIGTERM)
		go func() {
			<-terminated
			os.Exit(0)
		}()
	}
	if fault == "early-word" {
		fmt.Println("starting up")
	}
	f := &agentFake{fault: fault, r: pipe.NewReader(os.Stdin), w: pipe.NewWriter(os.Stdout)}
	if err := f.handshake(); err != nil {
		return pipe.ExitHandshake
	}
	return f.run()
}

type agentFake struct {
	fault string
	r     *pipe.Reader
	w     *pipe.Writer
	key   pipe.Key
	seq   uint64
	open  map[uint64]bool
}

func (f *agentFake) handshake() error {
	switch f.fault {
	case "no-limit":
		line, err := f.r.Next()
		if err != nil {
			return err
		}
		// Good enough for the rules that are played.
		_ = f.w.WriteLine([]byte(`{"type":"error","code":"PIPE_VERSION_MISMATCH","message":"` + fmt.Sprint(len(line)) + `"}`))
		return errors.New("refused")
	case "fixed-id", "any-version", "any-seed":
		line, err := f.r.Next()
		if err != nil {
			return err
		}
		if f.fault == "any-version" {
			line = []byte(strings.Replace(string(line), "9.9", pipe.Version, 1))
		}
		m, bad := pipe.Decode(line)
		if bad == nil && f.fault != "any-seed" {
			_, err := pipe.ParseSeed(m.(*pipe.Init).HMACSeed)
			errors.As(err, &bad)
		}
		if bad == nil && m.(*pipe.Init).Version != pipe.Version {
			bad = pipe.Errorf(pipe.CodeVersionMismatch, "no")
		}
		if bad != nil {
			_ = f.w.Write(&pipe.ErrorMessage{Type: pipe.TypeError, Code: bad.Code, Message: bad.Message})
			return bad
		}
		return f.w.Write(&pipe.InitAck{
			Type: pipe.TypeInitAck, Version: pipe.Version,
			AgentID: "5f9c9f0e-6c5f-4c1e-9a1d-0d1f5b8f7a11", SupportedActions: []string{"click"},
		})
	}
	h, err := pipe.AgentHandshake(context.Background(), f.r, f.w, action.Names(), nil)
	f.key = h.Key
	return err
}

func (f *agentFake) tell(seq uint64, e *pipe.Error) {
	_ = f.w.Write(&pipe.ErrorMessage{Type: pipe.TypeError, Seq: seq, Code: e.Code, Message: e.Message})
}

func (f *agentFake) run() int {
	f.open = map[uint64]bool{}
	for {
		line, err := f.r.Next()
		var bad *pipe.Error
		if errors.As(err, &bad) {
			f.tell(0, bad)
			continue
		}
		if err != nil {
			if f.fault == "eof-1" {
				return 1
			}
			return 0
		}
		if f.fault == "short-lines" && len(line) > pipe.MaxLine-100 {
			f.tell(0, pipe.Errorf(pipe.CodeMessageTooLarge, "too large"))
			continue
		}
		t, seq := pipe.Peek(line)
		m, bad := pipe.Decode(line)
		if bad != nil && f.fault == "twice" && strings.Contains(bad.Message, "twice") {
			continue
		}
		if t == pipe.TypeError && f.fault != "answers-errors" {
			continue
		}
		if bad != nil {
			f.tell(seq, bad)
			continue
		}
		if done := f.handle(m, t, seq); done {
			return 0
		}
	}
}

func (f *agentFake) handle(m any, t pipe.Type, seq uint64) (done bool) {
	if f.fault == "deaf" && t != pipe.TypeResponse && t != pipe.TypeShutdown {
		return false
	}
	switch m := m.(type) {
	case *pipe.Shutdown:
		if f.fault == "last-word" {
			fmt.Println("bye")
		}
		return true
	case *pipe.Response:
		if !f.open[seq] {
			f.tell(seq, pipe.Errorf(pipe.CodeUnknownSeq, "unknown"))
		}
		delete(f.open, seq)
	case *pipe.ConfirmPending:
		f.tell(seq, pipe.Errorf(pipe.CodeUnknownSeq, "unknown"))
	case *pipe.SubmitTask:
		_ = f.w.Write(&pipe.TaskAccepted{Type: pipe.TypeTaskAccepted, TaskID: m.TaskID, RunID: "r"})
		f.seq++
		if f.fault == "wrong-count" {
			f.seq++
		}
		c := &pipe.Command{Seq: f.seq, Action: action.GetText, Params: json.RawMessage(`{"selector":"body"}`), Security: pipe.Security{ExpectedDomain: "oa.example.com"}}
		if err := pipe.Sign(c, f.key); err != nil {
			return true
		}
		if f.fault == "unsigned" {
			c.Security.HMAC = ""
		}
		f.open[f.seq] = true
		_ = f.w.Write(c)
	case *pipe.AbortTask, *pipe.Confirm:
		f.tell(0, pipe.Errorf(pipe.CodeInvalidMessage, "there is no such thing"))
	default:
		f.tell(seq, pipe.Errorf(pipe.CodeUnknownType, "not now"))
	}
	return false
}
