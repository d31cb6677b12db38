package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/timer"
)

// tokensFile writes a file of tokens.
func tokensFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestTenantTokens(t *testing.T) {
	t.Parallel()
	got, err := config.LoadTenantTokens(tokensFile(t, "acme: secret-of-acme-1234\nglobex: # two, to change them\n  - secret-of-globex-1\n  - 1234567890123456\n"))
	want := map[timer.TenantID][]string{"acme": {"secret-of-acme-1234"}, "globex": {"secret-of-globex-1", "1234567890123456"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestMistakesInTenantTokens(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                               "is empty",
		"a/b: secret-of-acme-1234":       "is not a tenant id",
		"acme: secret":                   "of 16 or more visible ASCII characters",
		"acme: secret of acme 123456":    "of 16 or more visible ASCII characters",
		"acme: {a: secret-of-acme-1234}": "must be a token or a list of them",
		"acme: [[secret-of-acme-1234]]":  "must be a token or a list of them",
		"acme:":                          "must be a token or a list of them",
		"acme: secret-of-1234567\nb: secret-of-1234567":    "has a token of acme",
		"acme: secret-of-1234567\nacme: secret-of-1234568": "is given in line 1 already",
	} {
		_, err := config.LoadTenantTokens(tokensFile(t, text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := config.LoadTenantTokens("none.yaml"); err == nil {
		t.Error("no file, and no error")
	}
}
