package rabbitd_test

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/internal/rabbitd"
)

func TestServerStartsAgainWhereItWas(t *testing.T) {
	longtest.Skip(t, "starts a RabbitMQ server")
	t.Parallel()
	port, err := freeport.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, end := range []func(*rabbitd.Server){(*rabbitd.Server).Kill, (*rabbitd.Server).Stop} {
		s, err := rabbitd.Start(t.Context(), dir, port)
		if errors.Is(err, rabbitd.ErrNotInstalled) && os.Getenv("TIMER_TEST_REQUIRE") == "" {
			t.Skip("SKIPPED: ", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		host, _, _ := strings.Cut(strings.TrimPrefix(s.URL(), "amqp://guest:guest@"), "/")
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		end(s)
		if conn, err = net.Dial("tcp", host); err == nil {
			conn.Close()
			t.Error("it still listens")
		}
	}
}
