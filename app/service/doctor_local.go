package service

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/config"
)

// httpTimeout is how long a service on this machine may take for an answer.
const httpTimeout = 2 * time.Second

// http says whether the address for HTTP is free, or answered by a service.
func (x *examination) http(ctx context.Context) []Finding {
	const check = "http"
	if x.isUnclear("http_") {
		return []Finding{warn(check, "correct the settings first", "not checked")}
	}
	addr, chosen := x.cfg.HTTPAddress()
	if addr == "" {
		return []Finding{ok(check, "http_addr is empty: there is no HTTP, so no health checks and no metrics")}
	}
	host, port, _ := net.SplitHostPort(addr)
	reached := addr
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		reached = net.JoinHostPort("localhost", port)
	}
	ctx, cancel := context.WithTimeout(ctx, httpTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", reached)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return []Finding{ok(check, "%s is free", addr)}
	}
	if err != nil {
		return []Finding{bad(check, "set http_addr to an address of this machine", "%s: %v", addr, err)}
	}
	_ = conn.Close()
	if isService(ctx, "http://"+reached+x.cfg.HTTPPrefix) {
		if config.IsLoopback(host) {
			return []Finding{ok(check, "a timer service answers on %s", addr)}
		}
		return []Finding{ok(check, "a timer service answers on %s, and needs the token", addr)}
	}
	if chosen {
		return []Finding{bad(check, "end that program, or set http_addr to a free address", "another program listens on %s", addr)}
	}
	return []Finding{warn(check, "set http_addr to a free address", "another program listens on %s: the service would take another port", addr)}
}

// isService reports whether a timer service answers at a URL.
func isService(ctx context.Context, url string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/livez", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	return strings.HasPrefix(string(body), "alive") || strings.HasPrefix(string(body), "dead:")
}

// files says which files others may read that they should not.
func (x *examination) files() (all []Finding) {
	const check = "files"
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
			all = append(all, bad(check, "make the file, or correct the setting", "%v", err))
		case info.Mode().Perm()&0o077 != 0:
			all = append(all, bad(check, "run chmod 600 "+name, "others may read or write %s (mode %04o): %s", name, info.Mode().Perm(), secret[name]))
		}
		checked++
	}
	if all == nil {
		all = []Finding{ok(check, "no other user may read those that hold timers or secrets: %d", checked)}
	}
	return all
}
