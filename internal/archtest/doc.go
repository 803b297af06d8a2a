// Package archtest holds the project's shape as tests: who may import whom,
// and that every package says what it is for.
package archtest
