package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

type pauseCmd struct {
	Tenant timer.TenantID `arg:"" optional:"" help:"Fire no timer of this tenant; without it, of any."`
	Until  moment         `placeholder:"2h" help:"Fire again after this long (2h, 7d) or at this time (RFC 3339); without it, when firing is resumed."`
}

type resumeCmd struct {
	Tenant timer.TenantID `arg:"" optional:"" help:"End the pause of this tenant; without it, the one of all."`
}

// Help is printed below the summary.
func (pauseCmd) Help() string {
	return `Commands are taken, and events that wait are published: no timer fires, on any instance
that shares the database, also after a restart. What is paused already stays so, until
the time that is given now. The verb stats says what is paused, and what waits for that.

Examples:

    timer-service pause
    timer-service pause acme
    timer-service pause acme --until 2h
    timer-service pause --until 2030-01-31T12:00:00Z -o json`
}

// Help is printed below the summary.
func (resumeCmd) Help() string {
	return `What is overdue fires first, tenants in turn. A tenant that was paused by name is resumed
by name.

Examples:

    timer-service resume
    timer-service resume acme`
}

// Run pauses firing.
func (p *pauseCmd) Run(ctx context.Context, e *env, c *apiclient.Client) error {
	return changeFiring(ctx, e, c, "firing:pause", "tenant", string(p.Tenant), "until", p.Until.text())
}

// Run resumes firing.
func (r *resumeCmd) Run(ctx context.Context, e *env, c *apiclient.Client) error {
	return changeFiring(ctx, e, c, "firing:resume", "tenant", string(r.Tenant))
}

// changeFiring asks to pause or to resume firing, and prints the answer.
func changeFiring(ctx context.Context, e *env, c *apiclient.Client, path string, query ...string) error {
	f, err := apiclient.Do[admin.Firing](ctx, c, http.MethodPost, apiclient.Path(path)+apiclient.Query(query...), nil)
	if err == nil {
		e.out.print(&firing{f})
	}
	return err
}

// A firing says whether timers fire.
type firing struct{ admin.Firing }

func (f *firing) text() string {
	lines := []string{"timers fire"}
	switch {
	case f.Paused:
		lines[0] = "firing is paused " + pauseText(f.Pause)
	case len(f.Tenants) > 0:
		lines[0] = "timers of all other tenants fire"
	}
	for _, t := range f.Tenants {
		lines = append(lines, fmt.Sprintf("firing of %s is paused %s", t.TenantID, pauseText(t.Pause)))
	}
	return strings.Join(lines, "\n")
}

// pauseText says since and until when firing is paused, and by whom.
func pauseText(p admin.Pause) string {
	text := "since " + when(p.Since)
	if p.By != "" {
		text += " by " + printable(p.By)
	}
	if p.Until != "" {
		text += " until " + when(p.Until)
	}
	return text
}

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
	sum := &forgotten{admin.Tenant{TenantID: t.Tenant}}
	defer func() { e.out.print(sum) }()
	for {
		f, err := apiclient.Do[admin.Forgotten](ctx, o, http.MethodDelete, apiclient.Path("tenants", tenant)+apiclient.Query("confirm", tenant), nil)
		if err != nil {
			return fmt.Errorf("not all is forgotten: run it again: %w", err)
		}
		if f.Deleted == (admin.Counts{}) {
			return nil
		}
		sum.Counts = admin.Counts(timer.Counts(sum.Counts).Add(timer.Counts(f.Deleted)))
	}
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

// Forgotten counts the timers that were deleted.
type forgotten struct{ admin.Tenant }

func (f *forgotten) text() string {
	return fmt.Sprintf("deleted of %s: %d scheduled, %d reached, %d expired, %d canceled", f.TenantID, f.Scheduled, f.Reached, f.Expired, f.Canceled)
}

type quotasCmd struct {
	Show quotasShowCmd `cmd:"" help:"Show limits and use of tenants."`
}

type quotasShowCmd struct {
	Tenant timer.TenantID `arg:"" optional:"" help:"This tenant only."`
	Limit  int            `default:"100" help:"How many tenants at most, up to 1000."`
	After  timer.TenantID `placeholder:"TENANT" help:"Only tenants after this one."`
}

// Help is printed below the summary.
func (quotasShowCmd) Help() string {
	return `Asks a running service, which alone knows what is used: tenants with limits of their
own, and tenants that were active in the last minutes.

Examples:

    timer-service quotas show
    timer-service quotas show acme -o json`
}

// Run prints a line for each tenant.
func (q *quotasShowCmd) Run(ctx context.Context, e *env, c *apiclient.Client) error {
	page, err := apiclient.Get[admin.Quotas](ctx, c, apiclient.Path("quotas")+apiclient.Query("tenant", string(q.Tenant), "after", string(q.After), "limit", fmt.Sprint(q.Limit)))
	if err != nil {
		return err
	}
	rows := e.out.rows("tenant", "live", "of", "accept/s", "fire/s", "over quota", "waiting", "exceeded at")
	for _, t := range page.Tenants {
		rows.add(t, t.TenantID, t.LiveTimers, some(t.Limits.LiveTimers), some(t.Limits.AcceptRate), some(t.Limits.FireRate), t.Limits.OverQuota, some(t.Waiting), t.ExceededAt)
	}
	none := "no tenant was active, or has limits of its own: timer-service config prints the limits of all"
	if !page.Limited {
		none = "there are no quotas: quotas_file is not set"
	}
	rows.end(e, none, page.Next)
	return nil
}
