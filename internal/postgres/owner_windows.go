package postgres

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

var stopSignals = []struct {
	signal os.Signal
	wait   time.Duration
}{{os.Kill, 10 * time.Second}}

// owner is nobody: private clusters are not run on Windows.
type owner struct{}

func lookupOwner() (owner, error) {
	return owner{}, errors.New("postgres: a private server is not run on Windows; give the url of one with [database] url")
}

func (owner) own(*exec.Cmd)                          {}
func (owner) mkdir(path string) error                { return os.MkdirAll(path, 0o700) }
func (owner) place(path string) (string, error)      { return path, os.MkdirAll(path, 0o700) }
func (owner) writeFile(path, text string) error      { return os.WriteFile(path, []byte(text), 0o600) }
func (owner) tempFile(dir, _ string) (string, error) { return dir, nil }
