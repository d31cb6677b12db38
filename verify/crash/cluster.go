package crash

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/internal/natsd"
	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// consumerName is the durable consumer through which the service receives commands.
const consumerName = "timer-service_timer-commands"

// clusterServer is a cluster that ends as one server does.
type clusterServer struct{ *natsd.Cluster }

// PID returns the id of the first server.
func (s clusterServer) PID() int { return s.Cluster.PID(0) }

// Kill ends all servers.
func (s clusterServer) Kill() error { return s.Close() }

// url is where the service connects with the broker.
func (r *run) url() string {
	if r.cluster != nil {
		return r.cluster.URL()
	}
	return r.opt.Broker.URL(r.port)
}

// beginCluster starts three servers and creates the stream with three replicas, as an
// administrator does: the service creates streams with one.
func (r *run) beginCluster(ctx context.Context) error {
	program, err := natsd.Build(ctx, r.dir)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.dir, brokerData)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if r.cluster, err = natsd.Start(ctx, program, dir, r.opt.Sync); err != nil {
		return err
	}
	r.broker = clusterServer{r.cluster}
	if err := r.createStream(ctx); err != nil {
		return errors.Join(err, r.broker.Kill())
	}
	return nil
}

func (r *run) createStream(ctx context.Context) error {
	nc, err := connect(r.cluster.URL(), "timer-crash-administrator")
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return r.await(ctx, readyTimeout, "the cluster creates a stream", func() bool {
		ctx, cancel := context.WithTimeout(ctx, brokerTimeout)
		defer cancel()
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: streamName, Subjects: []string{"svc.>", history.CommandsTopic}, Replicas: natsd.Size, Discard: jetstream.DiscardNew,
		})
		return err == nil
	})
}

// wholeTimeout is how long a server may take until it has everything again. A leader that was
// cut off took more than a minute: it could not catch up until its successor made a snapshot.
const wholeTimeout = 3 * time.Minute

// hitServer injects the fault of the mode at a server of the cluster, and waits until each server
// has everything again. Three replicas survive the loss of one, not of two at once.
func (r *run) hitServer(ctx context.Context) error {
	if err := r.harmServer(ctx, r.rand.IntN(natsd.Size)); err != nil {
		return err
	}
	return r.await(ctx, wholeTimeout, "each server has everything", func() bool { return r.isWhole(ctx) })
}

func (r *run) harmServer(ctx context.Context, i int) error {
	c := r.cluster
	switch r.opt.Mode {
	case Leaders:
		return r.stepDown(ctx)
	case CutOff:
		c.CutOff(i)
		defer c.Rejoin(i)
		return r.rest(ctx, stopOfMany.any(r.rand))
	case FreezeServer:
		if err := c.Freeze(i); err != nil {
			return err
		}
		if err := r.rest(ctx, stopOfMany.any(r.rand)); err != nil {
			return err
		}
		return c.Thaw(i)
	}
	if err := c.Kill(i); err != nil {
		return err
	}
	if err := r.rest(ctx, brokerOff.any(r.rand)); err != nil {
		return err
	}
	if r.opt.Mode == WipeServer {
		if err := c.Wipe(i); err != nil {
			return err
		}
	}
	return c.Begin(i)
}

// isWhole reports whether each server has all that was stored.
func (r *run) isWhole(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, brokerTimeout)
	defer cancel()
	info, err := r.wire.(*natsWire).stream.Info(ctx)
	if err != nil || info.Cluster == nil || len(info.Cluster.Replicas) != natsd.Size-1 {
		return false
	}
	for _, replica := range info.Cluster.Replicas {
		if !replica.Current || replica.Offline {
			return false
		}
	}
	return r.cluster.IsHealthy(ctx)
}

// stepDown has the leader of the stream, of the service's consumer or of the cluster step
// down, whichever server that is.
func (r *run) stepDown(ctx context.Context) error {
	url, subject := r.cluster.URL(), ""
	switch r.rand.IntN(3) {
	case 0:
		subject = "$JS.API.STREAM.LEADER.STEPDOWN." + streamName
	case 1:
		subject = "$JS.API.CONSUMER.LEADER.STEPDOWN." + streamName + "." + consumerName
	default:
		url, subject = r.cluster.SystemURL(0), "$JS.API.META.LEADER.STEPDOWN"
	}
	nc, err := connect(url, "timer-crash-administrator")
	if err != nil {
		return err
	}
	defer nc.Close()
	return r.await(ctx, readyTimeout, "a leader steps down: "+subject, func() bool {
		ctx, cancel := context.WithTimeout(ctx, brokerTimeout)
		defer cancel()
		msg, err := nc.RequestWithContext(ctx, subject, nil)
		var answer struct{ Success bool }
		return err == nil && json.Unmarshal(msg.Data, &answer) == nil && answer.Success
	})
}
