package main

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/timer"
)

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// NewPage returns the page of the application, which shows the service calls and takes
// new ones, with the dashboard of the timer module below /timers/.
func NewPage(o *Orchestration, db *sql.DB, a *app.App, store app.Store, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		rows, err := list(r.Context(), db)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = pageTemplate.Execute(w, rows) // a reader who went away needs no answer
	})
	mux.HandleFunc("POST /calls", func(w http.ResponseWriter, r *http.Request) {
		after, err := time.ParseDuration(r.FormValue("after"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c := ServiceCall{
			Key:           timer.Key{TenantID: timer.TenantID(r.FormValue("tenant")), ServiceCallID: timer.ServiceCallID(r.FormValue("call"))},
			URL:           r.FormValue("url"),
			CorrelationID: cmp.Or(r.Header.Get(headerCorrelation), uuid.NewString()),
			DueAt:         time.Now().Add(after),
		}
		answer(w, r, o.Book(r.Context(), c))
	})
	mux.HandleFunc("POST /calls/{tenant}/{call}/cancel", func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, o.Cancel(r.Context(), timer.Key{TenantID: timer.TenantID(r.PathValue("tenant")), ServiceCallID: timer.ServiceCallID(r.PathValue("call"))}))
	})
	mux.HandleFunc("POST /endpoint", newEndpoint())

	opt := admin.Embedded(a, store, nil, log)
	opt.Prefix = "/timers"
	mux.Handle("/timers/", admin.New(log, opt))
	return http.NewCrossOriginProtection().Handler(mux)
}

// answer shows the page again, or the error.
func answer(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, timer.ErrInvalid):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, timer.ErrReached), errors.Is(err, errNotScheduled):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

// A row of the page.
type row struct {
	ServiceCall
	State, Answer string
	DoneAt        time.Time // zero before
}

// list returns the latest service calls.
func list(ctx context.Context, db *sql.DB) (all []row, err error) {
	rows, err := db.QueryContext(ctx, `
		SELECT tenant_id, service_call_id, url, correlation_id, due_at, state, coalesce(answer, ''), coalesce(done_at, 0)
		  FROM service_calls ORDER BY due_at DESC LIMIT 100`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r row
		var due, done int64
		if err := rows.Scan(&r.TenantID, &r.ServiceCallID, &r.URL, &r.CorrelationID, &due, &r.State, &r.Answer, &done); err != nil {
			return nil, err
		}
		r.DueAt = time.UnixMilli(due)
		if done > 0 {
			r.DoneAt = time.UnixMilli(done)
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// newEndpoint returns what stands for an endpoint of another program: it does its work once
// for each key.
func newEndpoint() http.HandlerFunc {
	var mu sync.Mutex
	done := make(map[string]int)
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		key := r.Header.Get(headerKey)
		if done[key] == 0 {
			done[key] = len(done) + 1
		}
		fmt.Fprintf(w, "receipt %d", done[key])
	}
}
