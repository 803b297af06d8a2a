// Package spell guesses which known word a mistyped one was meant to be, for
// messages that help.
package spell

import "strings"

// Nearest returns the known word that differs least from word, case aside,
// or "" if all differ by more than a slip: two letters, in long words a
// fifth.
func Nearest(word string, known []string) string {
	best, least := "", 1+max(2, len(word)/5)
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes; words far too long to be a
// slip are infinitely far.
func distance(a, b string) int {
	if len(a) > 80 {
		return 1 << 30
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
