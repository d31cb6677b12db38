package service

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/internal/symptom"
	"github.com/event-service-agent/timer-service/internal/trust"
)

// httpTimeout is how long a service on this machine may take to answer.
const httpTimeout = 2 * time.Second

// http reports whether the address for HTTP is free, or the readiness of the service that
// answers there.
func (x *examination) http(ctx context.Context) []app.Check {
	addr, chosen := x.cfg.HTTPAddress()
	if addr == "" {
		return []app.Check{ok("http", "http_addr is empty: there is no HTTP, so no health checks and no metrics")}
	}
	ctx, cancel := context.WithTimeout(ctx, httpTimeout)
	defer cancel()
	is, err := Answering(ctx, x.cfg)
	var all []app.Check
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return []app.Check{ok("http", "%s is free", addr)}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return []app.Check{found(symptom.FileMissing, err)}
	case err != nil:
		taken := found(symptom.PortTaken, addr, oneLine(err))
		taken.Red = chosen // if it is the default, the service takes another port
		is, all = admin.Readiness{}, []app.Check{taken}
	default:
		all = []app.Check{ok("http", "a timer service answers on %s", addr)}
	}
	client, err := apiclient.Local(ctx, x.cfg.Socket(), x.cfg.HTTPPrefix, x.cfg.HTTPToken.Reveal())
	if errors.Is(err, apiclient.ErrStranger) {
		return append(all, found(symptom.SocketTaken, err))
	}
	if err == nil { // the reasons need a token
		if same, err := client.Readiness(ctx); err == nil {
			is, x.asked = same, true
		}
	}
	for _, p := range is.Parts {
		switch {
		case p.Reason != "":
			all = append(all, app.Check{Part: p.Part, Reason: p.Reason, Advice: p.Advice, Red: !p.OK})
		case !p.OK:
			all = append(all, app.Check{Part: p.Part, Reason: "the service says that it fails", Advice: "ask it why, with its token: timer-service health", Red: true})
		}
	}
	return all
}

// files reports files that others may read although they should not.
func (x *examination) files() (all []app.Check) {
	type secret struct {
		name, what string
		made       bool // by the service, for itself alone
	}
	var secrets []secret
	if x.cfg.DBURL.Empty() {
		for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
			secrets = append(secrets, secret{x.cfg.DBPath + suffix, "it is the database", true})
		}
		secrets = append(secrets, secret{filepath.Join(embeddedDir(x.cfg), secretFile), "it is the secret of the embedded server", true})
	}
	secrets = append(secrets, []secret{
		{name: x.cfg.SecretFile(), what: "it has passwords or tokens"},
		{name: x.cfg.BrokerTLSKey, what: "it is the secret of broker_tls_key"},
		{name: x.cfg.HTTPTLSKey, what: "it is the secret of http_tls_key"},
		{name: x.cfg.HTTPTenantTokensFile, what: "it is the secret of http_tenant_tokens_file"},
		{name: x.cfg.NATSCredentials, what: "it is the secret of nats_credentials"},
		{name: x.cfg.NATSNKey, what: "it is the secret of nats_nkey"},
	}...)
	checked := 0
	for _, s := range secrets {
		info, err := os.Stat(s.name)
		switch {
		case s.name == "", errors.Is(err, os.ErrNotExist) && s.made:
			continue
		case err != nil:
			all = append(all, found(symptom.FileMissing, err))
			continue
		}
		is, want := trust.Secret(s.name, info)
		if s.made {
			want = trust.Rights{Owner: is.Owner, Group: is.Group, Mode: is.Mode & 0o600}
		}
		if is != want {
			all = append(all, found(symptom.FileOpen, s.name, is.Owner, is.Group, is.Mode, s.what, want.Group, want.Mode))
		}
		checked++
	}
	if all == nil {
		all = []app.Check{ok("files", "only this service may read the files that hold timers or secrets: %d", checked)}
	}
	return all
}
