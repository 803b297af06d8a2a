package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	bolt "go.etcd.io/bbolt"
)

// BrowserID returns the id that stands for the browser of this data folder
// when the host gives none. It is made once, a UUID v4, and kept.
func BrowserID(dir string) (string, error) {
	path := filepath.Join(dir, "browser_id")
	for range 2 {
		data, err := os.ReadFile(path)
		if err == nil {
			id, err := uuid.Parse(strings.TrimSpace(string(data)))
			if err != nil {
				return "", fmt.Errorf("read browser id: %s does not hold a UUID; remove the file to have a new one made", path)
			}
			return id.String(), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read browser id: %w", err)
		}
		if err := makeBrowserID(dir, path); err != nil {
			return "", fmt.Errorf("make browser id: %w", err)
		}
	}
	return "", fmt.Errorf("make browser id: %s keeps vanishing", path)
}

// makeBrowserID writes the file whole or not at all; when two processes race,
// the first one's id stays.
func makeBrowserID(dir, path string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".browser_id-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(uuid.NewString() + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		// File systems without hard links: the last one's id stays.
		return os.Rename(f.Name(), path)
	}
	return nil
}

// Question says which run asked a confirmation that went to the browser.
type Question struct {
	RunID string    `json:"run"`
	At    time.Time `json:"at"`
}

// Ask remembers which run asks a question, so that the browser's answer,
// which names only the question, finds it.
func (j *Journal) Ask(confirmID, runID string) error {
	err := j.db.Update(func(tx *bolt.Tx) error {
		return putJSON(tx.Bucket(bucketConfirms), confirmID, Question{RunID: runID, At: j.now().UTC()})
	})
	if err != nil {
		return fmt.Errorf("remember question: %w", err)
	}
	return nil
}

// Asker returns the run that asked, or ErrNotFound.
func (j *Journal) Asker(confirmID string) (string, error) {
	var q Question
	err := j.db.View(func(tx *bolt.Tx) error {
		v := tx.Bucket(bucketConfirms).Get([]byte(confirmID))
		if v == nil {
			return ErrNotFound
		}
		return json.Unmarshal(v, &q)
	})
	if err != nil {
		return "", fmt.Errorf("question %q: %w", confirmID, err)
	}
	return q.RunID, nil
}

// Cool remembers until when a domain's rate limit cools down.
func (j *Journal) Cool(domain string, until time.Time) error {
	err := j.db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketCooling).Put([]byte(domain), stamp(until))
	})
	if err != nil {
		return fmt.Errorf("remember cooldown: %w", err)
	}
	return nil
}

// Cooling returns the domains that still cool down, and until when.
func (j *Journal) Cooling() (map[string]time.Time, error) {
	out := map[string]time.Time{}
	now := j.now()
	err := j.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketCooling).ForEach(func(k, v []byte) error {
			if until := unstamp(v); until.After(now) {
				out[string(k)] = until
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read cooldowns: %w", err)
	}
	return out, nil
}
