package services

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/postgresd"
	"github.com/event-service-agent/timer-service/verify/services/judge"
)

// tenant is the one of all timers.
const tenant = "acme"

// timerService is this repository's service, with the client of NATS: a command is acked by
// the broker, and its receipt says that it is in force.
type timerService struct{ js jetstream.JetStream }

func openSQLite(ctx context.Context, w *world) (service, error) { return openOurs(ctx, w, nil) }

func openPostgres(ctx context.Context, w *world) (service, error) {
	server, err := w.startPostgres(ctx)
	if err != nil {
		return nil, err
	}
	at, err := w.through("service to PostgreSQL", server)
	if err != nil {
		return nil, err
	}
	return openOurs(ctx, w, []string{"TIMER_DB_URL=" + postgresURL(at)})
}

// startPostgres starts a server with its default settings, which sync each commit.
func (w *world) startPostgres(ctx context.Context) (address string, err error) {
	port, err := freeport.Find(ctx)
	if err != nil {
		return "", err
	}
	var server *postgresd.Server
	start := func(ctx context.Context) (err error) {
		server, err = postgresd.Start(ctx, w.dir, port)
		return err
	}
	if err := start(ctx); err != nil {
		return "", err
	}
	kill := func() error { server.Kill(); return nil }
	w.onClose(kill)
	w.harm.servers = append(w.harm.servers, part{"PostgreSQL", start, kill, func() int { return server.PID() }})
	return server.Address(), nil
}

func postgresURL(address string) string {
	return "postgres://postgres@" + address + "/postgres?sslmode=disable"
}

// openOurs starts a broker and the service, with settings of its own.
func openOurs(ctx context.Context, w *world, settings []string) (service, error) {
	bin, err := crash.Build(ctx, w.dir)
	if err != nil {
		return nil, err
	}
	broker, at, err := w.startNATS(ctx)
	if err != nil {
		return nil, err
	}
	w.harm.servers = append(w.harm.servers, broker.part())
	toBroker, err := w.through("service to NATS", at)
	if err != nil {
		return nil, err
	}
	settings = append(settings, "TIMER_BROKER_URL=nats://"+toBroker, "TIMER_RECEIPTS=true", "TIMER_HTTP_ADDR=127.0.0.1:0")
	s := &child{name: "timer-service", path: bin, args: []string{"serve"}, env: settings, dir: w.dir, logs: w.logs}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	w.onClose(s.kill)
	w.harm.processes = append(w.harm.processes, s.part())
	client, err := w.through("client to NATS", at)
	if err != nil {
		return nil, err
	}
	js, err := w.connectNATS("nats://" + client)
	if err != nil {
		return nil, err
	}
	t := &timerService{js}
	return t, consumeNATS(ctx, w, js, "svc", []string{"svc.*.serviceCall", "svc.*.receipts"}, 1, t.took)
}

// idOf is the id of the message with a command; ids ascend.
func idOf(op int) string { return fmt.Sprintf("c-%012d", op) }

func (t *timerService) do(ctx context.Context, c command) (answer, error) {
	payload := map[string]any{"tenantId": tenant, "serviceCallId": c.key}
	kind := "CancelTimer"
	if c.do != judge.Cancel {
		kind = "ScheduleTimer"
		payload["dueAt"], payload["data"] = c.due.UTC().Format(time.RFC3339Nano), c.op
	}
	body, err := json.Marshal(map[string]any{
		"id": idOf(c.op), "type": kind, "tenantId": tenant, "timestampMs": c.at.UnixMilli(), "payload": payload,
	})
	if err != nil {
		return 0, err
	}
	_, err = t.js.PublishMsg(ctx, &nats.Msg{Subject: "timer.commands", Data: body}, jetstream.WithMsgID(idOf(c.op)), jetstream.WithRetryAttempts(0))
	return pending, err
}

// took notes an event or a receipt.
func (t *timerService) took(rec *recorder, m jetstream.Msg, _ uint64) error {
	var body struct {
		ID          string
		Type        string
		CausationID string
		Payload     struct {
			ServiceCallID string
			Data          int
		}
	}
	if err := json.Unmarshal(m.Data(), &body); err != nil {
		return err
	}
	if body.Type == "DueTimeReached" {
		rec.noteSeen(body.Payload.ServiceCallID, body.Payload.Data, body.ID)
		return nil
	}
	op, err := strconv.Atoi(strings.TrimPrefix(body.CausationID, "c-"))
	switch {
	case err != nil:
		return err
	case body.Type == "TimerScheduled" || body.Type == "TimerCanceled":
		rec.noteApplied(op)
	default:
		rec.noteRefused(op)
	}
	return nil
}
