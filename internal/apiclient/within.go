package apiclient

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/timer"
)

// Within returns a client of the handler of a service that does not run: it reads what a
// database has, and changes nothing. Close closes the database. Of an error of the database
// the client returns the cause, which a service keeps to its log.
func Within(database interface {
	timer.Reader
	io.Closer
},
) *Client {
	var failed error
	handler := admin.New(slog.New(slog.DiscardHandler), admin.Options{Timers: database, Failed: func(err error) { failed = err }})
	return &Client{
		url: "http://localhost", close: database.Close,
		ask: func(r *http.Request) (*http.Response, error) {
			failed = nil
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, r)
			if failed != nil {
				return nil, errors.Join(r.Context().Err(), failed)
			}
			return answer.Result(), nil
		},
	}
}
