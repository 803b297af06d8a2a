// Package workflows decides: what a run does next, whom to ask, when to stop.
// It holds deterministic code only; everything that touches the outside is an
// activity. One file per workflow, the names of its signals, updates and
// queries beside it.
//
// Recorded histories of every workflow are kept in testdata and replayed in
// the tests: a change that would break a run that is under way fails there.
package workflows
