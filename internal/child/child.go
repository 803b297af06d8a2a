// Package child ties child processes to this one, so that none is left
// behind however this process ends. Where the system cannot do that by
// itself, a child must watch its standard input for the end.
package child

import (
	"os"
	"os/exec"
	"runtime"
)

// Start starts cmd bound to this process: where the system can (Linux), the
// child is killed when this process dies. It has a process group of its own,
// so that a terminal's Ctrl-C reaches only its owner, which ends it in order.
func Start(cmd *exec.Cmd) error {
	bind(cmd)
	// Linux ties the child to the thread that started it; a thread that is
	// locked for the moment of starting is not one that Go ends early.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Start()
}

// Interrupt asks a process to end in an orderly way. On Windows, which knows
// no such request for processes without a window, it ends it.
func Interrupt(p *os.Process) error { return interrupt(p) }
