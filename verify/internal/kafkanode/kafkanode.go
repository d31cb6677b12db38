// Package kafkanode runs Apache Kafka for a test: one node or several, each of which is
// broker and controller, in a process of its own on the loopback interface. The test may
// kill a node and start it again where it was. Java 17 and Maven must be installed; Maven
// fetches the version that pom.xml names.
package kafkanode

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/verify/internal/server"
)

// startTimeout is how long a node may take until it listens, on a busy machine.
const startTimeout = 5 * time.Minute

// clusterID is that of every cluster. It needs 16 bytes in base64.
const clusterID = "dGltZXItc2VydmljZS10cw"

// Options tune a cluster.
type Options struct {
	Port     int               // where the first node listens; default any
	Nodes    int               // default 1
	Settings map[string]string // more of server.properties; they win, and may have {port} and {controller}, the address of it
	Format   []string          // more arguments of kafka-storage.sh format
}

// A Cluster is some nodes, which know each other.
type Cluster struct {
	dir   string
	nodes []*Node
}

// A Node is one of a cluster, with a process now or not.
type Node struct {
	ID int // as Kafka names it, from 1

	dir    string
	port   int
	shares bool // the machine with other nodes

	*server.Server // nil before its first start
}

// Start makes a cluster that keeps its data in dir, starts all nodes, and waits until they
// listen. A single node that has ended goes on with its data, given its folder and its port.
func Start(ctx context.Context, dir string, opt Options) (*Cluster, error) {
	c := &Cluster{dir: dir}
	opt.Nodes = max(1, opt.Nodes)
	var voters []string
	for id := 1; id <= opt.Nodes; id++ {
		n := &Node{ID: id, dir: filepath.Join(dir, "node-"+strconv.Itoa(id)), port: opt.Port, shares: opt.Nodes > 1}
		if id > 1 || n.port == 0 {
			var err error
			if n.port, err = freeport.Find(ctx); err != nil {
				return nil, err
			}
		}
		controller, err := freeport.Find(ctx)
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, n)
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", id, controller))
	}
	for i, n := range c.nodes {
		_, controller, _ := strings.Cut(voters[i], "@")
		if err := n.format(ctx, opt, controller, strings.Join(voters, ",")); err != nil {
			return nil, err
		}
	}
	for _, n := range c.nodes { // each waits for the others
		if err := n.begin(); err != nil {
			c.Kill()
			return nil, err
		}
	}
	for _, n := range c.nodes {
		if err := n.await(ctx); err != nil {
			c.Kill()
			return nil, err
		}
	}
	return c, nil
}

// Nodes returns all nodes.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// URL lists where the nodes listen: host and port, with commas between them.
func (c *Cluster) URL() string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, n.address())
	}
	return strings.Join(all, ",")
}

// Kill ends all nodes at once.
func (c *Cluster) Kill() {
	for _, n := range c.nodes {
		n.Kill()
	}
}

// format writes the settings of a node and makes its folder for data, unless it is there.
func (n *Node) format(ctx context.Context, opt Options, controller, voters string) error {
	if _, err := os.Stat(n.settings()); err == nil {
		return nil
	}
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return err
	}
	replicas, inSync := strconv.Itoa(min(3, opt.Nodes)), strconv.Itoa(min(2, opt.Nodes))
	settings := map[string]string{
		"process.roles":              "broker,controller",
		"node.id":                    strconv.Itoa(n.ID),
		"controller.quorum.voters":   voters,
		"listeners":                  "PLAINTEXT://127.0.0.1:{port},CONTROLLER://{controller}",
		"controller.listener.names":  "CONTROLLER",
		"log.dirs":                   filepath.Join(n.dir, "data"),
		"default.replication.factor": replicas,
		"min.insync.replicas":        inSync,

		"offsets.topic.replication.factor":         replicas,
		"transaction.state.log.replication.factor": replicas,
		"transaction.state.log.min.isr":            inSync,
	}
	if opt.Nodes == 1 {
		settings["group.initial.rebalance.delay.ms"] = "0" // as in the file that Kafka comes with
	}
	maps.Copy(settings, opt.Settings)
	values := strings.NewReplacer("{port}", strconv.Itoa(n.port), "{controller}", controller)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s=%s\n", name, values.Replace(settings[name]))
	}
	if err := os.WriteFile(n.settings(), []byte(text.String()), 0o600); err != nil {
		return err
	}
	_, err := Tool(ctx, n.dir, "kafka.tools.StorageTool", append([]string{"format", "-t", clusterID, "-c", n.settings()}, opt.Format...)...)
	return err
}

func (n *Node) settings() string { return filepath.Join(n.dir, "server.properties") }

func (n *Node) address() string { return freeport.Address(n.port) }

// Start starts a node that has ended, and waits until it listens.
func (n *Node) Start(ctx context.Context) error {
	if err := n.begin(); err != nil {
		return err
	}
	return n.await(ctx)
}

// begin starts the process. A node that is alone has the garbage collector of
// kafka-run-class.sh, and may be measured. Several share a small machine.
func (n *Node) begin() error {
	options := []string{"-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"}
	if n.shares {
		options = []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	}
	cmd, err := java(context.Background(), n.dir, "kafka.Kafka", //nolint:contextcheck // it outlives the start
		append(options, "-Xmx512m", "-Dlevel=INFO"), []string{n.settings()})
	if err != nil {
		return err
	}
	n.Server, err = server.Start(cmd, filepath.Join(n.dir, "log"), syscall.SIGKILL)
	return err
}

// await waits until the node listens, which it does when it has joined the cluster.
func (n *Node) await(ctx context.Context) error {
	return n.Await(ctx, startTimeout, func(ctx context.Context) bool {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", n.address())
		return err == nil && conn.Close() == nil
	})
}

// Kill ends the node at once.
func (n *Node) Kill() {
	if n.Server != nil {
		n.End(syscall.SIGKILL)
	}
}
