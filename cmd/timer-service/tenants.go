package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

type tenantsCmd struct {
	Forget tenantsForgetCmd `cmd:"" help:"Delete all timers and parked events of a tenant."`
}

type tenantsForgetCmd struct {
	Tenant timer.TenantID `arg:"" help:"The tenant."`
	Yes    bool           `help:"Do not ask for the name once more."`
}

// Help is printed below the summary.
func (tenantsForgetCmd) Help() string {
	return `Deletes timers in any state, for good. Before it does, it says how many there are, and asks
for the name once more. It needs the token of all tenants.
Messages of the tenant that are at the broker stay there, and what it schedules later
is accepted.

Examples:

    timer-service tenants forget acme
    timer-service tenants forget acme --yes -o json`
}

// Run deletes the timers of the tenant.
func (t *tenantsForgetCmd) Run(ctx context.Context, e *env) error {
	tenant := string(t.Tenant)
	if !t.Yes && !isTerminal(e.stdin) {
		return wrong("tenants forget", "there is no terminal to ask for the name: give --yes to delete without a question")
	}
	o, err := e.service(ctx)
	if err != nil {
		return err
	}
	if !t.Yes {
		n, err := apiclient.Get[admin.TenantStats](ctx, o, apiclient.Path("tenants", tenant))
		if err == nil {
			err = confirm(e.stdin, e.stderr, tenant, timer.Counts(n.Counts).Total())
		}
		if err != nil {
			return err
		}
	}
	sum := admin.Tenant{TenantID: t.Tenant}
	for f := (admin.Forgotten{}); !f.Complete && err == nil; {
		f, err = apiclient.Do[admin.Forgotten](ctx, o, http.MethodDelete, apiclient.Path("tenants", tenant)+apiclient.Query("confirm", tenant), nil)
		sum.Counts = admin.Counts(timer.Counts(sum.Counts).Add(timer.Counts(f.Deleted)))
	}
	if err == nil || sum.Counts != (admin.Counts{}) {
		e.out.print(sum, fmt.Sprintf("deleted of %s: %d scheduled, %d reached, %d expired, %d canceled", tenant, sum.Scheduled, sum.Reached, sum.Expired, sum.Canceled))
	}
	if err != nil && !errors.Is(err, apiclient.ErrDenied) { // a denial stays
		err = fmt.Errorf("not all is forgotten: run it again: %w", err)
	}
	return err
}

// confirm asks people to type the name of a tenant before its timers are deleted.
func confirm(in io.Reader, out io.Writer, tenant string, timers int64) error {
	fmt.Fprintf(out, "This deletes all timers of %s: %d. Its name once more: ", tenant, timers)
	line, _ := bufio.NewReader(in).ReadString('\n')
	if strings.TrimSpace(line) != tenant {
		return errors.New("nothing was deleted: that is not its name; --yes does not ask")
	}
	return nil
}

// isTerminal reports whether a reader is a terminal.
func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // descriptors are small
}
