package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/time/rate"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

// An object is a JSON object of an answer.
type object struct{ json.RawMessage }

// get returns the value of a field as text: a string without its quotes, other values as JSON, and
// "" if there is none. A dot leads into the value of a field; "." is the whole object.
func (o object) get(field string) string {
	if field == "." {
		return string(o.RawMessage)
	}
	name, rest, deeper := strings.Cut(field, ".")
	var all map[string]object
	_ = json.Unmarshal(o.RawMessage, &all) // a value that is no object has no fields
	value := all[name]
	if deeper {
		return value.get(rest)
	}
	text := string(value.RawMessage)
	_ = json.Unmarshal(value.RawMessage, &text) // a value that is no string stays as it is
	return text
}

// rows returns the objects of a list, or the object itself if the list has no name.
func (o object) rows(list string) (all []object) {
	if list == "" {
		return []object{o}
	}
	_ = json.Unmarshal([]byte(o.get(list)), &all) // a value that is no list has no rows
	return all
}

// plus returns the object with the sums of fields of both, and the first things of an earlier one.
func (o object) plus(earlier object, fields string) object {
	var all map[string]object
	_ = json.Unmarshal(o.RawMessage, &all) // it is an answer
	for _, field := range strings.Fields(fields) {
		n, _ := strconv.Atoi(o.get(field))
		m, _ := strconv.Atoi(earlier.get(field))
		all[field] = object{json.RawMessage(strconv.Itoa(n + m))}
	}
	if first := earlier.get("first"); first != "" {
		all["first"] = object{json.RawMessage(first)}
	}
	sum, _ := json.Marshal(all) // values are JSON
	return object{sum}
}

// An answer is the output of a verb for the answers to its requests.
type answer struct {
	*verb
	admin.Case
	op     admin.Operation
	env    *env
	client *apiclient.Client

	table   *rows          // nil without one
	n       int            // rows that were printed
	results map[string]int // how many there are of each
	absent  error          // things that do not exist
	held    *object        // the sum of the answers, which is printed at the end; nil if there is none
}

// print asks for all that the flags select, and prints it.
func (a *answer) print(ctx context.Context) error {
	a.results = make(map[string]int)
	if a.As == admin.AsTable {
		var names []any
		for _, c := range a.Columns {
			name, _, _ := strings.Cut(c, "=")
			names = append(names, name)
		}
		a.table = a.env.out.rows(names...)
	}
	limiter := rate.NewLimiter(rate.Inf, timer.MaxPage)
	if perSecond, _ := strconv.ParseFloat(append(a.values("rate"), "0")[0], 64); perSecond > 0 {
		limiter = rate.NewLimiter(rate.Limit(perSecond), max(1, min(int(perSecond), timer.MaxPage)))
	}
	next, err := a.ask(ctx, limiter)
	if err != nil {
		a.Empty = "" // that there is nothing is not known
	}
	if a.held != nil {
		a.printRow(*a.held)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w; run it again for the others", errInterrupted)
	}
	a.sum(next)
	refused := error(nil)
	if n := a.results["refused"]; n > 0 {
		refused = fmt.Errorf("%d dead letters were refused, and were not changed", n)
	}
	return cmp.Or(err, refused, a.absent)
}

// ask asks for each thing that is named, or for page after page.
func (a *answer) ask(ctx context.Context, limiter *rate.Limiter) (next string, err error) {
	for _, arg := range a.row.Args {
		if name := strings.TrimRight(arg, "*+"); name != arg && a.given(name) {
			for _, id := range a.values(name) {
				if err = limiter.WaitN(ctx, 1); err == nil {
					_, err = a.page(ctx, map[string]string{name: id})
				}
				if errors.Is(err, timer.ErrNotFound) {
					a.absent, err = errors.Join(a.absent, err), nil
				}
				if err != nil {
					return "", err
				}
			}
			return "", nil
		}
	}
	limit, _ := strconv.Atoi(append(a.values("limit"), "0")[0])
	// The first pages of a change are small, since a change that can't be reported should not be done.
	size, given := 1, make(map[string]string)
	if a.As != admin.AsResults {
		size = timer.MaxPage
	}
	for {
		if left := limit - a.n; limit > 0 {
			size = min(size, left)
		}
		given["limit"] = strconv.Itoa(size)
		if a.As == admin.AsResults {
			err = limiter.WaitN(ctx, size)
		}
		var page object
		if err == nil {
			page, err = a.page(ctx, given)
		}
		next = page.get("next")
		if err = cmp.Or(err, a.env.out.failed()); err != nil || next == "" || limit > 0 && a.n >= limit {
			return next, err
		}
		given["after"], size = next, min(2*size, limiter.Burst(), timer.MaxPage)
		if until := page.get("until"); until != "" {
			given["until"] = until
		}
	}
}

// page asks for one page, and prints its rows.
func (a *answer) page(ctx context.Context, given map[string]string) (object, error) {
	page, err := apiclient.Do[object](ctx, a.client, a.op.Method, a.path(a.op, a.Case, a.env, given), nil)
	if errors.Is(err, timer.ErrNotFound) && strings.HasPrefix(err.Error(), apiclient.NoSuch) && a.Absent != "" {
		return page, a.notFound(given)
	}
	if err != nil {
		return page, err
	}
	if hint := page.get("hint"); hint != "" && (!a.env.out.json || a.As == admin.AsTable) { // a list would seem to be whole
		a.Empty = ""
		fmt.Fprintln(a.env.stderr, hint)
	}
	for _, row := range page.rows(a.List) {
		if a.Each != "" {
			op := operations[a.Each]
			if row, err = apiclient.Do[object](ctx, a.client, op.Method, a.path(op, admin.Case{}, a.env, map[string]string{"tenant": row.get("tenantId")}), nil); err != nil {
				return page, err
			}
		}
		if len(a.Exists) > 0 && !slices.ContainsFunc(a.Exists, func(f string) bool { return row.get(f) != "" && row.get(f) != "0" }) {
			return page, a.notFound(given)
		}
		switch {
		case a.Sum == "":
			a.printRow(row)
		case a.held == nil:
			a.held = &row
		default:
			a.held = new(row.plus(*a.held, a.Sum))
		}
	}
	return page, nil
}

// notFound returns the error that the thing of a request does not exist.
func (a *answer) notFound(given map[string]string) error {
	text := a.Absent
	for _, p := range a.params {
		value := cmp.Or(given[p.Name], append(a.values(flagOf(p)), "")[0])
		text = strings.ReplaceAll(text, "{"+p.Name+"}", value)
	}
	what, lists, _ := strings.Cut(text, "|")
	return &absentError{printable(what), lists}
}

// printRow prints a row in the form of the answer.
func (a *answer) printRow(row object) {
	a.n++
	a.results[resultText(row.get("."))]++
	var cells, pairs []any
	var lines []string
	for _, c := range a.Columns {
		name, field, _ := strings.Cut(c, "=")
		field, as, _ := strings.Cut(field, "|")
		value := row.get(field)
		if value != "" && as != "" {
			value = forms[as](value)
		}
		cells, pairs = append(cells, printable(value)), append(pairs, name, value)
		if as == "result" {
			value = fmt.Sprintf("%-9s", value) // two spaces follow
		}
		lines = append(lines, printable(value))
	}
	switch {
	case a.table != nil:
		a.table.add(row, cells...)
	case a.env.out.json:
		a.env.out.line(row)
	case a.As == admin.AsResults:
		fmt.Fprintln(a.env.out.w, strings.TrimRight(strings.Join(lines, "  "), " "))
	default:
		if a.n > 1 {
			fmt.Fprintln(a.env.out.w)
		}
		fmt.Fprintln(a.env.out.w, fields(pairs...))
	}
}

// sum ends the output, and says for people how many rows there are, or where the next page begins.
func (a *answer) sum(next string) {
	switch out := a.env.stderr; {
	case a.table != nil:
		a.table.end(a.env, a.Empty, next)
	case a.env.out.json || a.As != admin.AsResults:
	case a.n == 0:
		if a.Empty != "" && a.absent == nil {
			fmt.Fprintln(out, a.Empty)
		}
	default:
		var counts []string
		for _, result := range slices.Sorted(maps.Keys(a.results)) {
			counts = append(counts, fmt.Sprintf("%d %s", a.results[result], result))
		}
		fmt.Fprintln(out, strings.Join(counts, ", "))
		if a.results["replayed"] > 0 {
			fmt.Fprintln(out, "a message that the service refuses again is a dead letter again: see dlq list")
		}
		if next != "" {
			fmt.Fprintln(out, "there may be more: --after "+next)
		}
	}
}
