package service

import (
	"context"
	"log/slog"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// notifySystemd tells systemd that the service has started and that it stops. While the
// process works it feeds the watchdog, if a unit with Type=notify asks for it (NOTIFY_SOCKET,
// WATCHDOG_USEC). It is invoked last.
func notifySystemd(lc fx.Lifecycle, sd fx.Shutdowner, log *slog.Logger, m *admin.Monitor) {
	notify := func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			log.Warn("systemd can't be notified", "state", state, "error", err)
		}
	}
	if limit, err := daemon.SdWatchdogEnabled(false); err != nil {
		log.Warn("WATCHDOG_USEC is not understood; there is no watchdog", "error", err)
	} else if limit > 0 {
		keepLooking(lc, sd, log, "watchdog", func(ctx context.Context) error {
			for pause.For(ctx, limit/3) {
				if m.Alive() {
					notify(daemon.SdNotifyWatchdog)
				}
			}
			return nil
		})
	}
	lc.Append(fx.StartStopHook(func() { notify(daemon.SdNotifyReady) }, func() { notify(daemon.SdNotifyStopping) }))
}
