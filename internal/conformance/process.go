package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"sgclaw/internal/child"
)

// process is the program under test.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
	exited chan struct{}
	code   int // valid when exited is closed; -1 if killed
}

// launch starts the program, which is killed when ctx ends. end must be
// called.
func launch(ctx context.Context, argv, env []string, stderr io.Writer) (*process, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	cmd.Stderr = stderr
	// What the program left behind must not keep the player waiting.
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	pr, pw := io.Pipe()
	cmd.Stdout = pw
	if err := child.Start(cmd); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	p := &process{cmd: cmd, stdin: stdin, stdout: pr, exited: make(chan struct{})}
	// Without it the player might wait for ever to write to a program that
	// does not read.
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	go func() {
		defer stop()
		err := cmd.Wait()
		var exit *exec.ExitError
		if errors.As(err, &exit) || err == nil || cmd.ProcessState != nil {
			p.code = cmd.ProcessState.ExitCode()
		} else {
			p.code = -1
		}
		_ = pw.Close()
		close(p.exited)
	}()
	return p, nil
}

// exit waits for the program to end.
func (p *process) exit(ctx context.Context, within time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case <-p.exited:
		return p.code, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("still running after %v", within)
	}
}

// end makes sure that the program is gone.
func (p *process) end() {
	_ = p.stdin.Close()
	select {
	case <-p.exited:
		return
	default:
	}
	_ = p.cmd.Process.Kill()
	_ = p.stdout.Close()
	<-p.exited
}
