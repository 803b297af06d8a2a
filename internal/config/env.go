package config

import "strings"

// Getenv finds variables in an environment of NAME=value; of several with one
// name the last one counts, as it does for a process.
func Getenv(env []string) func(name string) string {
	return func(name string) string {
		value := ""
		for _, kv := range env {
			if k, v, ok := strings.Cut(kv, "="); ok && k == name {
				value = v
			}
		}
		return value
	}
}
