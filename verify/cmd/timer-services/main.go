// Command timer-services gives the same load and the same faults to several timer services,
// and judges what their clients saw: timer-services --help lists its flags.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/event-service-agent/timer-service/verify/internal/command"
	"github.com/event-service-agent/timer-service/verify/services"
)

const description = `Starts each service with its servers, sends it timers that are due in 1 to 20
seconds, of which it moves 5 % and cancels 5 % where the service can, and injects the
same seeded list of faults: a process is killed or frozen, its broker or database is
killed, a connection is cut or half open. What the clients saw is written in the format
of docs/history.md, and judged by two programs that share no code.

It builds what it needs. PostgreSQL, RabbitMQ and Temporal must be installed, and
Python 3 for the second judge. For Temporal it must be built with -tags temporal.

Exit codes: 0 the judges agree, and this repository's service broke no rule; 1 otherwise,
or the test could not run; 2 wrong flags.`

type cli struct {
	Service []string `default:"${services}" enum:"${services}" help:"Services, one after the other: ${enum}." placeholder:"NAME"`
	Faults  int      `default:"300" help:"How many faults each service has."`
	Seed    uint64   `default:"1" help:"Chooses the faults and the timers."`
	Rate    int      `default:"300" help:"Timers a second."`
	Out     string   `default:"bin/services" help:"Folder for the histories."`
	Judge   []string `type:"existingfile" placeholder:"FILE" help:"Judge these histories, and do nothing else."`
}

func main() {
	services.WorkerMain()
	var c cli
	os.Exit(command.Main("timer-services", description, &c, func(ctx context.Context, _ string) error { return c.run(ctx) },
		kong.Vars{"services": strings.Join(services.Names(), ",")}))
}

func (c cli) run(ctx context.Context) error {
	if len(c.Judge) > 0 {
		return c.judge(ctx)
	}
	if c.Faults < 0 || c.Rate < 1 {
		return command.WithCode(command.Usage, errors.New("--rate must be above zero, --faults not below"))
	}
	var results []services.Result
	var failed error
	fails := func(name string, why any) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, why)
		failed = command.ErrFailed
	}
	for _, name := range c.Service {
		r, err := services.Run(ctx, services.Options{Service: name, Faults: c.Faults, Seed: c.Seed, Rate: c.Rate, Out: c.Out, Progress: os.Stderr})
		if err != nil {
			fails(name, err)
			continue
		}
		results = append(results, r)
		if r.Verdict.Void || r.Ours && !r.Verdict.Clean() {
			fails(name, "see "+r.File)
		}
	}
	services.WriteTable(os.Stdout, results)
	return failed
}

func (c cli) judge(ctx context.Context) error {
	var failed error
	for _, file := range c.Judge {
		v, err := services.JudgeFile(ctx, file)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(v); err != nil {
			return err
		}
		if !v.Clean() {
			failed = command.ErrFailed
		}
	}
	return failed
}
