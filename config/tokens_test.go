package config_test

import (
	"crypto/sha256"
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
	must(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestTokensOfTenants(t *testing.T) {
	t.Parallel()
	const hashed = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"
	got, err := config.LoadTokens(tokensFile(t, `acme: secret-of-acme-1234
globex: # two, to change them
  - secret-of-globex-1
  - 1234567890123456
alice@ops: {token: secret-of-alice-1, role: operate}
bob: {token: "sha256:`+hashed+`", tenant: acme}
grafana: {token: [secret-of-grafana, secret-of-grafana-2], role: metrics}
`))
	of := func(name string, tenant timer.TenantID, role config.Role, token string) config.Token {
		return config.Token{Name: name, Tenant: tenant, Role: role, Hash: sha256.Sum256([]byte(token))}
	}
	want := []config.Token{
		of("acme", "acme", config.Operate, "secret-of-acme-1234"), of("globex", "globex", config.Operate, "secret-of-globex-1"), of("globex", "globex", config.Operate, "1234567890123456"),
		of("alice@ops", "", config.Operate, "secret-of-alice-1"), of("bob", "acme", config.Read, "password"),
		of("grafana", "", config.Metrics, "secret-of-grafana"), of("grafana", "", config.Metrics, "secret-of-grafana-2"),
	}
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
		"acme: {a: secret-of-acme-1234}": "acme.a (",
		"acme: {}":                       "must be a token or a list of them",
		"alice: {role: operate}":         "must be a token or a list of them",
		"alice: {token: secret-of-alice-1, role: root}":                           "role with read, operate or metrics",
		"alice: {token: secret-of-alice-1, tenant: a/b}":                          "is not a tenant id",
		"alice: {token: secret-of-alice-1, tenant: }":                             "alice.tenant",
		"alice: {token: secret-of-alice-1, role: metrics, tenant: acme}":          "leave tenant out",
		"a b: {token: secret-of-alice-1}":                                         "must be a name",
		"alice: {token: secret-of-alice-1}\nbob: {token: secret-of-alice-1}":      "has a token of alice",
		"alice: {token: sha256:secret5e884898da28047151d0e56f8dc6292773603d0d6a}": "sha256: and its hash",
		"acme: sha256:5e884898":                                                   "sha256: and its hash",
		"acme: [[secret-of-acme-1234]]":                                           "must be a token or a list of them",
		"acme:":                                                                   "must be a token or a list of them",
		"acme: secret-of-1234567\nb: secret-of-1234567":                           "has a token of acme",
		"acme: secret-of-1234567\nacme: secret-of-1234568":                        "is given in line 1 already",
	} {
		_, err := config.LoadTokens(tokensFile(t, text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := config.LoadTokens("none.yaml"); err == nil {
		t.Error("no file, and no error")
	}
}
