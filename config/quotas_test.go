package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

const days = 24 * time.Hour

// TestTheExampleOfQuotas loads the file that the documentation shows.
func TestTheExampleOfQuotas(t *testing.T) {
	t.Parallel()
	got, err := config.LoadQuotas("../docs/quotas.yaml")
	must(t, err)
	usual := quota.Limits{
		Live: 100_000, Accept: quota.Rate{PerSecond: 2000}, Fire: quota.Rate{PerSecond: 1000},
		Horizon: 365 * days, Policy: quota.Delay,
	}
	acme, jobs, internal := usual, usual, usual
	acme.Live, acme.Fire.PerSecond = 5_000_000, 5000
	jobs.Accept = quota.Rate{PerSecond: 1000, Burst: 50_000}
	internal.Live, internal.Accept, internal.Fire = 0, quota.Rate{}, quota.Rate{}
	want := quota.Config{Default: usual, Tenants: map[timer.TenantID]quota.Limits{
		"acme": acme, "batch-jobs": jobs, "internal": internal,
		"free-tier": {
			Live: 100, Accept: quota.Rate{PerSecond: 0.5, Burst: 10}, Fire: quota.Rate{PerSecond: 10},
			Horizon: 7 * days, Policy: quota.DeadLetter, ExpireAfter: time.Hour, Objective: 30 * time.Second,
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("quotas (-want +got):\n%s", diff)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	values := []config.Value{
		{Key: "quotas.default", Value: "live_timers: 100000, accept_rate: 2000/s, fire_rate: 1000/s, horizon: 365d, over_quota: delay"},
		{Key: "quotas.tenants.acme", Value: "live_timers: 5000000, accept_rate: 2000/s, fire_rate: 5000/s, horizon: 365d, over_quota: delay"},
		{Key: "quotas.tenants.batch-jobs", Value: "live_timers: 100000, accept_rate: 1000/s, accept_burst: 50000, fire_rate: 1000/s, horizon: 365d, over_quota: delay"},
		{Key: "quotas.tenants.free-tier", Value: "live_timers: 100, accept_rate: 0.5/s, accept_burst: 10, fire_rate: 10/s, horizon: 7d, expire_after: 1h, lateness_objective: 30s, over_quota: dead_letter"},
		{Key: "quotas.tenants.internal", Value: "horizon: 365d, over_quota: delay"},
	}
	for i := range values {
		values[i].From = "quotas_file"
	}
	if diff := cmp.Diff(values, config.QuotaValues(got)); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
}

func TestQuotasThatAreNotGivenAreNoLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]quota.Config{
		"default:":                               {},
		"default: {}\ntenants:":                  {},
		"tenants: {acme: , \"0\": {}, null: {}}": {Tenants: map[timer.TenantID]quota.Limits{"acme": {}, "0": {}, "null": {}}},
		"default: {live_timers: unlimited}":      {},
		"default: {fire_rate: unlimited}":        {},
		"default:\n  horizon: 60000":             {Default: quota.Limits{Horizon: time.Minute}},
		"default: {expire_after: 90m}":           {Default: quota.Limits{ExpireAfter: 90 * time.Minute}},
		"default: {expire_after: 1h}\ntenants: {a: {expire_after: unlimited}}": {
			Default: quota.Limits{ExpireAfter: time.Hour}, Tenants: map[timer.TenantID]quota.Limits{"a": {}},
		},
		"default: {accept_rate: '0.1/h'}":         {Default: quota.Limits{Accept: quota.Rate{PerSecond: 0.1 / 3600}}},
		"tenants: {acme: {accept_rate: 5/h}}":     {Tenants: map[timer.TenantID]quota.Limits{"acme": {Accept: quota.Rate{PerSecond: 5.0 / 3600}}}},
		"tenants: {a: {over_quota: dead_letter}}": {Tenants: map[timer.TenantID]quota.Limits{"a": {Policy: quota.DeadLetter}}},
		"tenants: {a: {fire_burst: 5}}\ndefault: {fire_rate: 1/s}": { // whichever comes first
			Default: quota.Limits{Fire: quota.Rate{PerSecond: 1}},
			Tenants: map[timer.TenantID]quota.Limits{"a": {Fire: quota.Rate{PerSecond: 1, Burst: 5}}},
		},
	} {
		got, err := config.LoadQuotas(file(t, text))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
}

func TestQuotasReportAllMistakesAtOnce(t *testing.T) {
	t.Parallel()
	name := file(t, `default:
  live_timer: 5
  live_timers: 0
  accept_rate: 2000
  fire_rate: [1]
  fire_burst: 10
  horizon: 1s
  expire_after: never
  over_quota: drop
tenants:
  _: {live_timers: 5}
  acme: {live_timers: -1, accept_burst: 1.5, accept_rate: 0/s}
  acme: {}
  beta: 5
  gamma:
    fire_rate: 1/d
    fire_rate: 2/s
    horizon:
  delta: {accept_burst: 5}
tennants: {}
`)
	_, err := config.LoadQuotas(name)
	if err == nil {
		t.Fatal("loaded")
	}
	want := strings.ReplaceAll(`default.live_timer (FILE:2): is no quota; did you mean live_timers?
default.live_timers="0" (FILE:3): must be a whole number from 1, or unlimited
default.accept_rate="2000" (FILE:4): must be a rate, such as 2000/s, 90/m or 5/h, or unlimited
default.fire_rate (FILE:5): must be a rate, such as 2000/s, 90/m or 5/h, or unlimited
default.horizon="1s" (FILE:7): must be a duration from 1m to 73000d, such as 365d
default.expire_after="never" (FILE:8): must be a duration from 1s to 3650d, such as 1h, or unlimited
default.over_quota="drop" (FILE:9): must be delay or dead_letter
default.fire_burst (FILE:6): needs fire_rate; set that too, or remove this
tenants.acme (FILE:13): is given in line 12 already; remove one
tennants (FILE:20): is no quota; did you mean tenants?
tenants._ (FILE:11): is not a tenant id: 1 to 64 characters of A-Z a-z 0-9 _ -, beginning with a letter or a digit
tenants.acme.live_timers="-1" (FILE:12): must be a whole number from 1, or unlimited
tenants.acme.accept_burst="1.5" (FILE:12): must be a whole number from 1 to 1000000000
tenants.acme.accept_rate="0/s" (FILE:12): must be a rate, such as 2000/s, 90/m or 5/h, or unlimited
tenants.beta (FILE:14): must be keys and values
tenants.gamma.fire_rate (FILE:17): is given in line 16 already; remove one
tenants.gamma.fire_rate="1/d" (FILE:16): must be a rate, such as 2000/s, 90/m or 5/h, or unlimited
tenants.gamma.horizon (FILE:18): must be a duration from 1m to 73000d, such as 365d
tenants.delta.accept_burst (FILE:19): needs accept_rate; set that too, or remove this`, "FILE", name)
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
}

// Whatever a file with quotas holds, it is refused or it is a book that can be
// used, and means the same when it is written again.
func FuzzQuotas(f *testing.F) {
	f.Add("default: {live_timers: 5, accept_rate: 2000/s, accept_burst: 7, horizon: 1d12h}\ntenants: {acme: {over_quota: dead_letter}}")
	f.Add("default:\n  fire_rate: 0.3/h\n  fire_burst: 1000000000\ntenants:\n  a:\n    fire_rate: unlimited\n")
	f.Add("tenants: {a: {horizon: 73000d}, 0: }")
	f.Add("default: {accept_rate: 999999999.9999999999/s}")
	f.Fuzz(func(t *testing.T, text string) {
		book, err := config.LoadQuotas(file(t, text))
		if err != nil {
			return
		}
		if err := book.Validate(); err != nil {
			t.Fatalf("loaded a wrong file: %v", err)
		}
		if _, err := quota.New(book, timer.ClockFunc(time.Now), quota.Options{}); err != nil {
			t.Fatal(err)
		}
		for name, l := range map[string]quota.Limits{"default": book.Default, "acme": book.Of("acme")} {
			written := config.FormatLimits(l)
			if written == "none" {
				written = ""
			}
			again, err := config.LoadQuotas(file(t, "default: {"+written+"}"))
			if diff := cmp.Diff(l, again.Default); diff != "" || err != nil {
				t.Errorf("%s is written as %s: %v (-read +again)\n%s", name, written, err, diff)
			}
		}
	})
}
