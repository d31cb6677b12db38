package nats_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/internal/testcert"
)

// guarded starts a server that clients authenticate with.
func guarded(t testing.TB, opt *server.Options) *server.Server {
	t.Helper()
	opt.Host, opt.Port, opt.NoSigs, opt.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	opt.JetStream, opt.StoreDir = true, t.TempDir()
	return launch(t, opt)
}

func launch(t testing.TB, opt *server.Options) *server.Server {
	t.Helper()
	s, err := server.NewServer(opt)
	must(t, err)
	s.Start()
	t.Cleanup(s.WaitForShutdown)
	t.Cleanup(s.Shutdown)
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("no answer of the server")
	}
	return s
}

// recovers has a broker be not ready, for a reason that Ready returns, until repair
// is called. No secret may be in an error or in the log.
func recovers(t *testing.T, opt nats.Options, reason string, repair func(), secrets ...string) {
	t.Helper()
	var log logbuf.Buffer
	b := nats.New(opt, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	ctx, cancel := context.WithCancel(t.Context())
	ended := running(ctx, b)
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	got := ""
	safe := func(text string) {
		t.Helper()
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("a secret in %s", text)
			}
		}
	}
	late := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(got, reason) {
		err := b.Ready(ctx)
		if err == nil {
			t.Fatal("ready with what is wrong")
		}
		got = err.Error()
		safe(got)
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("says %q, want %q", got, reason)
		}
	}
	repair()
	awaitReady(t, b)
	publish(t, b, "it works")
	safe(log.String())
	if !strings.Contains(log.String(), reason) {
		t.Errorf("the log does not say %q:\n%s", reason, log.String())
	}
}

func TestCredentialsThatAreCorrectedAtTheServer(t *testing.T) {
	t.Parallel()
	user := func(name, password string) func(*server.Options) {
		return func(o *server.Options) { o.Users = []*server.User{{Username: name, Password: password}} }
	}
	token := func(text string) func(*server.Options) { return func(o *server.Options) { o.Authorization = text } }
	for _, tt := range []struct {
		reason        string
		before, after func(*server.Options)
		inURL         string
		security      nats.Security
	}{
		{"user name or its password", user("timer", "an0ther"), user("timer", "hunter2"), "", nats.Security{Username: "timer", Password: "hunter2"}},
		{"refuses the token", token("an0ther"), token("hunter2"), "", nats.Security{Token: "hunter2"}},
		{"credentials in the URL", user("url", "an0ther"), user("url", "hunter2"), "url:hunter2@", nats.Security{Username: "timer", Password: "unused"}},
		{"a client without credentials", token("an0ther"), token(""), "", nats.Security{}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			opt := new(server.Options)
			tt.before(opt)
			s := guarded(t, opt)
			url := strings.Replace(s.ClientURL(), "//", "//"+tt.inURL, 1)
			recovers(t, nats.Options{URL: url, Security: tt.security}, tt.reason, func() { reload(t, s, tt.after) }, "hunter2", "an0ther", "unused")
		})
	}
}

// reload changes the options of a server while it runs.
func reload(t testing.TB, s *server.Server, change func(*server.Options)) {
	t.Helper()
	port := 0
	if _, err := fmt.Sscanf(s.ClientURL(), "nats://127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	opt := &server.Options{Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: strings.TrimSuffix(s.StoreDir(), "/jetstream")}
	change(opt)
	must(t, s.ReloadOptions(opt))
}

// seedFile writes the seed of a new nkey.
func seedFile(t testing.TB) (file, seed, public string) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	must(t, err)
	text, err := pair.Seed()
	must(t, err)
	public, err = pair.PublicKey()
	must(t, err)
	file = filepath.Join(t.TempDir(), "user.nk")
	must(t, os.WriteFile(file, append(text, '\n'), 0o600))
	return file, string(text), public
}

func TestNKeyThatIsReplaced(t *testing.T) {
	t.Parallel()
	wrong, wrongSeed, _ := seedFile(t)
	right, seed, public := seedFile(t)
	s := guarded(t, &server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}})
	absent, broken := filepath.Join(t.TempDir(), "absent.nk"), filepath.Join(t.TempDir(), "broken.nk")
	must(t, os.WriteFile(broken, []byte("SUAhunter2\n"), 0o600))
	for _, file := range []string{wrong, absent, broken} {
		recovers(t, nats.Options{URL: s.ClientURL(), Security: nats.Security{NKey: file}}, file,
			func() { replace(t, file, right) }, wrongSeed, seed, "hunter2")
	}
}

// credentialsOf writes the credentials of a new user of an account.
func credentialsOf(t testing.TB, account nkeys.KeyPair) (file, seed string) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	must(t, err)
	public, _ := pair.PublicKey()
	text, _ := pair.Seed()
	token, err := jwt.NewUserClaims(public).Encode(account)
	must(t, err)
	config, err := jwt.FormatUserConfig(token, text)
	must(t, err)
	file = filepath.Join(t.TempDir(), "user.creds")
	must(t, os.WriteFile(file, config, 0o600))
	return file, string(text)
}

func TestCredentialsFileThatIsReplaced(t *testing.T) {
	t.Parallel()
	operator, _ := nkeys.CreateOperator()
	operatorKey, _ := operator.PublicKey()
	resolver := new(server.MemAccResolver)
	account, stranger := newAccount(t, operator, resolver, true), newAccount(t, operator, nil, false)
	systemAccount := newAccount(t, operator, resolver, false)
	system, _ := systemAccount.PublicKey()
	s := guarded(t, &server.Options{TrustedKeys: []string{operatorKey}, AccountResolver: resolver, SystemAccount: system})

	right, rightSeed := credentialsOf(t, account)
	wrong, wrongSeed := credentialsOf(t, stranger)
	absent := filepath.Join(t.TempDir(), "absent.creds")
	for _, file := range []string{wrong, absent} {
		recovers(t, nats.Options{URL: s.ClientURL(), Security: nats.Security{Credentials: file}}, file,
			func() { replace(t, file, right) }, rightSeed, wrongSeed)
	}
}

// newAccount makes an account, and has the resolver know it unless that is nil.
func newAccount(t testing.TB, operator nkeys.KeyPair, resolver *server.MemAccResolver, streams bool) nkeys.KeyPair {
	t.Helper()
	pair, err := nkeys.CreateAccount()
	must(t, err)
	public, _ := pair.PublicKey()
	claims := jwt.NewAccountClaims(public)
	if streams {
		claims.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1}
	}
	token, err := claims.Encode(operator)
	must(t, err)
	if resolver != nil {
		must(t, resolver.Store(public, token))
	}
	return pair
}

func TestServerWithACertificateOfAnotherAuthority(t *testing.T) {
	t.Parallel()
	ours, others := newIdentity(t), newIdentity(t)
	s := guarded(t, &server.Options{TLSConfig: ours.server(), TLSTimeout: 5})
	recovers(t, nats.Options{URL: s.ClientURL(), Security: nats.Security{CA: others.file}},
		"certificate signed by unknown authority", func() { replace(t, others.file, ours.file) })

	absent := filepath.Join(t.TempDir(), "absent.pem")
	recovers(t, nats.Options{URL: s.ClientURL(), Security: nats.Security{CA: absent}}, absent, func() { replace(t, absent, ours.file) })
}

func TestClientWithACertificateOfAnotherAuthority(t *testing.T) {
	t.Parallel()
	ours, right, wrong := newIdentity(t), newIdentity(t), newIdentity(t)
	s := guarded(t, &server.Options{TLSConfig: testcert.Server(ours.Certificate, right.trusts), TLSTimeout: 5, TLSVerify: true})
	recovers(t, nats.Options{URL: s.ClientURL(), Security: nats.Security{CA: ours.file, Cert: wrong.file, Key: wrong.key}}, wrong.file, func() {
		replace(t, wrong.key, right.key)
		replace(t, wrong.file, right.file)
	})
}

func TestNothingIsSentWithoutTLSIfAnAuthorityIsNamed(t *testing.T) {
	t.Parallel()
	s := guarded(t, &server.Options{})
	b := run(t, nats.Options{URL: s.ClientURL(), Security: nats.Security{CA: newIdentity(t).file}})
	until(t, "what is wrong", func() bool {
		err := b.Ready(t.Context())
		if err == nil {
			t.Fatal("ready without TLS")
		}
		return strings.Contains(err.Error(), natsgo.ErrSecureConnWanted.Error())
	})
}

// An identity is a certificate that signs itself, in files.
type identity struct {
	tls.Certificate

	trusts    *x509.CertPool // trusts the certificate
	file, key string
}

func newIdentity(t testing.TB) identity {
	t.Helper()
	cert, pool := testcert.New(t)
	dir := t.TempDir()
	testcert.Write(t, dir, cert)
	return identity{cert, pool, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
}

// server returns the configuration of a server that shows the certificate.
func (i identity) server() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{i.Certificate}, MinVersion: tls.VersionTLS12}
}

// replace copies a file over another, as one who rotates secrets does.
func replace(t testing.TB, file, by string) {
	t.Helper()
	text, err := os.ReadFile(by)
	must(t, err)
	must(t, os.WriteFile(file, text, 0o600))
}
