package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"

	"sgclaw/internal/child"
)

// service is a running server or process.
type service interface {
	PID() int
	// Done is closed when it has ended, for whatever reason.
	Done() <-chan struct{}
	// Stop ends it in an orderly way and waits.
	Stop()
}

// unit keeps one service running: it starts it, and starts it again when it
// ends although nobody stopped it.
type unit struct {
	name  string
	start func(ctx context.Context) (service, error)
	log   *slog.Logger

	mu      sync.Mutex
	current service
	starts  int
	cancel  context.CancelFunc
	ended   chan struct{}
}

// Delays between restarts of a unit.
const (
	restartMin = 100 * time.Millisecond
	restartMax = 5 * time.Second
)

// run starts the unit and returns once it is ready for the first time; from
// then on it is kept running until close.
func (u *unit) run(ctx context.Context) error {
	s, err := u.start(ctx)
	if err != nil {
		return fmt.Errorf("start %s: %w", u.name, err)
	}
	keep, cancel := context.WithCancel(context.WithoutCancel(ctx))
	u.mu.Lock()
	u.current, u.starts, u.cancel, u.ended = s, 1, cancel, make(chan struct{})
	u.mu.Unlock()
	go u.keep(keep)
	return nil
}

func (u *unit) keep(ctx context.Context) {
	defer close(u.ended)
	delay := restartMin
	for {
		s, _ := u.get()
		up := time.Now()
		select {
		case <-ctx.Done():
			s.Stop()
			return
		case <-s.Done():
		}
		u.log.Warn("ended, starting again", "unit", u.name)
		if time.Since(up) > time.Minute {
			delay = restartMin
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(delay):
			}
			delay = min(delay*2, restartMax)
			next, err := u.start(ctx)
			if err == nil {
				u.mu.Lock()
				u.current = next
				u.starts++
				u.mu.Unlock()
				break
			}
			if ctx.Err() != nil {
				return
			}
			u.log.Warn("start", "unit", u.name, "err", err)
		}
	}
}

func (u *unit) get() (service, int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.current, u.starts
}

// close stops the unit and waits.
func (u *unit) close() {
	u.mu.Lock()
	cancel, ended := u.cancel, u.ended
	u.mu.Unlock()
	if cancel == nil {
		return
	}
	cancel()
	<-ended
}

// process is a child process as a service.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// spawn starts a program with its output appended to logFile. The program
// does not outlive this process.
func spawn(path string, args, env []string, logFile string) (*process, error) {
	f, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd := exec.Command(path, args...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = f, f
	p := &process{cmd: cmd, done: make(chan struct{})}
	if err := child.Start(cmd); err != nil {
		return nil, err
	}
	go func() {
		// The exit status is in the program's own log.
		_ = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) PID() int              { return p.cmd.Process.Pid }
func (p *process) Done() <-chan struct{} { return p.done }

// Stop asks the process to end, and makes it after ten seconds.
func (p *process) Stop() {
	if err := child.Interrupt(p.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = p.cmd.Process.Kill()
	}
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// tail returns the last n bytes of a file, for an error message.
func tail(file string, n int64) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > n {
		if _, err := f.Seek(-n, io.SeekEnd); err != nil {
			return ""
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	return string(b)
}
