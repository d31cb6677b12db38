package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store/storetest"
)

// TestThroughPgBouncer runs the contract through a PgBouncer in transaction mode:
// no two transactions need have the same connection to the server.
func TestThroughPgBouncer(t *testing.T) {
	t.Parallel()
	longtest.Skip(t, "runs the contract a second time")
	const places = 160 // more than there are cases
	urls := bouncer(t, places)
	var next atomic.Int32
	through := func(t testing.TB) string {
		n := next.Add(1) - 1
		if n == places {
			t.Fatal("more cases than places")
		}
		return urls[n]
	}
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(t testing.TB) storetest.Store { return open(t, through(t), relaxed) })
	})
	t.Run("together", func(t *testing.T) {
		t.Parallel()
		storetest.Together(t, func(t testing.TB) (a, b storetest.Store) {
			url := through(t)
			return open(t, url, relaxed), open(t, url, relaxed)
		})
	})
	t.Run("leads leave a connection to the server", func(t *testing.T) {
		t.Parallel()
		s := open(t, through(t), relaxed)
		run(t, s.DB(), `INSERT INTO timer_outbox (id, payload, headers, appended_at, shard) SELECT 'id', '', '{}', now(), generate_series(0, 5)`)
		for _, l := range []outbox.Lease{own(t, s), takeOver(t, s), takeOver(t, s)} {
			defer l.Release()
			if length(t, l) != 1 {
				t.Error("a shard that is led has no event")
			}
		}
		if l, err := s.TakeOver(t.Context()); err == nil {
			t.Errorf("took %v with the last connection", l)
		}
	})
}

// bouncer starts a PgBouncer before the server of the tests and returns the URLs
// of schemas behind it, each of which it takes for a database. Without the program
// it skips the test, loudly, or fails it if TIMER_TEST_REQUIRE is set.
func bouncer(t *testing.T, places int) (urls []string) {
	t.Helper()
	server, err := url.Parse(pgtest.Server(t))
	if err != nil {
		t.Fatal(pgtest.Variable + " is not a URL")
	}
	program, err := exec.LookPath("pgbouncer")
	if err != nil && os.Getenv("TIMER_TEST_REQUIRE") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip("SKIPPED: there is no pgbouncer on the path, to test through it")
	}
	dir := t.TempDir()
	port, err := freeport.Find(t.Context())
	must(t, err)
	address := freeport.Address(port)
	var databases strings.Builder
	for range places {
		schema, err := url.Parse(pgtest.URL(t))
		must(t, err)
		name := schema.Query().Get("search_path")
		fmt.Fprintf(&databases, "%s = host=%s port=%s dbname=%s connect_query='SET search_path = %s'\n",
			name, server.Hostname(), server.Port(), strings.TrimPrefix(server.Path, "/"), name)
		urls = append(urls, fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", server.User, address, name))
	}
	password, _ := server.User.Password()
	for name, text := range map[string]string{
		"users.txt": fmt.Sprintf("%q %q\n", server.User.Username(), password),
		"pgbouncer.ini": fmt.Sprintf(`[databases]
%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
server_idle_timeout = 1
`, databases.String(), port, filepath.Join(dir, "users.txt")),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // another user reads it
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, filepath.Join(dir, "pgbouncer.ini"))
	log, err := os.Create(filepath.Join(dir, "log"))
	must(t, err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = asNobody(t, dir) // it refuses to be root
	}
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // says that it was killed
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error means that it has ended
		<-ended
	})
	if err := listens(t.Context(), address, ended); err != nil {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("pgbouncer: %v:\n%s", err, text)
	}
	return urls
}

// asNobody has a process run as nobody, who may read the folder.
func asNobody(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	nobody, err := user.Lookup("nobody")
	must(t, err)
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	must(t, err)
	gid, err := strconv.ParseUint(nobody.Gid, 10, 32)
	must(t, err)
	for _, d := range []string{dir, filepath.Dir(dir)} { // of the test, of all its folders
		if err := os.Chmod(d, 0o755); err != nil { //nolint:gosec // another user reads it
			t.Fatal(err)
		}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

func listens(ctx context.Context, address string, ended <-chan struct{}) error {
	return pause.Until(ctx, func() (bool, error) {
		select {
		case <-ended:
			return false, errors.New("it ended")
		default:
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return false, nil
		}
		return true, conn.Close()
	})
}
