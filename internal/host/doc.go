// Package host is the browser side of the pipe: it starts the agent, checks
// every command that the agent sends and carries it out on a page. It is the
// reference for what seed 001 §3 gives to the browser: [Process] is
// SgClawProcessHost, [Process]'s reading loop PipeListener, the checks of
// [Router] MacWhitelistCheck, and [Router] itself CommandRouter.
//
// # The agent process
//
//	          Start                init_ack
//	stopped ────────▶ starting ─────────────▶ running ──┐
//	   ▲                 │ no or wrong          │       │ Stop
//	   │                 │ answer in 5 s        │ exit  ▼
//	   │                 ▼                      │     stopping
//	   │              crashed ◀─────────────────┤       │
//	   └────────────────────────────────────────┴───────┘
//	                                    exit 0      exit
//
// An agent that ends by itself with status 0 has stopped, with any other
// status it has crashed; observers get the status and the end of its stderr.
// It is not started again unless Keep is used.
//
// # One command
//
// A command passes, in this order: line and shape, HMAC, sequence,
// parameters, policy (blocked, not permitted, domain, domain mismatch with
// the page's real domain at the moment of execution, storage prefix), and
// then the question whether a person must agree. Commands for one page are
// carried out in order, those for different pages side by side. Whatever
// happens, a command whose seq could be read gets exactly one response, and
// every response says where the page stands.
//
// A command that needs a person is answered MAC_NEED_CONFIRM with what it
// would act on (ModeAnswer), or held: confirm_pending tells the agent, the
// Prompter asks, and the command is then carried out or refused (ModeHold).
// A grant is good for one command: the digest that it carries is computed
// again over the element as it is when it is about to be acted on. If the
// agent goes away, what is held is dropped and never carried out.
package host
