package admin_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A program mounts health, API and dashboard of the app that it embeds below a path of
// its own.
func ExampleEmbedded() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	log := slog.New(slog.DiscardHandler)
	store, err := sqlite.Open(ctx, dir+"/host.db", sqlite.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	a, err := app.New(store, nil, log, app.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	a.Timers().OnDue("", func(context.Context, timer.DueTimeReached) error { return nil }, app.OnDueOptions{})
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	<-a.Running()

	mux := http.NewServeMux() // of the program
	opt := admin.Embedded(a, store, nil, log)
	opt.Prefix, opt.Token = "/timers", "0123456789abcdef"
	mux.Handle("/timers/", admin.New(log, opt))

	get := func(path string) *httptest.ResponseRecorder {
		answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
		request.Header.Set("Authorization", "Bearer "+opt.Token)
		mux.ServeHTTP(answer, request)
		return answer
	}
	for get("/timers/readyz").Code != http.StatusOK { // while it starts
		continue
	}
	fmt.Print(get("/timers/livez").Body)
	fmt.Println(get("/timers/v1/stats").Code)
	page := get("/timers/")
	fmt.Println(page.Code, strings.Contains(page.Body.String(), `href="/timers/`))
	stop()
	fmt.Println(<-ended)
	// Output:
	// alive
	// 200
	// 200 true
	// <nil>
}
