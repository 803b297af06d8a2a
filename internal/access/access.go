// Package access says who may do what at the gateway: roles, tokens and how
// they are checked. It is pure; tokens are kept by the store.
package access

import (
	"slices"
)

// Role is what somebody may do. Each role may do what the ones before it may.
type Role string

// The roles.
const (
	RoleViewer   Role = "viewer"   // see sessions, runs and events
	RoleUser     Role = "user"     // and give tasks, steer and abort runs, change sessions
	RoleApprover Role = "approver" // and answer confirmations
	RoleOperator Role = "operator" // and rewind runs, manage schedules, inject, see logs
)

var roles = []Role{RoleViewer, RoleUser, RoleApprover, RoleOperator}

// Roles are all roles, the weakest first.
func Roles() []Role { return slices.Clone(roles) }

// Valid reports whether r is a role.
func (r Role) Valid() bool { return slices.Contains(roles, r) }

// Covers reports whether r may do what other may.
func (r Role) Covers(other Role) bool {
	return r.Valid() && other.Valid() && slices.Index(roles, r) >= slices.Index(roles, other)
}

// Identity is who somebody is, once a token was checked.
type Identity struct {
	// TokenID is empty for the token of the configuration.
	TokenID string
	// Name is the token's name. It is what a record says who did something.
	Name string
	Role Role
}
