package service

import (
	"fmt"
	"log/slog"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/config"
)

// watchTokens returns the file of the tokens of tenants and people. Whenever the file is loaded, the
// server gets the tokens.
func watchTokens(file string, server *admin.Server, log *slog.Logger) *watchedFile {
	return &watchedFile{
		file: file, log: log, is: "new tokens are in force", wrong: "the file of tokens is wrong, the old tokens stay in force",
		load: func() (string, error) {
			tokens, err := config.LoadTokens(file)
			if err == nil {
				err = server.UseTokens(tokens)
			}
			return fmt.Sprintf("%d tokens", len(tokens)), err
		},
	}
}
