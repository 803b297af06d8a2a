package gateway

import (
	"log/slog"

	"sgclaw/internal/durable"
	"sgclaw/internal/store"
)

// Gateway is one gateway process. Its fields are what all handlers share.
type Gateway struct {
	log   *slog.Logger
	store *store.Store
	core  *durable.Client
}

// Conn is a client's connection.
type Conn struct {
	id string
}
