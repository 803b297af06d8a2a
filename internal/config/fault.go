package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sgclaw/internal/spell"
)

// Fault is one mistake in the configuration.
type Fault struct {
	// File and Line say where it stands; empty and 0 if it does not come
	// from a file or the line is not known.
	File string
	Line int
	// Env is the variable that it comes from, if any.
	Env string
	// Key is the key, e.g. agent.max_steps; empty for the file as a whole.
	Key string
	// Message says what is wrong and, where that is not plain, what to do.
	Message string
}

func (f Fault) String() string {
	var where []string
	switch {
	case f.Env != "":
		where = append(where, f.Env)
	case f.File != "" && f.Line > 0:
		where = append(where, f.File+":"+strconv.Itoa(f.Line))
	case f.File != "":
		where = append(where, f.File)
	}
	if f.Key != "" && f.Env == "" {
		where = append(where, f.Key)
	}
	return strings.Join(append(where, f.Message), ": ")
}

// FaultsError lists all that is wrong with the configuration.
type FaultsError struct{ Faults []Fault }

// Error has one line for each fault.
func (e *FaultsError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// faultsError returns nil if there are no faults. Those of the file come
// first, in its order.
func faultsError(faults []Fault) error {
	if len(faults) == 0 {
		return nil
	}
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Env, b.Env), cmp.Compare(a.Line, b.Line))
	})
	return &FaultsError{faults}
}

// didYouMean suggests the nearest known word for a mistyped one.
func didYouMean(word string, known []string) string {
	if best := spell.Nearest(word, known); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}
