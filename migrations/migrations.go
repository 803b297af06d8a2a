// Package migrations embeds the database's migrations, in goose's format.
// They are append-only: a migration that was released is never changed.
// Package store runs them.
package migrations

import "embed"

// FS holds the migrations.
//
//go:embed *.sql
var FS embed.FS
