//go:build unix

package host

import (
	"os"
	"syscall"
)

// exitCode is the exit status, 128+n if signal n ended the process.
func exitCode(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}
