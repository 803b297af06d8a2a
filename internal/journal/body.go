package journal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	bolt "go.etcd.io/bbolt"

	"sgclaw/internal/agent"
)

// cutMark ends a text that was too long to keep.
const cutMark = "\n[cut: the rest was too long to keep]"

// Keep stores bodies under refs that the caller made: random, 1 to 64 bytes.
func (j *Journal) Keep(bodies map[string]agent.Body) error {
	if len(bodies) == 0 {
		return nil
	}
	err := j.db.Update(func(tx *bolt.Tx) error { return j.putBodies(tx, bodies) })
	if err != nil {
		return fmt.Errorf("keep observation: %w", err)
	}
	return nil
}

// Body returns what is stored under the ref, or ErrNotFound.
func (j *Journal) Body(ref string) (agent.Body, error) {
	var body agent.Body
	err := j.db.View(func(tx *bolt.Tx) error {
		v := tx.Bucket(bucketBodies).Get([]byte(ref))
		if v == nil {
			return ErrNotFound
		}
		var err error
		body, err = decodeBody(v)
		return err
	})
	if err != nil {
		return agent.Body{}, fmt.Errorf("observation %q: %w", ref, err)
	}
	return body, nil
}

func (j *Journal) putBodies(tx *bolt.Tx, bodies map[string]agent.Body) error {
	b := tx.Bucket(bucketBodies)
	for ref, body := range bodies {
		if ref == "" || len(ref) > 64 {
			return fmt.Errorf("ref %q must have 1 to 64 bytes", ref)
		}
		data, err := encodeBody(body, j.now())
		if err != nil {
			return err
		}
		if err := b.Put([]byte(ref), data); err != nil {
			return err
		}
	}
	return nil
}

// A body is stored as the time in milliseconds (8 bytes, big endian), the
// length of its head (uvarint), the head in JSON, and the picture as it is.
type bodyHead struct {
	Text string     `json:"text,omitempty"`
	Page agent.Page `json:"page,omitzero"`
	MIME string     `json:"mime,omitempty"`
}

func encodeBody(body agent.Body, at time.Time) ([]byte, error) {
	if len(body.Image) > MaxImage {
		body.Image, body.MIME = nil, ""
		body.Text += "\n[the picture was too large to keep]"
	}
	head, err := json.Marshal(bodyHead{Text: cut(body.Text, MaxText), Page: body.Page, MIME: body.MIME})
	if err != nil {
		return nil, err
	}
	data := binary.AppendUvarint(stamp(at), uint64(len(head)))
	data = append(data, head...)
	return append(data, body.Image...), nil
}

func decodeBody(data []byte) (agent.Body, error) {
	if len(data) < 8 {
		return agent.Body{}, errors.New("stored observation is damaged")
	}
	data = data[8:]
	n, w := binary.Uvarint(data)
	if w <= 0 || n > uint64(len(data)-w) {
		return agent.Body{}, errors.New("stored observation is damaged")
	}
	var head bodyHead
	if err := json.Unmarshal(data[w:w+int(n)], &head); err != nil {
		return agent.Body{}, fmt.Errorf("stored observation is damaged: %w", err)
	}
	body := agent.Body{Text: head.Text, Page: head.Page, MIME: head.MIME}
	if image := data[w+int(n):]; len(image) > 0 {
		body.Image = append([]byte(nil), image...)
	}
	return body, nil
}

// cut shortens s to at most max bytes, mark included, between characters.
func cut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	s = s[:max-len(cutMark)]
	for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	if r, _ := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && len(s) > 0 {
		s = s[:len(s)-1]
	}
	return strings.TrimRight(s, "\n") + cutMark
}
