package crash

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// Topics and the group of Kafka, as the service names them by default.
const (
	kafkaEvents = "service.events"
	kafkaGroup  = "timer-service.timer.commands"
)

var kafkaTopics = regexp.MustCompile(`^service\.events(\.(.+)\.dlq)?$`)

const (
	kafkaNewTopics = time.Second            // until a new topic is noticed
	kafkaCommits   = 100 * time.Millisecond // between two polls of the committed offsets
)

// kafkaWire talks with Kafka.
type kafkaWire struct {
	client *kgo.Client // publishes and queries
	reader *kgo.Client
	admin  *kadm.Client
	noted  atomic.Int64 // messages of the service that were read

	mu   sync.Mutex
	seen map[int32]int64 // up to which commits of a partition are recorded
}

func dialKafka(address string) (*kafkaWire, error) {
	seeds := strings.Split(address, ",")
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0))
	if err != nil {
		return nil, fmt.Errorf("connect with the broker: %w", err)
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(seeds...),
		kgo.ConsumeRegex(), kgo.ConsumeTopics(kafkaTopics.String()), kgo.MetadataMaxAge(kafkaNewTopics), kgo.MetadataMinAge(kafkaNewTopics/4),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("connect with the broker: %w", err)
	}
	return &kafkaWire{client: client, reader: reader, admin: kadm.NewClient(client), seen: make(map[int32]int64)}, nil
}

func (w *kafkaWire) close() {
	w.reader.Close()
	w.client.Close()
}

// publish publishes a command under its key, as a producer has to that cares for
// their order.
func (w *kafkaWire) publish(ctx context.Context, c history.Command) (uint64, error) {
	record := &kgo.Record{Topic: history.CommandsTopic, Value: c.Body}
	if c.Kind == history.Schedule || c.Kind == history.Cancel {
		record.Key = []byte(c.Key.String())
	}
	for name, value := range c.Header {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	sent, err := w.client.ProduceSync(ctx, record).First()
	if err != nil {
		return 0, err
	}
	return kafkaPlace(sent.Partition, sent.Offset), nil
}

// kafkaPlace makes one number of a place in the commands topic.
func kafkaPlace(partition int32, offset int64) uint64 {
	return uint64(partition)<<40 | uint64(offset) + 1
}

// observe reads all topics of the service, and its commits.
func (w *kafkaWire) observe(ctx context.Context, recorder *history.Recorder) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { w.read(ctx, &tally{recorder: recorder}) })
	work.Go(func() { w.follow(ctx, recorder) })
	return func() {
		cancel()
		work.Wait()
	}, nil
}

// read records the messages of the service.
func (w *kafkaWire) read(ctx context.Context, t *tally) {
	for ctx.Err() == nil {
		fetched := w.reader.PollFetches(ctx)
		fetched.EachRecord(func(r *kgo.Record) {
			header := make(map[string]string, len(r.Headers))
			for _, h := range r.Headers {
				header[h.Key] = string(h.Value)
			}
			topic := history.DeadLettersTopic(kafkaTopics.FindStringSubmatch(r.Topic)[2])
			if r.Topic == kafkaEvents {
				tenant, _, _ := strings.Cut(string(r.Key), ".")
				topic = history.EventsTopic(tenant)
			}
			t.note(topic, header["messageId"], r.Timestamp, header, r.Value)
			w.noted.Add(1)
		})
	}
}

// follow records which commands the service has committed.
func (w *kafkaWire) follow(ctx context.Context, recorder *history.Recorder) {
	tick := time.NewTicker(kafkaCommits)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.record(ctx, recorder)
	}
}

func (w *kafkaWire) record(ctx context.Context, recorder *history.Recorder) {
	w.mu.Lock()
	defer w.mu.Unlock()
	committed, err := w.committed(ctx)
	if err != nil {
		return // the service has not begun
	}
	now := time.Now()
	for partition, end := range committed {
		for offset := w.seen[partition]; offset < end; offset++ {
			recorder.Accepted(kafkaPlace(partition, offset), now)
		}
		w.seen[partition] = max(w.seen[partition], end)
	}
}

// remade says that the commands topic was made again, where offsets begin at zero.
func (w *kafkaWire) remade() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.seen)
	w.client.PurgeTopicsFromProducing(history.CommandsTopic) // or it stays with the old one
}

// committed returns the offset up to which the service has committed each
// partition of the commands.
func (w *kafkaWire) committed(ctx context.Context) (map[int32]int64, error) {
	offsets, err := w.admin.FetchOffsets(ctx, kafkaGroup)
	if err != nil {
		return nil, fmt.Errorf("ask for the commits: %w", err)
	}
	of := offsets[history.CommandsTopic]
	if len(of) == 0 {
		return nil, errors.New("the group of the service has not committed")
	}
	committed := make(map[int32]int64, len(of))
	for partition, o := range of {
		committed[partition] = o.At
	}
	return committed, nil
}

// pending compares the commits, and the positions of the observer, with the ends of the topics.
func (w *kafkaWire) pending(ctx context.Context, _ *history.Recorder) (open, unseen int, err error) {
	committed, err := w.committed(ctx)
	if err != nil {
		return 0, 0, err
	}
	ends, err := w.admin.ListEndOffsets(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("ask for the ends of the topics: %w", err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		switch {
		case end.Topic == history.CommandsTopic:
			open += int(end.Offset - max(committed[end.Partition], 0))
		case kafkaTopics.MatchString(end.Topic):
			unseen += int(end.Offset)
		}
	})
	return open, unseen - int(w.noted.Load()), nil
}
