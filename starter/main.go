// Command starter is sgclaw's command line: it starts tasks, watches them,
// answers their questions, stops, corrects and rewinds them, and checks an
// installation. A person uses it at a terminal; a browser host or any other
// program uses it with --json.
//
// What goes where: results go to stdout; progress, questions, warnings and
// errors for people go to stderr. With --json, stdout carries one JSON value
// per line and nothing else, errors included. docs/starter.md documents the
// values and the exit codes.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := newApp(args, env, stdin, stdout, stderr)
	defer a.close()
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return a.exit(root.ExecuteContext(ctx))
}
