//go:build unix

package pgtest

import (
	"os/exec"
	"syscall"
)

// detach keeps a terminal's Ctrl-C from cmd.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
