package deadletter_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// threeTenants returns a model with dead letters of three tenants, an hour apart.
func threeTenants() *model {
	s := &model{routing: shared}
	at := func(hours int) string { return envelope.FormatTime(noon.Add(time.Duration(hours) * time.Hour)) }
	s.put("a1", "deadLetterLastAt", at(0))
	s.put("b1", broker.MetaTopic, "svc.beta.dlq", "deadLetterLastAt", at(1), "deadLetterReason", "bad_time", "correlationId", "req-7")
	s.put("a2", "deadLetterLastAt", at(2), "deadLetterReason", "bad_field")
	s.put("n1", broker.MetaTopic, "svc._.dlq", "deadLetterLastAt", at(3), "deadLetterReason", "not_json")
	s.put("a3", "deadLetterLastAt", "")
	return s
}

func TestFilterMeansWhatFitsAllOfIt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		filter deadletter.Filter
		want   []string
	}{
		{"all", deadletter.Filter{}, []string{"a1", "b1", "a2", "n1", "a3"}},
		{"a tenant", deadletter.Filter{Tenant: "acme"}, []string{"a1", "a2", "a3"}},
		{"no tenant", deadletter.Filter{Tenant: timer.NoTenant}, []string{"n1"}},
		{"a tenant without letters", deadletter.Filter{Tenant: "gamma"}, []string{}},
		{"reasons", deadletter.Filter{Reasons: []timer.Reason{"bad_time", "not_json"}}, []string{"b1", "n1"}},
		{"a correlation id", deadletter.Filter{Correlation: "req-7"}, []string{"b1"}},
		{"since", deadletter.Filter{Since: noon.Add(2 * time.Hour)}, []string{"a2", "n1"}},
		{"until", deadletter.Filter{Until: noon.Add(time.Hour)}, []string{"a1", "b1", "a3"}},
		{"ids", deadletter.Filter{IDs: []string{"n1", "a1", "zz"}}, []string{"a1", "n1"}},
		{"an id of another tenant", deadletter.Filter{Tenant: "beta", IDs: []string{"a1"}}, []string{}},
		{"a tenant's reason since", deadletter.Filter{Tenant: "acme", Reasons: []timer.Reason{"beyond_horizon"}, Since: noon}, []string{"a1"}},
		{"some", deadletter.Filter{Limit: 2}, []string{"a1", "b1"}},
		{"ids beyond the limit", deadletter.Filter{IDs: []string{"a1", "n1"}, Limit: 1}, []string{"a1"}},
		{"as many as there are", deadletter.Filter{Limit: 5}, []string{"a1", "b1", "a2", "n1", "a3"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := threeTenants()
			before := s.left()
			got := []string{}
			sum, err := deadletter.New(s).List(t.Context(), tt.filter, func(l deadletter.Message) error {
				got = append(got, l.ID)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("listed (-want +got):\n%s", diff)
			}
			if sum.Done != len(tt.want) {
				t.Errorf("summary %+v, want %d", sum, len(tt.want))
			}
			if diff := cmp.Diff(before, s.left()); diff != "" {
				t.Errorf("a list changed the dead letters (-before +after):\n%s", diff)
			}

			// The same dead letters are discarded, and all others stay.
			results := outcomes{}
			if _, err := deadletter.New(s).Discard(t.Context(), tt.filter, results.tell); err != nil {
				t.Fatal(err)
			}
			if len(results) != len(tt.want) || len(s.kept) != len(before)-len(tt.want) {
				t.Errorf("discarded %v and left %v, want %v", results, s.left(), tt.want)
			}
			for _, id := range tt.want {
				if results[id] != deadletter.Discarded {
					t.Errorf("%s was %q", id, results[id])
				}
			}
		})
	}
}

func TestListEndsWithTheErrorOfTheReader(t *testing.T) {
	t.Parallel()
	_, err := deadletter.New(threeTenants()).List(t.Context(), deadletter.Filter{}, func(deadletter.Message) error { return errDown })
	if !errors.Is(err, errDown) {
		t.Errorf("error %v", err)
	}
}

func TestRefusesATenantThatIsNone(t *testing.T) {
	t.Parallel()
	for i, tenant := range []timer.TenantID{"*", ">", "a b", "a.b", "a*", "-", "\r\n", timer.TenantID(strings.Repeat("t", 5_000))} {
		s := threeTenants()
		_, err := deadletter.New(s).Discard(t.Context(), deadletter.Filter{Tenant: tenant}, nil)
		if !errors.Is(err, timer.ErrInvalid) || len(s.kept) != 5 {
			t.Errorf("%s: %v, %d dead letters left", strconv.Itoa(i), err, len(s.kept))
		}
	}
}
