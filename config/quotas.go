package config

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// noLimit is the value of a limit that is not set.
const noLimit = "unlimited"

// LoadQuotas returns the quotas of a YAML file: the limits of all tenants under "default",
// and the limits of some tenants under "tenants". A limit that a tenant does not set is the
// default's.
//
// The error joins all mistakes. Each is a [*Mistake], unless a file cannot be read.
func LoadQuotas(file string) (quota.Config, error) {
	return loadYAML(yamlFile{what: "quotas file", name: file}, "default or tenants", (*yamlFile).quotas)
}

func (f *yamlFile) quotas(entries []entry) (quotas quota.Config) {
	var tenants []entry
	for _, e := range entries {
		switch e.name {
		case "default":
			quotas.Default = f.limits(e, quota.Limits{})
		case "tenants":
			tenants = f.entries(e)
		default:
			f.refuse(e, "", "is no quota"+didYouMean(e.name, []string{"default", "tenants"}))
		}
	}
	for _, e := range tenants {
		tenant := timer.TenantID(e.name)
		if err := tenant.Validate(); err != nil {
			f.refuse(e, "", "is not a tenant id: 1 to 64 characters of A-Z a-z 0-9 _ -, beginning with a letter or a digit")
			continue
		}
		if quotas.Tenants == nil {
			quotas.Tenants = make(map[timer.TenantID]quota.Limits, len(tenants))
		}
		quotas.Tenants[tenant] = f.limits(e, quotas.Default)
	}
	return quotas
}

// limits reads the limits of one tenant. A limit that is not set is taken from l.
func (f *yamlFile) limits(tenant entry, l quota.Limits) quota.Limits {
	table := quotaSettings(&l)
	given := make(map[string]entry)
	for _, e := range f.entries(tenant) {
		s, known := lookUp(table, e.name)
		if !known {
			f.refuse(e, "", "is no quota"+didYouMean(e.name, names(table, FromFile)))
			continue
		}
		text, _ := scalar(e.value) // empty if it is not a plain value, which no limit accepts
		if err := s.set(strings.TrimSpace(text)); err != nil {
			f.refuse(e, text, err.Error())
			continue
		}
		given[e.name] = e
	}
	for _, rate := range []struct {
		name string
		*quota.Rate
	}{{"accept", &l.Accept}, {"fire", &l.Fire}} {
		if rate.PerSecond > 0 {
			continue
		}
		if e, ok := given[rate.name+"_burst"]; ok {
			f.refuse(e, "", "needs "+rate.name+"_rate; set that too, or remove this")
		}
		rate.Burst = 0
	}
	return l
}

// quotaSettings is the table of the keys of l, in the order in which they are shown.
func quotaSettings(l *quota.Limits) []setting {
	return []setting{
		{"live_timers", "", limit(&l.Live, "a whole number from 1", parseCount, formatCount), "How many timers may wait to fire."},
		{"accept_rate", "", rate(&l.Accept.PerSecond), "How many timers are accepted, by all instances together. Each timer of a `ScheduleTimers` counts."},
		{"accept_burst", "", integer(&l.Accept.Burst, 1, 1e9), "How many may be accepted at once after a pause. Default: as many as in a second."},
		{"fire_rate", "", rate(&l.Fire.PerSecond), "How many timers fire, by all instances together."},
		{"fire_burst", "", integer(&l.Fire.Burst, 1, 1e9), "How many may fire at once after a pause. Default: as many as in a second."},
		{"horizon", "", between(&l.Horizon, "a duration", ", such as 365d", time.Minute, 73_000*day, ParseDuration, FormatDuration), "How far ahead a due time may lie. Default: the setting `horizon`."},
		{"expire_after", "", limit(&l.ExpireAfter, "a duration from 1s to 3650d, such as 1h", parseExpiry, FormatDuration), "How long after its due time a timer expires whose command names no expiry. Default: never."},
		{"lateness_objective", "", between(&l.Objective, "a duration", ", such as 5s", quota.MinObjective, day, ParseDuration, FormatDuration), "How late events may be, from the due time to the broker's ack: the overview is yellow if more than 1 of 100 were later. Default: 1s."},
		{"over_quota", "", choice(&l.Policy, quota.Delay, quota.DeadLetter), "What happens to a command over `live_timers` or `accept_rate`: the broker delivers it again later, or it becomes a dead letter. Default: `delay`."},
	}
}

// limit is a value for which zero is no limit.
func limit[T ~int64 | float64](field *T, form string, parse func(string) (T, bool), show func(T) string) value {
	return parsed(field, form+", or "+noLimit, "", func(text string) (T, bool) {
		if text == noLimit {
			return 0, true
		}
		return parse(text)
	}, show)
}

func parseCount(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil && n > 0
}

func parseExpiry(text string) (time.Duration, bool) {
	after, err := ParseDuration(text)
	return after, err == nil && after >= time.Second && after <= 3650*day
}

func formatCount(n int64) string { return strconv.FormatInt(n, 10) }

var (
	perSecond   = map[string]float64{"s": 1, "m": 60, "h": 3600} // units of rates
	ratePattern = regexp.MustCompile(`^([0-9]{1,10}(?:\.[0-9]{1,30})?)/([smh])$`)
)

func rate(field *float64) value {
	return limit(field, "a rate, such as 2000/s, 90/m or 5/h", func(text string) (float64, bool) {
		found := ratePattern.FindStringSubmatch(text)
		if found == nil {
			return 0, false
		}
		n, err := strconv.ParseFloat(found[1], 64)
		return n / perSecond[found[2]], err == nil && n > 0 && n <= 1e9
	}, formatRate)
}

func formatRate(r float64) string { return strconv.FormatFloat(r, 'f', -1, 64) + "/s" }

// FormatLimits formats limits as they stand in a file with quotas: "live_timers: 1000,
// accept_rate: 50/s". It returns "none" if there are none.
func FormatLimits(l quota.Limits) string {
	var parts []string
	none := quotaSettings(new(quota.Limits))
	for i, s := range quotaSettings(&l) {
		if text := s.show(); text != none[i].show() {
			parts = append(parts, s.key+": "+text)
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// QuotaValues returns quotas for display: the default, and the limits of each tenant that has
// its own.
func QuotaValues(quotas quota.Config) []Value {
	values := []Value{{"quotas.default", FormatLimits(quotas.Default), "quotas_file"}}
	for _, tenant := range slices.Sorted(maps.Keys(quotas.Tenants)) {
		values = append(values, Value{"quotas.tenants." + string(tenant), FormatLimits(quotas.Tenants[tenant]), "quotas_file"})
	}
	return values
}
