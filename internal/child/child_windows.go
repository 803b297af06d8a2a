package child

import (
	"os"
	"os/exec"
	"syscall"
)

func bind(cmd *exec.Cmd) {
	attr := cmd.SysProcAttr
	if attr == nil {
		attr = &syscall.SysProcAttr{}
		cmd.SysProcAttr = attr
	}
	attr.CreationFlags |= syscall.CREATE_NEW_PROCESS_GROUP
}

func interrupt(p *os.Process) error { return p.Kill() }
