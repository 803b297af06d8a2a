package chrome

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	profilePrefix = "sgclaw-chrome-"
	pidFile       = "sgclaw.pid"
)

// errLocked means that another process holds the lock.
var errLocked = errors.New("in use")

// openProfile makes or takes the user data directory and holds the lock on
// its pid file, so that nobody sweeps or uses it while this process lives.
func (p *Process) openProfile(o Options) error {
	dir := o.Profile
	if dir == "" {
		if err := Sweep(p.log, os.TempDir()); err != nil {
			p.log.Warn("stale browser profiles not swept", "err", err)
		}
		var err error
		if dir, err = os.MkdirTemp("", profilePrefix); err != nil {
			return fmt.Errorf("browser profile: %w", err)
		}
		p.profile = dir
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("browser profile: %w", err)
	}
	f, err := lockFile(filepath.Join(dir, pidFile))
	if err != nil {
		return fmt.Errorf("browser profile %s: %w", dir, err)
	}
	if err := f.Truncate(0); err == nil {
		_, err = f.WriteString(strconv.Itoa(os.Getpid()) + "\n")
		if err != nil {
			p.log.Warn("pid file not written", "err", err)
		}
	}
	p.lock = f
	return nil
}

// setPreferences turns off what would fetch documents before anybody asks for
// them, which no interception sees.
func setPreferences(data string) error {
	dir := filepath.Join(data, "Default")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	name := filepath.Join(dir, "Preferences")
	prefs := map[string]json.RawMessage{}
	raw, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(raw, &prefs)
	} else if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("browser preferences: %w", err)
	}
	net := map[string]json.RawMessage{}
	if have, ok := prefs["net"]; ok {
		if err := json.Unmarshal(have, &net); err != nil {
			return fmt.Errorf("browser preferences: %w", err)
		}
	}
	const never = "2" // of NetworkPredictionOptions
	if string(net["network_prediction_options"]) == never {
		return nil
	}
	net["network_prediction_options"] = json.RawMessage(never)
	if prefs["net"], err = json.Marshal(net); err != nil {
		return err
	}
	if raw, err = json.Marshal(prefs); err != nil {
		return err
	}
	return os.WriteFile(name, raw, 0o600)
}

// release gives the profile up and removes it if it was made here. Processes
// that have just been killed may still write for a moment.
func (p *Process) release() {
	if p.profile != "" {
		var err error
		for range 20 {
			if err = os.RemoveAll(filepath.Join(p.profile, "data")); err == nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if err != nil {
			p.log.Warn("browser profile not removed", "err", err)
		}
	}
	if p.lock != nil {
		_ = p.lock.Close()
	}
	if p.profile != "" {
		_ = os.RemoveAll(p.profile)
	}
}

// Sweep removes the profiles in root that were left by hosts which are gone:
// a live host holds the lock on its pid file.
func Sweep(log *slog.Logger, root string) error {
	dirs, err := filepath.Glob(filepath.Join(root, profilePrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		name := filepath.Join(dir, pidFile)
		f, err := lockExisting(name)
		switch {
		case errors.Is(err, errLocked):
			continue
		case errors.Is(err, os.ErrNotExist):
			// One that is just being made has no pid file for an instant.
			if info, serr := os.Stat(dir); serr != nil || time.Since(info.ModTime()) < time.Minute {
				continue
			}
		case err != nil:
			errs = append(errs, err)
			continue
		}
		if f != nil {
			_ = f.Close() // Windows does not remove open files
		}
		if err := os.RemoveAll(dir); err != nil {
			errs = append(errs, err)
			continue
		}
		log.Info("stale browser profile removed", "profile", strings.TrimPrefix(filepath.Base(dir), profilePrefix))
	}
	return errors.Join(errs...)
}

func lockFile(name string) (*os.File, error) { return openLocked(name, os.O_CREATE|os.O_RDWR) }

func lockExisting(name string) (*os.File, error) { return openLocked(name, os.O_RDWR) }

func openLocked(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
