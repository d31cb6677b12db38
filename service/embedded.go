package service

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/trust"
)

// These files lie next to the data of the embedded server, with mode 0600.
const (
	addressFile = "url"    // where the server listens while it runs
	secretFile  = "secret" // password of the user who may do everything
	portFile    = "port"   // which the server took because the default was in use
)

// roleName is the default name of the app.
const roleName = "timer-service"

// embeddedDir returns the folder of the embedded server's data, which is next to the database.
func embeddedDir(cfg config.Config) string {
	return strings.TrimSuffix(cfg.DBPath, filepath.Ext(cfg.DBPath)) + ".nats"
}

// guardEmbedded returns an error if another user can replace files in that folder: they tell
// clients the address and the secret.
func guardEmbedded(dir string) error {
	err := errors.Join(trust.Path(dir), trust.Folder(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("folder of the embedded server: %w: move it away, or set another db_path", err)
	}
	return nil
}

// startEmbedded starts the server in this process, with its data next to the database, and
// writes its address and its secret to files for clients.
func startEmbedded(lc fx.Lifecycle, cfg config.Config, opt *nats.Options, log *slog.Logger) (*description, error) {
	dir := embeddedDir(cfg)
	if err := errors.Join(os.MkdirAll(dir, 0o700), guardEmbedded(dir)); err != nil {
		return nil, err
	}
	secret, err := keepSecret(dir)
	if err != nil {
		return nil, fmt.Errorf("secret of the embedded server: %w", err)
	}
	opt.Security = nats.Security{Username: embedded.Owner, Password: secret}
	host, port, chosen := cfg.NATSAddress()
	moved := readPort(dir)
	if moved > 0 && !chosen {
		port = moved
	}
	r := opt.Routing
	server, err := embedded.Start(embedded.Options{
		Host:       host,
		Port:       port,
		PortOnly:   chosen,
		StoreDir:   dir,
		SyncLazily: cfg.Durability == config.Relaxed,
		Access: &embedded.Access{
			Password: secret,
			Token:    cfg.NATSToken.Reveal(),
			Stream:   opt.Stream,
			Commands: r.Subscription(),
			Events:   r.EventsOf("*"),
			Receipts: r.ReceiptsOf("*"),
			Reserved: []string{nats.ConsumerName(roleName, r.Subscription())},
			Guests:   openFiles() / 4,
		},
	}, log)
	if err != nil {
		return nil, fmt.Errorf("start the embedded NATS server: %w", err)
	}
	lc.Append(closeHook("the embedded server", func() error {
		server.Shutdown()
		return nil
	}))
	opt.Server = server
	d := &description{broker: "nats embedded, data in " + dir, address: server.URL()}
	_, now := server.Address()
	err = writeFile(dir, addressFile, server.URL())
	switch {
	case port > 0 && now != port:
		d.broker += fmt.Sprintf("; port %d is taken by another server, so it listens on %d, now and from the next start on", port, now)
		if err == nil {
			err = writeFile(dir, portFile, strconv.Itoa(now))
		}
	case moved > 0 && !chosen:
		d.broker += fmt.Sprintf("; listens on port %d, since the default was taken once: set nats_port, or remove %s", now, filepath.Join(dir, portFile))
	}
	if host, _ := server.Address(); !config.IsLoopback(host) {
		d.broker += "; listens on " + host + ", for those with the token"
	}
	if err != nil {
		server.Shutdown()
		return nil, err
	}
	return d, nil
}

// keepSecret returns the secret of the embedded server. It makes a new one if there is none,
// or if others could have read it.
func keepSecret(dir string) (string, error) {
	info, err := os.Stat(filepath.Join(dir, secretFile))
	if err == nil && info.Mode().Perm()&0o077 == 0 {
		if secret, err := readFile(dir, secretFile); err != nil || secret != "" {
			return secret, err
		}
	}
	secret := rand.Text()
	return secret, writeFile(dir, secretFile, secret)
}

// readPort returns the port that the embedded server took at an earlier start because the
// default was in use, or 0 if it was not.
func readPort(dir string) int {
	text, _ := readFile(dir, portFile)
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return int(port)
}

// readFile returns the one line of a file next to the data of the embedded server.
func readFile(dir, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	return strings.TrimSpace(string(text)), err
}

// writeFile writes a file of one line. No reader sees it incomplete.
func writeFile(dir, name, line string) error {
	path := filepath.Join(dir, name)
	if err := os.Remove(path + ".new"); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.WriteFile(path+".new", []byte(line+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
