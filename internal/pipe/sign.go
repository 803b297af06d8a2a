package pipe

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"sgclaw/internal/action"
)

// keyInfo is the info of HKDF: it ties the key to this protocol.
const keyInfo = "sgclaw/pipe/1"

// Key signs the commands of one conversation. It does not print.
type Key [32]byte

// String keeps the key out of logs.
func (Key) String() string { return "pipe.Key" }

// GoString keeps the key out of logs.
func (Key) GoString() string { return "pipe.Key" }

// NewSeed returns a new random hmac_seed of 64 hex digits, for a host to
// send in Init. Each start of an agent takes a new one.
func NewSeed() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// ParseSeed returns the bytes of an hmac_seed: 32 to 64 hex digits, an even
// number of them. Errors are of type *Error and do not quote the seed.
func ParseSeed(seed string) ([]byte, error) {
	if n := len(seed); n < 32 || n > 64 || n%2 != 0 {
		return nil, Errorf(CodeInvalidSeed, "hmac_seed must be 32 to 64 hex digits, an even number of them; it has %d characters", n)
	}
	b, err := hex.DecodeString(seed)
	if err != nil {
		return nil, Errorf(CodeInvalidSeed, "hmac_seed must consist of hex digits")
	}
	return b, nil
}

// DeriveKey makes the key of a conversation from the bytes of its seed:
// HKDF-SHA256 without salt, info "sgclaw/pipe/1", 32 bytes.
func DeriveKey(seed []byte) (Key, error) {
	b, err := hkdf.Key(sha256.New, seed, nil, keyInfo, len(Key{}))
	if err != nil {
		return Key{}, fmt.Errorf("derive key: %w", err)
	}
	return Key(b), nil
}

// Sign sets the type and the signature of a command. It is the last thing
// done to a command before it is written.
func Sign(c *Command, key Key) error {
	c.Type = TypeCommand
	c.Security.HMAC = ""
	line, err := Encode(c)
	if err != nil {
		return fmt.Errorf("encode command: %w", err)
	}
	canonical, _, err := Canonical(line)
	if err != nil {
		return fmt.Errorf("sign command: %w", err)
	}
	c.Security.HMAC = mac(canonical, key)
	return nil
}

// Verify checks the signature of a command as it was received: members that
// this version does not know are signed too. It takes as long for a wrong
// signature as for a right one.
func Verify(line []byte, key Key) *Error {
	canonical, signature, err := Canonical(line)
	if err != nil {
		return Errorf(CodeHMACInvalid, "command cannot be verified: %v", err)
	}
	if !hmac.Equal([]byte(mac(canonical, key)), []byte(signature)) {
		return Errorf(CodeHMACInvalid, "security.hmac does not fit the command")
	}
	return nil
}

// Canonical returns what is signed of a command, the RFC 8785 form of the
// line without security.hmac, and that signature.
func Canonical(line []byte) (canonical []byte, signature string, err error) {
	if e := check(line); e != nil {
		return nil, "", e
	}
	var command, security map[string]json.RawMessage
	if err := json.Unmarshal(line, &command); err != nil {
		return nil, "", err
	}
	if err := json.Unmarshal(command["security"], &security); err != nil || security == nil {
		return nil, "", errors.New("command has no security")
	}
	if raw, ok := security["hmac"]; ok {
		if err := json.Unmarshal(raw, &signature); err != nil {
			return nil, "", errors.New("security.hmac is not a string")
		}
		delete(security, "hmac")
	}
	if command["security"], err = json.Marshal(security); err != nil {
		return nil, "", err
	}
	bare, err := json.Marshal(command)
	if err != nil {
		return nil, "", err
	}
	canonical, err = action.Canonical(bare)
	return canonical, signature, err
}

// mac is the lower-case hex HMAC-SHA256.
func mac(canonical []byte, key Key) string {
	h := hmac.New(sha256.New, key[:])
	h.Write(canonical)
	return hex.EncodeToString(h.Sum(nil))
}

// MaxSeq is the highest seq: the last integer that every JSON parser reads
// exactly.
const MaxSeq = 1<<53 - 1

// SeqGuard is the host's guard against commands that come twice or out of
// order. The zero value expects seq 1. Only commands whose signature is good
// may reach it.
type SeqGuard struct{ last uint64 }

// Accept takes a command's seq if it is the next one. If not, the guard
// stands as before.
func (g *SeqGuard) Accept(seq uint64) *Error {
	switch {
	case seq <= g.last:
		return Errorf(CodeSeqDuplicate, "seq %d was used before; the next is %d", seq, g.last+1)
	case seq > g.last+1:
		return Errorf(CodeSeqOutOfOrder, "seq %d comes too early; the next is %d", seq, g.last+1)
	}
	g.last = seq
	return nil
}

// Last returns the seq that was accepted last, 0 before the first.
func (g *SeqGuard) Last() uint64 { return g.last }
