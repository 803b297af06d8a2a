package chrome

import (
	"os/exec"
	"syscall"
)

// prepare makes a process group and has the kernel kill the browser if the
// host dies.
func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
