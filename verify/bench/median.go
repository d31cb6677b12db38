package bench

import (
	"fmt"
	"reflect"
	"slices"
)

// Medians returns one result for all runs of the same, figure by figure the
// median, in the order in which they came first. What ran once is left out.
func Medians(results []Result) (medians []Result) {
	groups := make(map[string][]Result)
	var order []string
	for _, r := range results {
		same := fmt.Sprint(r.Workload, r.Setup, r.Rate, r.Pending)
		if groups[same] == nil {
			order = append(order, same)
		}
		groups[same] = append(groups[same], r)
	}
	for _, same := range order {
		if group := groups[same]; len(group) > 1 {
			m := median(group)
			m.Runs = len(group)
			medians = append(medians, m)
		}
	}
	return medians
}

// median returns a struct in which each number is the median of those in its
// place. Texts are those of the first.
func median[T any](group []T) (m T) {
	values := make([]reflect.Value, len(group))
	for i := range group {
		values[i] = reflect.ValueOf(group[i])
	}
	setMedian(reflect.ValueOf(&m).Elem(), values)
	return m
}

func setMedian(to reflect.Value, values []reflect.Value) {
	each := func(part func(reflect.Value) reflect.Value) []reflect.Value {
		parts := make([]reflect.Value, len(values))
		for i, v := range values {
			parts[i] = part(v)
		}
		return parts
	}
	switch to.Kind() {
	case reflect.Struct:
		for i := range to.NumField() {
			setMedian(to.Field(i), each(func(v reflect.Value) reflect.Value { return v.Field(i) }))
		}
	case reflect.Pointer:
		if slices.ContainsFunc(values, reflect.Value.IsNil) {
			return
		}
		to.Set(reflect.New(to.Type().Elem()))
		setMedian(to.Elem(), each(reflect.Value.Elem))
	case reflect.Float64:
		to.SetFloat(middle(values, reflect.Value.Float))
	case reflect.Int, reflect.Int64:
		to.SetInt(middle(values, reflect.Value.Int))
	default:
		to.Set(values[0])
	}
}

// middle returns the median, of an even number the mean of the two.
func middle[N int64 | float64](values []reflect.Value, number func(reflect.Value) N) N {
	sorted := make([]N, len(values))
	for i, v := range values {
		sorted[i] = number(v)
	}
	slices.Sort(sorted)
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
