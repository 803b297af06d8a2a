//go:build unix

package stack

import (
	"errors"
	"os"
	"syscall"
)

// lock takes the lock of an open file and reports whether it was free. It
// ends with the process, however that ends.
func lock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
