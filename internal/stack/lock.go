package stack

import (
	"fmt"
	"os"
	"path/filepath"
)

const lockName = "lock"

// lockDir makes sure that no other stack uses dir for as long as the file
// that it returns is open.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	free, err := lock(f)
	if err == nil && !free {
		err = fmt.Errorf("%s is in use by another `stack`; end that one first, or name another folder with --dir", dir)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
