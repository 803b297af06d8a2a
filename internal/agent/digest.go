package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// Digest identifies what a person approves: the action, its exact
// parameters, the page it is for and the subject as it was shown. Both sides
// of the pipe compute it: lower-case hex SHA-256 over the netstrings
// ("<length in bytes>:<bytes>,") of, in this order,
//
//	action, params, page_id, domain, role, name, context
//
// where params is the parameters with defaults applied in RFC 8785
// canonical form, given by the caller as canonical.
func Digest(action string, canonical []byte, pageID string, s Subject) string {
	var b []byte
	for _, f := range []string{action, string(canonical), pageID, s.Domain, s.Role, s.Name, s.Context} {
		b = strconv.AppendInt(b, int64(len(f)), 10)
		b = append(b, ':')
		b = append(b, f...)
		b = append(b, ',')
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
