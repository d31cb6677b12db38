// Command mutants checks that the tests find what must not happen. A mutant is
// the code with one change that breaks a promise of the service; each is made in
// a copy of the repository, alone, and a test has to fail. One that survives
// shows that a test is missing: add the test, do not remove the mutant.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"time"
)

// needs are environment variables without which the tests of a package skip.
var needs = map[string]string{"./store/postgres": "TIMER_TEST_POSTGRES", "./broker/rabbitmq": "TIMER_TEST_RABBITMQ"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	pattern := flags.String("run", "", "only mutants whose promise, name or package match the `regexp`, such as ^I6 or poller")
	list := flags.Bool("list", false, "print the mutants and run nothing")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	wanted, err := regexp.Compile(*pattern)
	if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	var chosen []mutant
	skipped := 0
	for _, m := range all() {
		switch {
		case !wanted.MatchString(m.String() + " " + m.test.pkg):
		case needs[m.test.pkg] != "" && os.Getenv(needs[m.test.pkg]) == "" && !*list:
			skipped++
		default:
			chosen = append(chosen, m)
		}
	}
	if skipped > 0 {
		fmt.Fprintf(out, "SKIPPED: %d mutants need TIMER_TEST_POSTGRES or TIMER_TEST_RABBITMQ, the URL of a server\n", skipped)
	}
	switch {
	case len(chosen) == 0:
		return fmt.Errorf("no mutant matches %q", *pattern)
	case *list:
		for _, m := range chosen {
			fmt.Fprintf(out, "%-4s %s\n     %s\n", m.promise, m.name, m.test)
		}
		return nil
	}
	return hunt(ctx, out, chosen)
}

// hunt runs mutants one by one, and returns an error unless all are caught.
func hunt(ctx context.Context, out io.Writer, mutants []mutant) error {
	dir, err := copyModule(ctx)
	if err != nil {
		return fmt.Errorf("copy the module: %w", err)
	}
	defer os.RemoveAll(dir)

	if err := pass(ctx, out, dir, mutants); err != nil {
		return err
	}
	var failed []error
	for _, m := range mutants {
		began := time.Now()
		result, err := m.try(ctx, dir)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		verdict, by := "caught", result.failed
		switch {
		case err != nil:
			verdict, by = "ERROR", err.Error()
			failed = append(failed, fmt.Errorf("%s: %w", m, err))
		case by == "":
			verdict, by = "SURVIVED", m.test.String()
			failed = append(failed, fmt.Errorf("%s: survived %s", m, m.test))
		}
		fmt.Fprintf(out, "%-8s %5.1f s  %-4s %s: %s\n", verdict, time.Since(began).Seconds(), m.promise, m.name, by)
	}
	fmt.Fprintf(out, "%d of %d caught\n", len(mutants)-len(failed), len(mutants))
	return errors.Join(failed...)
}

// pass runs each test of the mutants on the code as it is: a test that fails
// without a mutant shows nothing.
func pass(ctx context.Context, out io.Writer, dir string, mutants []mutant) error {
	began := time.Now()
	known := make(map[test]bool)
	for _, m := range mutants {
		if known[m.test] {
			continue
		}
		known[m.test] = true
		switch result, err := m.test.run(ctx, dir); {
		case err != nil:
			return fmt.Errorf("without a mutant, %s: %w", m.test, err)
		case result.failed != "":
			return fmt.Errorf("without a mutant, %s: %s fails", m.test, result.failed)
		case result.passed == 0:
			return fmt.Errorf("%s runs no test", m.test)
		}
	}
	fmt.Fprintf(out, "%d test runs pass without a mutant (%.1f s)\n\n", len(known), time.Since(began).Seconds())
	return nil
}
