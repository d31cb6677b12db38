package main

import (
	"context"
	"fmt"

	"github.com/event-service-agent/timer-service/broker/deadletter"
)

type dlqShowCmd struct {
	IDs    []string `arg:"" name:"id" help:"Ids of dead letters, as dlq list prints them."`
	Tenant string   `placeholder:"TENANT" help:"Whose they are, for brokers that can't list their topics."`
}

// Help is printed below the summary.
func (dlqShowCmd) Help() string {
	return `Prints all that is known of a letter, and the body of its original: as it is if
that can be printed, else in base64. Exit code 3 says that there is no such
letter.

Examples:

    timer-service dlq show 31b57e33-eb4d-5b11-a6d2-6a5b2d2ffb2c
    timer-service dlq show 31b57e33-eb4d-5b11-a6d2-6a5b2d2ffb2c -o json`
}

// Run prints the letters.
func (d *dlqShowCmd) Run(ctx context.Context, e *env) error {
	meant := letterFilter{Tenant: d.Tenant}
	f, err := meant.filter(e, "dlq show", d.IDs, 0)
	if err != nil {
		return err
	}
	return withLetters(ctx, e, "dlq show", func(o *deadletter.Office) (deadletter.Summary, error) {
		first := true
		return o.List(ctx, f, func(l deadletter.Letter) error {
			if !first && !e.out.json {
				fmt.Fprintln(e.out.w)
			}
			first = false
			e.out.print(showLetter(l))
			return nil
		})
	})
}
