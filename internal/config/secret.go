package config

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is a value that must not be seen. However it is printed, logged or
// encoded it shows as ***; only Reveal gives it away.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String returns "***", or nothing if there is no secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "***"
}

// Format prints String whatever the verb; %d of a string type would
// otherwise show it.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler, for TOML and map keys.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON implements json.Marshaler.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }
