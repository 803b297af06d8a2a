//go:build unix && !linux

package chrome

import (
	"os/exec"
	"syscall"
)

// prepare makes a process group. If the host dies the browser sees the end of
// its pipe.
func prepare(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
