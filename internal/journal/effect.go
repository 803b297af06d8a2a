package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"sgclaw/internal/agent"
)

// State is where an effect stands.
type State string

// The states of an effect.
const (
	StateBegun State = "begun" // possibly sent, no response
	StateDone  State = "done"  // the response is recorded
)

// record is an effect as it is stored.
type record struct {
	Action  string        `json:"action"`
	State   State         `json:"state"`
	BegunAt time.Time     `json:"begun_at"`
	DoneAt  time.Time     `json:"done_at,omitzero"`
	Result  *agent.Result `json:"result,omitempty"`
	// Guessed: nothing was sent under this journal, an earlier and lost one
	// may have.
	Guessed bool `json:"guessed,omitempty"`
}

// Effect is an entry of the journal, for operators.
type Effect struct {
	Key     string        `json:"key"`
	Action  string        `json:"action"`
	State   State         `json:"state"`
	BegunAt time.Time     `json:"begun_at"`
	DoneAt  time.Time     `json:"done_at,omitzero"`
	Result  *agent.Result `json:"result,omitempty"`
	Guessed bool          `json:"guessed,omitempty"`
}

// Begin records that an effect is about to be sent. It returns fresh when
// the effect was absent and is now begun, on disk: it may be sent, once.
// Otherwise it must not be sent: prior is its recorded result, or nil when
// the outcome is unknown. Of several callers with one key, one gets fresh.
func (j *Journal) Begin(e agent.Effect) (prior *agent.Result, fresh bool, err error) {
	key := e.Key()
	err = j.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketEffects)
		if v := b.Get([]byte(key)); v != nil {
			var r record
			if err := json.Unmarshal(v, &r); err != nil {
				return err
			}
			prior = r.Result
			return nil
		}
		r := record{Action: e.Action, State: StateBegun, BegunAt: j.now().UTC()}
		known, err := j.meet(tx, e.RunID)
		if err != nil {
			return err
		}
		if e.GrantID != "" {
			if err := tx.Bucket(bucketGrants).Put([]byte(e.GrantID), []byte(key)); err != nil {
				return err
			}
		}
		r.Guessed = !known
		fresh = known
		return putJSON(b, key, r)
	})
	if err != nil {
		return nil, false, fmt.Errorf("begin effect %s: %w", key, err)
	}
	return prior, fresh, nil
}

// Prior looks an effect up without beginning it: absent, or begun (nil
// result), or done.
func (j *Journal) Prior(e agent.Effect) (result *agent.Result, found bool, err error) {
	key := e.Key()
	err = j.db.View(func(tx *bolt.Tx) error {
		v := tx.Bucket(bucketEffects).Get([]byte(key))
		if v == nil {
			return nil
		}
		found = true
		var r record
		if err := json.Unmarshal(v, &r); err != nil {
			return err
		}
		result = r.Result
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("look effect %s up: %w", key, err)
	}
	return result, found, nil
}

// Spent reports whether the effect's grant was used by another effect.
func (j *Journal) Spent(e agent.Effect) (spent bool, err error) {
	if e.GrantID == "" {
		return false, nil
	}
	err = j.db.View(func(tx *bolt.Tx) error {
		key := tx.Bucket(bucketGrants).Get([]byte(e.GrantID))
		spent = key != nil && string(key) != e.Key()
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("look grant %s up: %w", e.GrantID, err)
	}
	return spent, nil
}

// Meet notes that a run does something here which needs no journal, so that
// its effects from now on are known to be new. It writes only after a loss.
func (j *Journal) Meet(run string) error {
	var known bool
	err := j.db.View(func(tx *bolt.Tx) error {
		known = tx.Bucket(bucketMeta).Get(keyLost) == nil || tx.Bucket(bucketSeen).Get([]byte(run)) != nil
		return nil
	})
	if known || err != nil {
		return err
	}
	return j.db.Update(func(tx *bolt.Tx) error {
		_, err := j.meet(tx, run)
		return err
	})
}

// meet reports whether the run was met since the journal's loss, if there
// was one, and notes it.
func (j *Journal) meet(tx *bolt.Tx, run string) (known bool, err error) {
	if tx.Bucket(bucketMeta).Get(keyLost) == nil {
		return true, nil
	}
	seen := tx.Bucket(bucketSeen)
	if seen.Get([]byte(run)) != nil {
		return true, nil
	}
	return false, seen.Put([]byte(run), stamp(j.now()))
}

// Done records what came of a begun effect, together with the bodies that
// the result refers to. An effect that is done already stays as it is; the
// bodies are kept all the same.
func (j *Journal) Done(e agent.Effect, result agent.Result, bodies map[string]agent.Body) error {
	key := e.Key()
	err := j.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketEffects)
		r := record{Action: e.Action, State: StateBegun, BegunAt: j.now().UTC()}
		if v := b.Get([]byte(key)); v != nil {
			if err := json.Unmarshal(v, &r); err != nil {
				return err
			}
		}
		if err := j.putBodies(tx, bodies); err != nil {
			return err
		}
		if r.State == StateDone {
			return nil
		}
		r.State, r.DoneAt, r.Result = StateDone, j.now().UTC(), &result
		return putJSON(b, key, r)
	})
	if err != nil {
		return fmt.Errorf("record effect %s: %w", key, err)
	}
	return nil
}

// Void removes a begun effect of which the browser said that nothing was
// done, or that was never written to the pipe: it may be sent again.
func (j *Journal) Void(e agent.Effect) error {
	key := e.Key()
	err := j.db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketEffects).Delete([]byte(key))
	})
	if err != nil {
		return fmt.Errorf("void effect %s: %w", key, err)
	}
	return nil
}

// Asked reports whether the call that the effect is of came back before with
// a question to a person that has this digest.
func (j *Journal) Asked(e agent.Effect, digest string) (asked bool, err error) {
	err = j.each([]byte(e.CallKey()), func(_ string, r record) error {
		asked = asked || r.Result != nil && r.Result.Outcome == agent.OutcomeNeedConfirm && r.Result.Digest == digest
		return nil
	})
	return asked, err
}

// Effects returns the entries of a run, or of all runs if run is empty.
func (j *Journal) Effects(run string) ([]Effect, error) {
	var out []Effect
	prefix := ""
	if run != "" {
		prefix = strings.TrimSuffix(run, "/") + "/"
	}
	err := j.each([]byte(prefix), func(key string, r record) error {
		out = append(out, Effect{Key: key, Action: r.Action, State: r.State, BegunAt: r.BegunAt, DoneAt: r.DoneAt,
			Result: r.Result, Guessed: r.Guessed})
		return nil
	})
	return out, err
}

func (j *Journal) each(prefix []byte, f func(key string, r record) error) error {
	err := j.db.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketEffects).Cursor()
		for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
			var r record
			if err := json.Unmarshal(v, &r); err != nil {
				return fmt.Errorf("effect %q: %w", k, err)
			}
			if err := f(string(k), r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read effects: %w", err)
	}
	return nil
}

func putJSON(b *bolt.Bucket, key string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put([]byte(key), data)
}
