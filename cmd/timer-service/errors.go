package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/event-service-agent/timer-service/timer"
)

// errNoVerb says that no verb was given and that help was printed. It is a
// usage mistake: a deployment that forgets its verb must fail.
var errNoVerb = errors.New("no verb")

// A usageError is a mistake of the user. Nothing was tried.
type usageError struct {
	err  error
	help string // command that prints the help; may be empty
}

// Error returns the message, without the help.
func (u *usageError) Error() string { return u.err.Error() }

// Unwrap returns the mistake.
func (u *usageError) Unwrap() error { return u.err }

// wrong returns the usageError of a verb, with a formatted message.
func wrong(verb, format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...), help: program + " " + verb + " --help"}
}

// An absentError says that something does not exist.
type absentError struct {
	what string // the thing that does not exist
	verb string // the verb that lists the things that do
}

// Error names the absent thing.
func (a *absentError) Error() string { return a.what + ": not found" }

// Unwrap returns the class of the error.
func (*absentError) Unwrap() error { return timer.ErrNotFound }

// printError prints an error for people.
func printError(w io.Writer, err error) {
	if errors.Is(err, errNoVerb) {
		return
	}
	fmt.Fprintf(w, "%s: %s\n", program, redact(err.Error()))
	if usage, ok := errors.AsType[*usageError](err); ok && usage.help != "" {
		fmt.Fprintf(w, "Run %q for usage.\n", usage.help)
	} else if what := hint(err); what != "" {
		fmt.Fprintln(w, what)
	}
}

// credentials matches the user and password of a URL anywhere in a text.
var credentials = regexp.MustCompile(`://[^\s"]*@`)

// redact removes credentials from a message: a URL that is given as a wrong
// argument is quoted in the error.
func redact(message string) string { return credentials.ReplaceAllString(message, "://***@") }

// mistakes returns the usageError of an invalid configuration, with a line for each mistake.
func mistakes(err error) error {
	if n := 1 + strings.Count(err.Error(), "\n"); n > 1 {
		return &usageError{err: fmt.Errorf("%d mistakes in the configuration:\n  %s", n, strings.ReplaceAll(err.Error(), "\n", "\n  "))}
	}
	return &usageError{err: fmt.Errorf("configuration: %w", err)}
}
