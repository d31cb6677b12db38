package admin

import (
	"log/slog"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
)

// Embedded returns the options of a [Server] that a program with an app inside mounts:
// health, the JSON API and the dashboard of the app, on a store and a broker. Without a
// broker (nil) nothing can be scheduled there. Nothing has to run: health is checked when a
// request asks for it. The program sets Prefix, as it mounts the server, and Token or
// middleware of its own. Without them everyone who reaches the server may do everything:
//
//	opt := admin.Embedded(a, store, broker, log)
//	opt.Prefix, opt.Token = "/timers", token
//	mux.Handle("/timers/", admin.New(log, opt))
//
// The program may add History, Events, Metrics and Quotas.
func Embedded(a *app.App, s app.Store, b broker.Broker, log *slog.Logger) Options {
	monitor := NewMonitor(a.Checks, log)
	monitor.asked = true
	return Options{Monitor: monitor, Timers: a.Reader(), Operator: s.Operator(), Service: a, Broker: b}
}
