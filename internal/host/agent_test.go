package host

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"sgclaw/internal/pipe"
)

// fakeAgent names, in the environment of a child, the agent to play.
const fakeAgent = "SGCLAW_TEST_AGENT"

// TestMain runs the test binary as an agent when a test started it as one.
func TestMain(m *testing.M) {
	if mode := os.Getenv(fakeAgent); mode != "" {
		os.Exit(playAgent(mode, os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// playAgent is an agent that speaks the pipe by hand, well or badly.
func playAgent(mode string, stdin io.Reader, stdout io.Writer) int {
	in := bufio.NewReader(stdin)
	var init pipe.Init
	if line, err := in.ReadBytes('\n'); err != nil || json.Unmarshal(line, &init) != nil {
		return 9
	}
	say := func(format string, args ...any) { fmt.Fprintf(stdout, format+"\n", args...) }
	ack := func(version string) {
		say(`{"type":"init_ack","version":%q,"agent_id":"8f14e45f-ceea-467f-a9b1-3b5c1d2e4f60"}`, version)
	}
	untilEnd := func() int {
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return 0
			}
			if strings.Contains(line, `"shutdown"`) {
				return 0
			}
			if strings.Contains(line, `"submit_task"`) {
				say(`{"type":"task_accepted","task_id":"t1","run_id":"t1"}`)
			}
		}
	}
	switch mode {
	case "ok":
		ack("1.0")
		return untilEnd()
	case "silent":
		_, _ = io.Copy(io.Discard, in)
		return 0
	case "wrong version":
		ack("2.0")
		return untilEnd()
	case "refuses":
		say(`{"type":"error","code":"PIPE_INVALID_SEED","message":"too short"}`)
		return pipe.ExitHandshake
	case "crashes":
		ack("1.0")
		fmt.Fprintln(os.Stderr, "panic: the agent is at its end")
		return 7
	case "crashes at once":
		fmt.Fprintln(os.Stderr, "cannot load library")
		return 127
	case "ends":
		ack("1.0")
		return 0
	case "ignores shutdown":
		ack("1.0")
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		<-term
		return 0
	case "ignores all":
		signal.Ignore(syscall.SIGTERM)
		ack("1.0")
		select {}
	case "babbles":
		say("good morning")
		ack("1.0")
		say("not json")
		say(`{"type":"weather"}`)
		say(`{"type":"response","seq":1,"success":true}`)
		say(`{"type":"init_ack","version":"1.0","agent_id":"8f14e45f-ceea-467f-a9b1-3b5c1d2e4f60"}`)
		say(strings.Repeat("x", pipe.MaxLine+1))
		say(`{"type":"log","time":"2026-01-02T03:04:05Z","level":"info","message":"still here"}`)
		codes, err := errorCodes(in, 5)
		if err != nil {
			return 8
		}
		fmt.Fprintln(os.Stderr, strings.Join(codes, " "))
		return 1
	case "closes stdout":
		ack("1.0")
		_ = os.Stdout.Close()
		_, _ = io.Copy(io.Discard, in)
		select {}
	}
	return 10
}

func errorCodes(in *bufio.Reader, n int) ([]string, error) {
	var codes []string
	for range n {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var m pipe.ErrorMessage
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, err
		}
		if m.Type != pipe.TypeError {
			return nil, errors.New("not an error message")
		}
		codes = append(codes, string(m.Code))
	}
	return codes, nil
}
