package service

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/internal/symptom"
)

// httpTimeout is how long a service on this machine may take for an answer.
const httpTimeout = 2 * time.Second

// http says whether the address for HTTP is free, or what the service that answers there
// says about itself.
func (x *examination) http(ctx context.Context) []app.Check {
	if x.isUnclear("http_") {
		return of("http", found(symptom.NotChecked))
	}
	addr, chosen := x.cfg.HTTPAddress()
	if addr == "" {
		return []app.Check{ok("http", "http_addr is empty: there is no HTTP, so no health checks and no metrics")}
	}
	ctx, cancel := context.WithTimeout(ctx, httpTimeout)
	defer cancel()
	is, err := apiclient.New(x.cfg.LocalURL(), "").Readiness(ctx)
	at, _ := errors.AsType[*net.OpError](err)
	host, _, _ := net.SplitHostPort(addr)
	token := ""
	if !config.IsLoopback(host) {
		token = ", and needs the token"
	}
	switch {
	case err == nil:
		all := []app.Check{ok("http", "a timer service answers on %s%s", addr, token)}
		for _, p := range is.Parts {
			if p.Reason != "" {
				all = append(all, app.Check{Part: p.Part, Reason: p.Reason, Advice: p.Advice, Red: !p.OK})
			}
		}
		return all
	case errors.Is(err, syscall.ECONNREFUSED):
		return []app.Check{ok("http", "%s is free", addr)}
	case at != nil && at.Op == "dial":
		return []app.Check{found(symptom.WrongAddress, addr, at)}
	case chosen:
		return []app.Check{found(symptom.PortTaken, addr)}
	}
	return []app.Check{found(symptom.PortMoves, addr)}
}

// files says which files others may read that they should not.
func (x *examination) files() (all []app.Check) {
	secret := make(map[string]string)
	mayLack := make(map[string]bool)
	if file := x.cfg.SecretFile(); file != "" {
		secret[file] = "it has passwords or tokens"
	}
	for key, file := range map[string]string{"broker_tls_key": x.cfg.BrokerTLSKey, "nats_nkey": x.cfg.NATSNKey, "nats_credentials": x.cfg.NATSCredentials, "http_tenant_tokens_file": x.cfg.HTTPTenantTokensFile} {
		if file != "" {
			secret[file] = "it is the secret of " + key
		}
	}
	if x.cfg.DBURL.Empty() && !x.isUnclear("db_path") {
		for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
			secret[x.cfg.DBPath+suffix], mayLack[x.cfg.DBPath+suffix] = "it is the database", true
		}
		inside := filepath.Join(embeddedDir(x.cfg), secretFile)
		secret[inside], mayLack[inside] = "it is the secret of the embedded server", true
	}
	checked := 0
	for _, name := range slices.Sorted(maps.Keys(secret)) {
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, os.ErrNotExist) && mayLack[name]:
			continue
		case err != nil:
			all = append(all, found(symptom.FileMissing, err))
		case info.Mode().Perm()&0o077 != 0:
			all = append(all, found(symptom.FileOpen, name, info.Mode().Perm(), secret[name]))
		}
		checked++
	}
	if all == nil {
		all = []app.Check{ok("files", "no other user may read files that hold timers or secrets: %d", checked)}
	}
	return all
}
