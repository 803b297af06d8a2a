//go:build unix

package chrome

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// pipeEnds are both ends of the two pipes. Chromium reads commands from fd 3
// and writes to fd 4.
type pipeEnds struct {
	read, write           *os.File // ours
	childRead, childWrite *os.File // Chromium's
}

func debugPipe(cmd *exec.Cmd) (*pipeEnds, error) {
	var e pipeEnds
	var err error
	if e.childRead, e.write, err = os.Pipe(); err != nil {
		return nil, err
	}
	if e.read, e.childWrite, err = os.Pipe(); err != nil {
		e.closeAll()
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{e.childRead, e.childWrite}
	return &e, nil
}

func (e *pipeEnds) Read(p []byte) (int, error)  { return e.read.Read(p) }
func (e *pipeEnds) Write(p []byte) (int, error) { return e.write.Write(p) }

// Close ends our side, at which Chromium quits.
func (e *pipeEnds) Close() error { return errors.Join(e.write.Close(), e.read.Close()) }

func (e *pipeEnds) closeChild() {
	_ = e.childRead.Close()
	_ = e.childWrite.Close()
}

func (e *pipeEnds) closeAll() {
	for _, f := range []*os.File{e.read, e.write, e.childRead, e.childWrite} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// job is the browser's process group, whose id is the browser's own.
type job struct{}

func contain(*os.Process) (job, error) { return job{}, nil }

func (job) kill(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

func rootUser() bool { return os.Geteuid() == 0 }

func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
