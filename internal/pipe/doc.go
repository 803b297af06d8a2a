// Package pipe is the wire between a browser host and an agent: one JSON
// message per line on the agent's stdin and stdout. It owns the messages and
// their codes, the bounded reader and writer of lines, the handshake of both
// sides, the signature of commands and the guard of their order. It starts
// no process, keeps no time but the handshake's, and decides nothing.
//
// docs/pipe.md is the specification; docs/schema has the JSON Schemas and
// the test vectors. The tests of this package hold all three together.
//
// A host's check of a command goes in this order, and the first that fails
// is the answer:
//
//	Reader.Next, Decode   PIPE_MESSAGE_TOO_LARGE, PIPE_INVALID_JSON,
//	                      PIPE_INVALID_MESSAGE, PIPE_UNKNOWN_TYPE
//	Verify                PIPE_HMAC_INVALID
//	SeqGuard.Accept       PIPE_SEQ_DUPLICATE, PIPE_SEQ_OUT_OF_ORDER
//	action, parameters    MAC_ACTION_BLOCKED, MAC_ACTION_NOT_ALLOWED,
//	                      CMD_INVALID_PARAMS
//	the rest of the MAC   MAC_*
package pipe

//go:generate go test . -run "^(TestSchemas|TestVectors)$" -update
