package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/apiclient"
)

// ErrNoClient says that the broker lives inside the serving process, where no
// other process reaches it.
var ErrNoClient = errors.New("gochannel lives inside the serving process; a client needs a broker with an address, such as nats")

// ErrNoServer says that no embedded server has run next to the database.
var ErrNoServer = errors.New("no embedded server has run here")

// Client returns the broker of the configuration, for a process that publishes commands and
// waits for events, and the address that it is going to use. Without a URL that is the
// embedded server of the service that runs on the same database. The caller runs the broker.
func Client(cfg config.Config, log *slog.Logger) (b broker.Broker, address string, err error) {
	if cfg.Broker == config.GoChannel {
		return nil, "", ErrNoClient
	}
	return openServer(cfg, log, sending, nextTo(cfg))
}

// identifyTimeout is how long the database, and the service on this machine, may take to say
// which they are.
const identifyTimeout = 2 * time.Second

// Answering returns the readiness of the service that answers on http_addr of this machine,
// which is shown no token. The error wraps [apiclient.ErrOther] if another program answers, or a
// service with another database. If this database does not say which it is, any service will do.
func Answering(ctx context.Context, cfg config.Config) (is admin.Readiness, err error) {
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	there, err := apiclient.Here(cfg, "")
	if err != nil {
		return is, err
	}
	if is, err = there.Readiness(ctx); err != nil {
		return is, err
	}
	id, known := databaseID(ctx, cfg)
	if known && is.Database != "" && is.Database != id {
		err = fmt.Errorf("%w: %s is a timer service with the database %s, and %s is %s", apiclient.ErrOther, cfg.LocalURL(), is.Database, storeName(cfg), cmp.Or(id, "not made yet"))
	}
	return is, err
}

// databaseID returns the id of the database, "" if there is none yet, and whether that is known.
func databaseID(ctx context.Context, cfg config.Config) (id string, known bool) {
	version, _, _, err := Schema(ctx, cfg)
	if err != nil || version == 0 {
		return "", err == nil
	}
	r, err := Reader(ctx, cfg)
	if err != nil {
		return "", false
	}
	defer r.Close()
	id, err = r.DatabaseID(ctx)
	return id, err == nil
}

// nextTo returns an option that finds the embedded server of the service that runs on the
// same database. Only a file can say where that server listens, because another server may
// listen on the port of the configuration.
func nextTo(cfg config.Config) func(*nats.Options) error {
	return func(opt *nats.Options) (err error) {
		if err := guardEmbedded(embeddedDir(cfg)); err != nil {
			return err
		}
		opt.URL, err = readFile(embeddedDir(cfg), addressFile)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w, next to %s: run timer-service serve with the same db_path, or set broker_url", ErrNoServer, cfg.DBPath)
		}
		if err != nil {
			return fmt.Errorf("find the embedded server: %w", err)
		}
		if secret, err := readFile(embeddedDir(cfg), secretFile); err == nil { // without the secret it is a guest
			opt.Security = nats.Security{Username: embedded.Owner, Password: secret}
		}
		return nil
	}
}
