package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/verify/bench"
	"github.com/event-service-agent/timer-service/verify/crash"
)

type tableCmd struct {
	Timers   int           `short:"n" default:"30000" help:"How many are due at one instant."`
	Duration time.Duration `default:"10s" help:"How long 500 timers a second come."`
	Rows     []string      `enum:"sqlite,embedded,postgres,kafka,rabbitmq,native,river,queues" default:"sqlite,embedded,postgres,kafka,rabbitmq,native,river,queues" help:"Which rows, in this order."`
}

// A row is one of the table.
type row struct {
	name, title   string
	drain, steady func(context.Context, bench.Options) (bench.Result, error) // one may be nil
	change        func(*bench.Options)
}

var rows = []row{
	{"sqlite", "SQLite, NATS", bench.Drain, bench.Steady, func(*bench.Options) {}},
	{"embedded", "SQLite, embedded broker, power-safe", bench.Drain, bench.Steady, func(o *bench.Options) { o.Embedded = true }},
	{"postgres", "PostgreSQL, NATS", bench.Drain, bench.Steady, func(o *bench.Options) { o.Store = crash.Postgres }},
	{"kafka", "SQLite, Kafka", bench.Drain, bench.Steady, func(o *bench.Options) { o.Broker = crash.Kafka }},
	{"rabbitmq", "SQLite, RabbitMQ", bench.Drain, bench.Steady, func(o *bench.Options) { o.Broker = crash.RabbitMQ }},
	{"native", "NATS's own scheduler", bench.Native, nil, func(*bench.Options) {}},
	{"river", "River on PostgreSQL", bench.River, bench.RiverSteady, func(*bench.Options) {}},
	{"queues", "RabbitMQ's queues with a TTL", nil, bench.RabbitMQSteady, func(*bench.Options) {}},
}

// table measures all rows, --runs times in turns, and writes the medians.
func (c *cli) table(ctx context.Context, opt bench.Options, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "timer-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if opt.Bin, err = crash.Build(ctx, dir); err != nil {
		return err
	}
	chosen := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !slices.Contains(c.Table.Rows, r.name) })
	var contenders []bench.Contender
	for _, r := range chosen {
		opt := opt
		opt.Broker = crash.NATS
		opt.Timers, opt.Duration, opt.Rate = c.Table.Timers, c.Table.Duration, 500
		if r.change(&opt); opt.Broker != crash.Kafka { // --kafka is for the row of Kafka
			opt.Kafka = ""
		}
		contenders = append(contenders, bench.Contender{Name: r.title, Measure: func(ctx context.Context) (bench.Result, error) {
			var both bench.Result
			var err error
			if r.drain != nil {
				if both, err = r.drain(ctx, opt); err != nil {
					return both, err
				}
				both.Lateness = nil
			}
			if r.steady != nil {
				alone, err := r.steady(ctx, opt)
				if err != nil {
					return both, err
				}
				both.CPU, both.Lateness = alone.CPU, alone.Lateness
			}
			return both, nil
		}})
	}
	results, err := bench.Compare(ctx, c.Runs, opt.Progress, contenders...)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "| | accepted/s | delivered/s | CPU a timer, µs: until accepted + until delivered | at 500/s: p50 / p99 ms | CPU a timer at 500/s, ms | memory, MiB |")
	fmt.Fprintln(out, "| --- | ---: | ---: | --- | --- | ---: | ---: |")
	for i, r := range chosen {
		fmt.Fprintln(out, bench.MarkdownRow(r.title, results[i]))
	}
	return nil
}
