// Package natsd runs a cluster of three nats-server processes for one test, which may kill
// one of them, freeze it, delete its data, or cut it off from the others.
package natsd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/proxy"
)

// Size is how many servers a [Cluster] has.
const Size = 3

// startTimeout is how long a server may take until it is up to date with the others.
const startTimeout = time.Minute

// nowhere is where servers tell each other that they can be reached: no server listens
// there, so the only routes are those of the configuration, through the proxies.
const nowhere = "127.0.0.1:1"

// The user of the system account. All other clients connect without credentials.
const systemUser, systemPassword = "system", "system"

// A Cluster is three servers on the loopback interface with JetStream. One goroutine uses it.
type Cluster struct {
	dir     string
	program string
	sync    string // sync_interval; empty for the default
	servers [Size]server
	routes  [Size][Size]*proxy.Proxy // from one server to the other; nil from a server to itself
}

type server struct {
	port, monitor, route int
	cmd                  *exec.Cmd
}

// Build builds nats-server, of the version that go.mod names, into dir, and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "nats-server")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/nats-io/nats-server/v2").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build nats-server: %w\n%s", err, out)
	}
	return program, nil
}

// Start starts a cluster of servers of a program, which keep their data in dir, and waits
// until it answers. Sync is the setting sync_interval of JetStream, such as "always"; empty
// for the default.
func Start(ctx context.Context, program, dir, sync string) (*Cluster, error) {
	c := &Cluster{dir: dir, program: program, sync: sync}
	taken := make(map[int]bool) // no server listens on them yet
	for i := range c.servers {
		for _, port := range []*int{&c.servers[i].port, &c.servers[i].monitor, &c.servers[i].route} {
			for *port == 0 || taken[*port] {
				var err error
				if *port, err = freeport.Find(ctx); err != nil {
					return nil, err
				}
			}
			taken[*port] = true
		}
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	for from := range c.servers {
		var urls []string
		for to := range c.servers {
			if from == to {
				continue
			}
			p := proxy.New(proxy.TCP(freeport.Address(c.servers[to].route)))
			c.routes[from][to] = p
			listens, err := p.Listen()
			if err != nil {
				return err
			}
			urls = append(urls, "nats://"+listens)
		}
		if err := os.WriteFile(c.file(from, ".conf"), []byte(c.config(from, urls)), 0o600); err != nil {
			return err
		}
		if err := c.Begin(from); err != nil {
			return err
		}
	}
	return c.Await(ctx)
}

// config returns the configuration of a server.
func (c *Cluster) config(i int, routes []string) string {
	s, sync := c.servers[i], ""
	if c.sync != "" {
		sync = "sync_interval: " + c.sync
	}
	return fmt.Sprintf(`
server_name: %s
listen: %q
http: %q
log_file: %q
jetstream { store_dir: %q, max_file_store: 1TB, %s }
cluster { name: timers, listen: %q, advertise: %q, routes: [%s] }
accounts { $SYS { users: [ { user: %s, password: %s } ] } }
`, Name(i), freeport.Address(s.port), freeport.Address(s.monitor), c.file(i, ".log"), c.file(i, ""), sync,
		freeport.Address(s.route), nowhere, strings.Join(routes, ", "), systemUser, systemPassword)
}

// Name returns the name of a server, by which the cluster says which one leads.
func Name(i int) string { return "node-" + strconv.Itoa(i) }

// file returns the path of a file of a server, or that of its data.
func (c *Cluster) file(i int, suffix string) string { return filepath.Join(c.dir, Name(i)+suffix) }

// URL returns the addresses of all servers, with commas between them.
func (c *Cluster) URL() string { return strings.Join(c.URLs(), ",") }

// URLs returns the address of each server.
func (c *Cluster) URLs() []string {
	var all []string
	for _, s := range c.servers {
		all = append(all, "nats://"+freeport.Address(s.port))
	}
	return all
}

// SystemURL returns the address of a server with the credentials of the system account, to
// which the leader of the cluster listens.
func (c *Cluster) SystemURL(i int) string {
	return fmt.Sprintf("nats://%s:%s@%s", systemUser, systemPassword, freeport.Address(c.servers[i].port))
}

// PID returns the id of the process of a server.
func (c *Cluster) PID(i int) int { return c.servers[i].cmd.Process.Pid }

// Begin starts a server, where it was, and does not wait for it.
func (c *Cluster) Begin(i int) error {
	cmd := exec.Command(c.program, "--config", c.file(i, ".conf")) //nolint:noctx // it outlives the start
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}          // signals of the terminal are not meant for it
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a NATS server: %w", err)
	}
	c.servers[i].cmd = cmd
	return nil
}

// Kill ends a server at once.
func (c *Cluster) Kill(i int) error {
	cmd := c.servers[i].cmd
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = cmd.Wait() // its error says that the server was killed
	c.servers[i].cmd = nil
	return nil
}

// Wipe deletes the data of a server, which must have been killed.
func (c *Cluster) Wipe(i int) error { return os.RemoveAll(c.file(i, "")) }

// Freeze stops a server until [Cluster.Thaw]. Its connections stay open.
func (c *Cluster) Freeze(i int) error { return c.servers[i].cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw continues a server that was stopped.
func (c *Cluster) Thaw(i int) error { return c.servers[i].cmd.Process.Signal(syscall.SIGCONT) }

// CutOff drops everything that a server and the others send to each other. Clients reach it.
func (c *Cluster) CutOff(i int) {
	for _, p := range c.routesOf(i) {
		p.Drop(proxy.ToServer, proxy.ToClient)
	}
}

// Rejoin ends [Cluster.CutOff].
func (c *Cluster) Rejoin(i int) {
	for _, p := range c.routesOf(i) {
		p.Pass()
		p.Reset()
	}
}

// routesOf returns the routes from and to a server.
func (c *Cluster) routesOf(i int) []*proxy.Proxy {
	var all []*proxy.Proxy
	for other := range c.servers {
		if other != i {
			all = append(all, c.routes[i][other], c.routes[other][i])
		}
	}
	return all
}

// Await waits until each server says that it is healthy: it has a leader, and is up to date
// with all streams and consumers of which it has a replica.
func (c *Cluster) Await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !c.IsHealthy(ctx) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the NATS servers are not healthy, see the logs in %s: %w", c.dir, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// IsHealthy reports whether each server says so, see [Cluster.Await].
func (c *Cluster) IsHealthy(ctx context.Context) bool {
	for _, s := range c.servers {
		if !isHealthy(ctx, "http://"+freeport.Address(s.monitor)+"/healthz") {
			return false
		}
	}
	return true
}

func isHealthy(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // the status is all that counts
	return resp.StatusCode == http.StatusOK
}

// Close ends all servers and routes.
func (c *Cluster) Close() error {
	var errs []error
	for i := range c.servers {
		errs = append(errs, c.Kill(i))
	}
	for _, routes := range c.routes {
		for _, p := range routes {
			if p != nil {
				errs = append(errs, p.Close())
			}
		}
	}
	return errors.Join(errs...)
}
