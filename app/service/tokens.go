package service

import (
	"context"
	"log/slog"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/config"
)

// A tenantTokens gives a server the tokens of a file.
type tenantTokens struct {
	file    string
	server  *admin.Server
	log     *slog.Logger
	watched watched
}

// Run loads the file whenever it has changed, until ctx is done. A mistake in it is
// logged once, and the tokens stay as they are.
func (f *tenantTokens) Run(ctx context.Context) error { return watch(ctx, f.reload) }

func (f *tenantTokens) reload(ctx context.Context) {
	f.watched.changed(f.file, func(error) {
		if err := f.use(); err != nil {
			f.log.ErrorContext(ctx, "the file of tenant tokens is wrong, the old tokens stay in force", "file", f.file, "error", err)
			return
		}
		f.log.InfoContext(ctx, "new tenant tokens are in force", "file", f.file)
	})
}

// load loads the file, changed or not.
func (f *tenantTokens) load() error {
	return f.watched.now(f.file, func(error) error { return f.use() })
}

// use gives the tokens of the file to the server.
func (f *tenantTokens) use() error {
	tokens, err := config.LoadTenantTokens(f.file)
	if err != nil {
		return err
	}
	return f.server.UseTenantTokens(tokens)
}
