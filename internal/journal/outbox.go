package journal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

// ErrFull is returned by Post when too many messages wait.
var ErrFull = errors.New("too many messages wait for the server")

// Letter is a message of the browser on its way to Temporal.
type Letter struct {
	Seq  uint64          `json:"-"`
	Type string          `json:"type"` // the pipe message's type
	At   time.Time       `json:"at"`
	Body json.RawMessage `json:"body"` // the message as it came
}

// Post puts a message at the end of the outbox; once it returns, the message
// survives this process. It makes Posted ready.
func (j *Journal) Post(typ string, body json.RawMessage) error {
	err := j.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketOutbox)
		first, _ := b.Cursor().First()
		seq, err := b.NextSequence()
		if err != nil {
			return err
		}
		if first != nil && seq-binary.BigEndian.Uint64(first) >= MaxOutbox {
			return ErrFull
		}
		return putJSON(b, string(binary.BigEndian.AppendUint64(nil, seq)), Letter{Type: typ, At: j.now().UTC(), Body: body})
	})
	if err != nil {
		return fmt.Errorf("post %s: %w", typ, err)
	}
	select {
	case j.notify <- struct{}{}:
	default:
	}
	return nil
}

// Posted is ready when something was posted since it was last read. It has
// one reader.
func (j *Journal) Posted() <-chan struct{} { return j.notify }

// Letters returns up to n messages of the outbox, the oldest first.
func (j *Journal) Letters(n int) ([]Letter, error) {
	var out []Letter
	err := j.db.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketOutbox).Cursor()
		for k, v := c.First(); k != nil && len(out) < n; k, v = c.Next() {
			var l Letter
			if err := json.Unmarshal(v, &l); err != nil {
				return err
			}
			l.Seq = binary.BigEndian.Uint64(k)
			out = append(out, l)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	return out, nil
}

// Delivered removes a message from the outbox.
func (j *Journal) Delivered(seq uint64) error {
	err := j.db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketOutbox).Delete(binary.BigEndian.AppendUint64(nil, seq))
	})
	if err != nil {
		return fmt.Errorf("remove from outbox: %w", err)
	}
	return nil
}
