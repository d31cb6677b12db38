package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/timer"
)

// errNoVerb says that help was printed, since nothing was asked for. It is a
// mistake all the same: a deployment that forgets its verb must not look well.
var errNoVerb = errors.New("no verb")

// A usageError is the caller's mistake. Nothing was tried.
type usageError struct {
	err  error
	help string // command that prints the help to read; may be empty
}

// Error returns the message, without the help.
func (u *usageError) Error() string { return u.err.Error() }

// Unwrap returns the mistake.
func (u *usageError) Unwrap() error { return u.err }

// wrong returns the usageError of a verb, with a formatted message.
func wrong(verb, format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...), help: program + " " + verb + " --help"}
}

// refused returns the usageError of a verb for an invalid argument.
func refused(verb string, err error) error { return wrong(verb, "%s", detail(err)) }

// detail returns what an error says, without the class of it.
func detail(err error) string {
	if invalid, ok := errors.AsType[*timer.InvalidError](err); ok {
		return invalid.Detail
	}
	return err.Error()
}

// complain writes an error for people.
func complain(w io.Writer, err error) {
	if errors.Is(err, errNoVerb) {
		return
	}
	fmt.Fprintf(w, "%s: %s\n", program, discreet(err.Error()))
	if usage, ok := errors.AsType[*usageError](err); ok && usage.help != "" {
		fmt.Fprintf(w, "Run %q for usage.\n", usage.help)
	}
}

// credentials matches those of a URL, wherever it stands in a text.
var credentials = regexp.MustCompile(`://[^\s"]*@`)

// discreet takes credentials out of a message, since a URL in the wrong place
// is quoted like any other mistake.
func discreet(message string) string { return credentials.ReplaceAllString(message, "://***@") }

// mistakes returns the usageError of a configuration that is not valid, with
// one mistake a line if there are several.
func mistakes(err error) error {
	all := flatten(err)
	if len(all) > 1 {
		lines := make([]string, len(all))
		for i, one := range all {
			lines[i] = "\n  " + one.Error()
		}
		return &usageError{err: fmt.Errorf("%d mistakes in the configuration:%s", len(all), strings.Join(lines, ""))}
	}
	if _, ok := errors.AsType[*config.Mistake](err); ok {
		return &usageError{err: fmt.Errorf("configuration: %w", err)}
	}
	return &usageError{err: err}
}

// flatten returns the errors that were joined, however often.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, flatten(one)...)
	}
	return all
}
