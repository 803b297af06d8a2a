// Package scripted is a model server without a model: it speaks OpenAI's
// streaming chat completions and chooses its tool calls by rules, from what
// the conversation and the newest view of the page say. It lets the demo run
// on a machine without a key and tests see what an agent does when a model
// behaves well, badly or not at all.
//
// It is a server, on purpose: the product reaches it over HTTP with the
// provider it uses for every service (llm/openai), so that nothing of the way
// to a model is skipped, and it can not be built into a binary in a model's
// place. It knows no selectors and no site: it reads roles, names, table
// headers and refs. It imports nothing of the product and learns the format
// of conversations from what is sent to it.
//
// # What it can do
//
//   - decide on requests in a list: "approve the pending leave requests of up
//     to three days, leave the others, and list them", in Chinese or English,
//     by limit, by name or all of them, approving or rejecting, over several
//     pages of a list
//   - open a URL and tell its title or read its text
//   - click something by its name, or type something into a field, and report
//   - count the rows of a table whose numbers are over or under a limit
//
// It leaves alone what a person refused, looks again before it repeats what
// may have happened, takes a new view when refs are stale, and heeds
// instructions that are added in mid-run ("also skip 张三", "stop").
// Instructions on pages it does not even see as such.
//
// It remembers nothing between calls. What it must know later it says in the
// text beside its calls, and reads it there.
//
// # Misbehaving
//
// Options and POST /admin/faults make it fail: see Fault.
package scripted
