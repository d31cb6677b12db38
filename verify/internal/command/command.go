// Package command has the common code of the programs of this module.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit codes of all programs.
const (
	Failure = 1
	Usage   = 2
)

// ErrFailed ends a program with the exit code 1, and without a message: it has said why.
var ErrFailed = errors.New("failed")

// A Code is an error that ends a program with an exit code of its own.
type Code struct {
	error
	Code int
}

// WithCode returns an error that ends a program with an exit code.
func WithCode(code int, err error) error { return Code{err, code} }

// Main parses the arguments into flags and runs a program, which ends early at a signal, with
// the name of the verb that was chosen. It returns the exit code: 1 if there is an error, 2 if the flags are wrong.
func Main(name, description string, flags any, run func(ctx context.Context, verb string) error, options ...kong.Option) (code int) {
	k, err := kong.New(flags, append(options, kong.Name(name), kong.Description(description))...)
	code = Usage
	if err == nil {
		var chosen *kong.Context
		if chosen, err = k.Parse(os.Args[1:]); err == nil {
			ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			err = run(ctx, chosen.Command())
			code = Failure
			cancel()
		}
	}
	if err == nil {
		return 0
	}
	if own, ok := errors.AsType[Code](err); ok {
		code = own.Code
	}
	if !errors.Is(err, ErrFailed) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	return code
}
