package admin_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
)

// A Monitor that runs answers whether the service is ready. Without a reader of timers
// there is no API and no dashboard.
func ExampleMonitor() {
	ctx, stop := context.WithCancel(context.Background())
	log, round := slog.New(slog.DiscardHandler), make(chan struct{}, 1)
	monitor := admin.NewMonitor(func(context.Context) []app.Check { // such as those of an App
		select {
		case round <- struct{}{}:
		default:
		}
		return []app.Check{{Part: "broker", Reason: "not connected", Advice: "see that it runs", Red: true}}
	}, log)
	ended := make(chan error, 1)
	go func() { ended <- monitor.Run(ctx) }()
	<-round
	for monitor.Health().At.IsZero() {
		continue
	}

	server := admin.New(log, admin.Options{Monitor: monitor})
	for _, path := range []string{"/livez", "/readyz"} {
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, answer.Code)
	}
	for _, part := range monitor.Health().Parts {
		fmt.Printf("%s: %s; %s\n", part.Part, part.Reason, part.Advice)
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// /livez 200
	// /readyz 503
	// broker: not connected; see that it runs
	// <nil>
}
