// Package activities does what workflows decide: each method is one Temporal
// activity. It reaches the outside only through the small interfaces that
// open each file; mechanisms (store, llm/openai, the browser's pipe) satisfy
// them without knowing this package, and main joins them.
package activities
