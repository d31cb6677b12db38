package timer_test

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/timer"
)

// check fails the test unless err has the reason; none if it is empty.
func check(t *testing.T, what string, err error, want timer.Reason) {
	t.Helper()
	var got timer.Reason
	if invalid, ok := errors.AsType[*timer.InvalidError](err); ok {
		got = invalid.Reason
	}
	if got != want || (err == nil) != (want == "") || errors.Is(err, timer.ErrInvalid) != (want != "") {
		t.Errorf("%s: got error %v, want reason %q", what, err, want)
	}
}

func TestTenantIDsAreSafeAsTokens(t *testing.T) {
	t.Parallel()
	for id, want := range map[timer.TenantID]timer.Reason{
		"a": "", "Z": "", "0": "", "acme": "", "a_-": "", "0-9_Z": "", "a--": "",
		timer.TenantID(strings.Repeat("a", 64)): "",
		"":                                      timer.ReasonMissingField,
		timer.TenantID(strings.Repeat("a", 65)): timer.ReasonBadField,
		timer.NoTenant:                          timer.ReasonBadField,
		"_a":                                    timer.ReasonBadField,
		"-a":                                    timer.ReasonBadField,
		"a.b":                                   timer.ReasonBadField,
		"a\n":                                   timer.ReasonBadField,
		"é":                                     timer.ReasonBadField,
		"a\xff":                                 timer.ReasonBadField,
	} {
		check(t, timer.Quote(string(id)), id.Validate(), want)
	}
}

func TestServiceCallIDs(t *testing.T) {
	t.Parallel()
	for id, want := range map[timer.ServiceCallID]timer.Reason{
		"a": "", "order:42.pay": "", "_": "", "...": "", ".a": "", ":": "", "-": "", "AZaz09_.:-": "",
		timer.ServiceCallID(strings.Repeat("a", 128)): "",
		"": timer.ReasonMissingField,
		timer.ServiceCallID(strings.Repeat("a", 129)): timer.ReasonBadField,
		".":     timer.ReasonBadField,
		"..":    timer.ReasonBadField,
		"a\r\n": timer.ReasonBadField,
		"é":     timer.ReasonBadField,
		"a\xff": timer.ReasonBadField,
	} {
		check(t, timer.Quote(string(id)), id.Validate(), want)
	}
}

func TestMessageIDsAreVisibleASCII(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]timer.Reason{
		"!": "", "~": "", `"\`: "", "0190b5a2-7c3e-7d4f-8a1b-2c3d4e5f6071": "",
		strings.Repeat("~", 128): "",
		"":                       timer.ReasonMissingField,
		strings.Repeat("~", 129): timer.ReasonBadField,
		"\x7f":                   timer.ReasonBadField,
		"é":                      timer.ReasonBadField,
		"a\xff":                  timer.ReasonBadField,
	} {
		err := timer.ValidateID("causationId", id)
		check(t, timer.Quote(id), err, want)
		if err != nil && !strings.HasPrefix(err.Error(), "invalid: causationId ") {
			t.Errorf("%q: error does not name the field: %v", id, err)
		}
	}
}

// A tenant never holds a dot, so no two keys have the same text.
func TestKeysDifferInTheirText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.Custom(func(t *rapid.T) timer.Key {
			return timer.Key{
				TenantID:      timer.TenantID(rapid.StringMatching(`[a0][a0_-]{0,3}`).Draw(t, "tenant")),
				ServiceCallID: timer.ServiceCallID(rapid.StringMatching(`[a0_.:-]{1,4}`).Draw(t, "call")),
			}
		})
		a, b := key.Draw(t, "a"), key.Draw(t, "b")
		if (a == b) != (a.String() == b.String()) {
			t.Errorf("%#v and %#v are both %s", a, b, a)
		}
	})
}

// Commands of a key may arrive in any order, so all must agree on the newest.
func TestVersionsAreInOneOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.Custom(func(t *rapid.T) timer.Version {
			return timer.Version{TimestampMS: rapid.Int64Range(0, 2).Draw(t, "ms"), CommandID: rapid.StringMatching(`[a-b]{1,2}`).Draw(t, "id")}
		})
		a, b, c := version.Draw(t, "a"), version.Draw(t, "b"), version.Draw(t, "c")
		if a.Compare(b) != -b.Compare(a) || (a.Compare(b) == 0) != (a == b) {
			t.Errorf("%v and %v compare as %d and %d", a, b, a.Compare(b), b.Compare(a))
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Errorf("%v, %v and %v go round in a circle", a, b, c)
		}
		if a.TimestampMS != b.TimestampMS && a.Compare(b) != cmp.Compare(a.TimestampMS, b.TimestampMS) {
			t.Errorf("%v and %v compare as %d", a, b, a.Compare(b))
		}
	})
}

func TestVersionsFitJSONNumbers(t *testing.T) {
	t.Parallel()
	for version, want := range map[timer.Version]timer.Reason{
		{TimestampMS: 0, CommandID: "a"}:          "",
		{TimestampMS: 1<<53 - 1, CommandID: "a"}:  "",
		{TimestampMS: 1 << 53, CommandID: "a"}:    timer.ReasonBadField,
		{TimestampMS: -1, CommandID: "a"}:         timer.ReasonBadField,
		{TimestampMS: -1 << 63, CommandID: "a"}:   timer.ReasonBadField,
		{TimestampMS: 1, CommandID: ""}:           timer.ReasonMissingField,
		{TimestampMS: 1, CommandID: "a b"}:        timer.ReasonBadField,
		{TimestampMS: 1<<63 - 1, CommandID: "\n"}: timer.ReasonBadField,
	} {
		check(t, timer.Quote(version.CommandID), version.Validate(), want)
	}
}

func TestQuotesAreShortAndPrintable(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 81)
	for given, want := range map[string]string{
		"":            `""`,
		`a"b`:         `"a\"b"`,
		"a\r\nb\x00":  `"a\r\nb\x00"`,
		"é\xff\u202e": `"\u00e9\xff\u202e"`,
		long[:80]:     `"` + long[:80] + `"`,
		long:          `"` + long[:80] + `"...`,
	} {
		if got := timer.Quote(given); got != want {
			t.Errorf("%q: got %s, want %s", given, got, want)
		}
	}
}
