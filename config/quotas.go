package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// noLimit is what stands for one.
const noLimit = "unlimited"

// LoadQuotas returns the quotas of a YAML file: the limits of all tenants under
// "default", and those of some under "tenants", where what is not given is the
// default's.
//
// The error joins all mistakes, each a [*Mistake], but for those of a file that
// cannot be read.
func LoadQuotas(file string) (quota.Book, error) {
	f := yamlFile{"quotas file", file}
	body, err := f.read()
	if err != nil {
		return quota.Book{}, err
	}
	if body == nil || len(body.Values) == 0 { // such as one that is being written
		return quota.Book{}, fmt.Errorf("%s %s: is empty; it must have default or tenants", f.what, file)
	}
	r := quotaReader{yamlFile: f}
	book := r.book(body)
	if err := errors.Join(r.errs...); err != nil {
		return quota.Book{}, err
	}
	return book, nil
}

// A quotaReader gathers mistakes.
type quotaReader struct {
	yamlFile
	errs []error
}

func (r *quotaReader) book(body *ast.MappingNode) quota.Book {
	var book quota.Book
	var tenants []entry
	for _, e := range r.mapping(body, "") {
		switch e.name {
		case "default":
			book.Default = r.limits(e, "default.", quota.Limits{})
		case "tenants":
			if mapping, ok := r.isMapping(e, ""); ok {
				tenants = r.mapping(mapping, "tenants.")
			}
		default:
			r.unknown(e, "", []string{"default", "tenants"})
		}
	}
	for _, e := range tenants {
		tenant := timer.TenantID(e.name)
		if err := tenant.Validate(); err != nil {
			r.wrong(e, "tenants.", "", "is no tenant: 1 to 64 characters of A-Z a-z 0-9 _ -, beginning with a letter or a digit")
			continue
		}
		if book.Tenants == nil {
			book.Tenants = make(map[timer.TenantID]quota.Limits, len(tenants))
		}
		book.Tenants[tenant] = r.limits(e, "tenants."+e.name+".", book.Default)
	}
	return book
}

// limits reads those of one tenant, on top of others.
func (r *quotaReader) limits(of entry, inside string, l quota.Limits) quota.Limits {
	mapping, ok := r.isMapping(of, strings.TrimSuffix(inside, of.name+"."))
	if !ok {
		return l
	}
	entries := r.mapping(mapping, inside)
	given := make(map[string]entry, len(entries))
	for _, e := range entries {
		i := slices.IndexFunc(limits, func(known limit) bool { return known.key == e.name })
		if i < 0 {
			names := make([]string, len(limits))
			for i, known := range limits {
				names[i] = known.key
			}
			r.unknown(e, inside, names)
			continue
		}
		text, plain := scalar(e.value)
		if !plain || text == "" {
			r.wrong(e, inside, "", "must be "+limits[i].form)
			continue
		}
		if !limits[i].set(&l, strings.TrimSpace(text)) {
			r.wrong(e, inside, text, "must be "+limits[i].form)
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
			r.wrong(e, inside, "", "there is no "+rate.name+"_rate that it could be a burst of; set that too, or remove this")
		}
		rate.Burst = 0
	}
	return l
}

// mapping returns the entries of a mapping.
func (r *quotaReader) mapping(node *ast.MappingNode, inside string) []entry {
	entries, errs := r.entries(node, inside)
	r.errs = append(r.errs, errs...)
	return entries
}

// isMapping returns the mapping that an entry has, nil if it is empty.
func (r *quotaReader) isMapping(e entry, inside string) (*ast.MappingNode, bool) {
	switch node := e.value.(type) {
	case nil, *ast.NullNode:
		return nil, true
	case *ast.MappingNode:
		return node, true
	}
	r.wrong(e, inside, "", "must be keys and values")
	return nil, false
}

func (r *quotaReader) wrong(e entry, inside, value, fix string) {
	r.errs = append(r.errs, &Mistake{Key: inside + clip(e.name), Value: value, From: e.place, Fix: fix})
}

func (r *quotaReader) unknown(e entry, inside string, names []string) {
	fix := "is no quota"
	if near := closest(e.name, names); near != "" {
		fix += "; did you mean " + near + "?"
	}
	r.wrong(e, inside, "", fix)
}

// A limit is one key of [quota.Limits].
type limit struct {
	key     string
	form    string // which values it takes, for people
	meaning string // in Markdown
	set     func(l *quota.Limits, text string) bool
	show    func(l quota.Limits) string // as a user would write it; empty if there is none
}

// limits are the keys, in the order in which they are shown.
var limits = []limit{
	count("live_timers", "Timers that wait to fire.", func(l *quota.Limits) *int64 { return &l.Live }),
	rate("accept_rate", "`ScheduleTimer` commands that are accepted, of all instances together.", func(l *quota.Limits) *float64 { return &l.Accept.PerSecond }),
	burst("accept_burst", "How many of them may come at once after a rest. If it is not given: as many as a second allows.", func(l *quota.Limits) *int { return &l.Accept.Burst }),
	rate("fire_rate", "Timers that fire, of all instances together.", func(l *quota.Limits) *float64 { return &l.Fire.PerSecond }),
	burst("fire_burst", "How many of them may fire at once after a rest. If it is not given: as many as a second allows.", func(l *quota.Limits) *int { return &l.Fire.Burst }),
	{
		"horizon", "a duration from 1m to 73000d, such as 365d", "How far ahead a due time may lie. If it is not given: as far as the setting `horizon` says.",
		func(l *quota.Limits, text string) bool {
			d, err := ParseDuration(text)
			l.Horizon = d
			return err == nil && d >= time.Minute && d <= 73_000*day
		},
		func(l quota.Limits) string {
			if l.Horizon == 0 {
				return ""
			}
			return FormatDuration(l.Horizon)
		},
	},
	{
		"over_quota", "delay or dead_letter", "What becomes of a command over `live_timers` or `accept_rate`: it comes again later, or becomes a dead letter. If it is not given: `delay`.",
		func(l *quota.Limits, text string) bool {
			l.Over = quota.Policy(text)
			return l.Over == quota.Delay || l.Over == quota.DeadLetter
		},
		func(l quota.Limits) string { return string(l.Over) },
	},
}

func count(key, meaning string, field func(*quota.Limits) *int64) limit {
	return limit{
		key, "a whole number from 1, or " + noLimit, meaning,
		func(l *quota.Limits, text string) bool {
			if text == noLimit {
				*field(l) = 0
				return true
			}
			n, err := strconv.ParseUint(text, 10, 63)
			*field(l) = int64(n)
			return err == nil && n > 0
		},
		func(l quota.Limits) string { return orNothing(*field(&l)) },
	}
}

func burst(key, meaning string, field func(*quota.Limits) *int) limit {
	return limit{
		key, "a whole number from 1 to 1000000000", meaning,
		func(l *quota.Limits, text string) bool {
			n, err := strconv.ParseUint(text, 10, 31)
			*field(l) = int(n)
			return err == nil && n > 0 && n <= 1e9
		},
		func(l quota.Limits) string { return orNothing(int64(*field(&l))) },
	}
}

func orNothing(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// perSecond are the units of rates.
var perSecond = map[string]float64{"s": 1, "m": 60, "h": 3600}

func rate(key, meaning string, field func(*quota.Limits) *float64) limit {
	pattern := regexp.MustCompile(`^([0-9]{1,10}(?:\.[0-9]{1,10})?)/([smh])$`)
	return limit{
		key, "a rate, such as 2000/s, 90/m or 5/h, or " + noLimit, meaning,
		func(l *quota.Limits, text string) bool {
			if text == noLimit {
				*field(l) = 0
				return true
			}
			found := pattern.FindStringSubmatch(text)
			if found == nil {
				return false
			}
			n, err := strconv.ParseFloat(found[1], 64)
			*field(l) = n / perSecond[found[2]]
			return err == nil && n > 0 && n <= 1e9
		},
		func(l quota.Limits) string { return formatRate(*field(&l)) },
	}
}

// formatRate writes a rate in the unit that it was probably given in: the first
// in which it has no more digits than may be given.
func formatRate(r float64) string {
	if r == 0 {
		return ""
	}
	const digits = 1e10
	for _, unit := range []string{"s", "m", "h"} {
		if n := math.Round(r*perSecond[unit]*digits) / digits; n > 0 && n/perSecond[unit] == r {
			return strconv.FormatFloat(n, 'f', -1, 64) + "/" + unit
		}
	}
	return strconv.FormatFloat(r, 'f', -1, 64) + "/s"
}

// FormatLimits writes limits as they stand in a file with quotas: "live_timers:
// 1000, accept_rate: 50/s". It returns "none" if there are none.
func FormatLimits(l quota.Limits) string {
	var parts []string
	for _, known := range limits {
		if text := known.show(l); text != "" {
			parts = append(parts, known.key+": "+text)
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// QuotaValues returns quotas as they stand: the default, and those of each tenant
// that has its own.
func QuotaValues(book quota.Book) []Value {
	values := []Value{{"quotas.default", FormatLimits(book.Default), "quotas_file"}}
	for _, tenant := range slices.Sorted(maps.Keys(book.Tenants)) {
		values = append(values, Value{"quotas.tenants." + string(tenant), FormatLimits(book.Tenants[tenant]), "quotas_file"})
	}
	return values
}
