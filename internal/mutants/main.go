// Command mutants proves that the tests see what must not happen. A mutant is
// one wrong change of the real code; each is applied to a copy of the module,
// alone, and a test has to turn red. One that survives is a hole in the tests:
// it is closed with a test, never by taking the mutant off the list.
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
	pattern := flags.String("run", "", "only mutants whose name matches the `regexp`")
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
		case !wanted.MatchString(m.name):
		case m.test.pkg == "./store/postgres" && os.Getenv("TIMER_TEST_POSTGRES") == "" && !*list:
			skipped++
		default:
			chosen = append(chosen, m)
		}
	}
	if skipped > 0 {
		fmt.Fprintf(out, "SKIPPED: %d mutants need TIMER_TEST_POSTGRES, the URL of a PostgreSQL server\n", skipped)
	}
	switch {
	case len(chosen) == 0:
		return fmt.Errorf("no mutant matches %q", *pattern)
	case *list:
		for _, m := range chosen {
			fmt.Fprintf(out, "%-36s %s\n%-36s %s\n", m.name, m.breaks, "", m.test)
		}
		return nil
	}
	return hunt(ctx, out, chosen)
}

// hunt runs mutants one by one, and returns an error unless every one is caught.
func hunt(ctx context.Context, out io.Writer, mutants []mutant) error {
	dir, err := copyModule(ctx)
	if err != nil {
		return fmt.Errorf("copy the module: %w", err)
	}
	defer os.RemoveAll(dir)

	if err := provenGreen(ctx, out, dir, mutants); err != nil {
		return err
	}
	var failed []error
	fmt.Fprintf(out, "%-36s  %-9s %7s  %s\n", "mutant", "", "seconds", "by")
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
			failed = append(failed, fmt.Errorf("%s: %w", m.name, err))
		case by == "":
			verdict, by = "SURVIVED", m.breaks
			failed = append(failed, fmt.Errorf("%s survived %s", m.name, m.test))
		}
		fmt.Fprintf(out, "%-36s  %-9s %7.1f  %s\n", m.name, verdict, time.Since(began).Seconds(), by)
	}
	fmt.Fprintf(out, "%d of %d caught\n", len(mutants)-len(failed), len(mutants))
	return errors.Join(failed...)
}

// provenGreen runs each test of the mutants on the code as it is: only what is
// green can turn red.
func provenGreen(ctx context.Context, out io.Writer, dir string, mutants []mutant) error {
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
			return fmt.Errorf("without a mutant, %s: %s is red", m.test, result.failed)
		case result.passed == 0:
			return fmt.Errorf("%s runs no test", m.test)
		}
	}
	fmt.Fprintf(out, "%d tests are green without a mutant (%.1f s)\n\n", len(known), time.Since(began).Seconds())
	return nil
}
