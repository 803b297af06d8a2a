// Package durable is the typed client of the durable core: it starts tasks,
// answers confirmations, stops, instructs, moves and rewinds runs, and asks
// where they stand. It knows Temporal, so that binaries need not; it decides
// nothing (package workflows does) and stores nothing.
//
// # Messages to a run
//
// A run takes signals and updates of the same names. A signal is kept by the
// server whoever is away, but nobody answers it; an update is checked by the
// run and answered, but only while a worker is there. This client sends the
// update, and when no worker answers in time, the signal: Receipt.Signalled
// says that it did. Both may then arrive, so only messages that a run takes
// once are sent twice: each carries an id (the confirmation's, the
// instruction's) or is idempotent by nature (abort, move).
//
// # Rewinding
//
// Rewind is a Temporal reset: the run's history is kept up to the moment
// before the model was asked for the given step, everything after it is
// dropped, signals and updates included, and the run goes on from there in a
// new execution with the same workflow id. The session that waits for the
// run goes on waiting for the new execution. What was done in the browser
// stays done.
//
// An instruction given with it must be there before the model is asked.
// Servers refuse the post-reset signal operation that the API describes, and
// a signal sent after the reset races with the worker. So the run is reset
// twice: to the step without the old signals, then, with the instruction
// signalled, to the same point again, now keeping signals, of which the
// instruction is the only one. The execution in between lives for some
// milliseconds and is superseded like the one before it.
package durable
