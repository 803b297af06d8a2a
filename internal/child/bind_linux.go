package child

import (
	"os/exec"
	"syscall"
)

func bind(cmd *exec.Cmd) {
	attr := cmd.SysProcAttr
	if attr == nil {
		attr = &syscall.SysProcAttr{}
		cmd.SysProcAttr = attr
	}
	attr.Pdeathsig = syscall.SIGKILL
	attr.Setpgid = true
}
