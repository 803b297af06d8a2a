package deploytest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"sgclaw/internal/child"
)

// process is a service's process.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	err  error // of Wait; read after done is closed
}

// spawn starts a program with its output appended to a log. It does not
// outlive this process.
func spawn(argv, env []string, dir, log string) (*process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = env, dir
	cmd.Stdout, cmd.Stderr = f, f
	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	if err := child.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// wait waits for a program that is meant to end.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
		if p.err != nil {
			return fmt.Errorf("%w; the end of %s:\n%s", p.err, p.log, tail(p.log))
		}
		return nil
	case <-ctx.Done():
		p.stop()
		return fmt.Errorf("%w; the end of %s:\n%s", ctx.Err(), p.log, tail(p.log))
	}
}

// until polls until ready says so, of a program that is meant to stay.
func (p *process) until(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		last := ready(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("ended while it started (%v); the end of %s:\n%s", p.err, p.log, tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w; the end of %s:\n%s", last, p.log, tail(p.log))
		case <-tick.C:
		}
	}
}

// stop ends the program as a container engine does: it asks, then kills.
func (p *process) stop() {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = p.cmd.Process.Kill()
	}
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func tail(path string) string {
	b, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return err.Error()
	}
	const most = 3000
	return string(b[max(0, len(b)-most):])
}
