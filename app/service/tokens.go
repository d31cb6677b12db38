package service

import (
	"context"
	"log/slog"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/config"
)

// watchTokens returns the file of the tokens of tenants, which is given to a server whenever
// it is loaded.
func watchTokens(file string, server *admin.Server, log *slog.Logger) *watched {
	w := &watched{file: file}
	w.load = func() (string, error) {
		tokens, err := config.LoadTenantTokens(file)
		if err == nil {
			err = server.UseTenantTokens(tokens)
		}
		return "", err
	}
	w.logs = func(ctx context.Context, _ string, err error) {
		if err != nil {
			log.ErrorContext(ctx, "the file of tenant tokens is wrong, the old tokens stay in force", "file", file, "error", err)
			return
		}
		log.InfoContext(ctx, "new tenant tokens are in force", "file", file)
	}
	return w
}
