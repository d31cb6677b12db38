package kafka

import (
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/event-service-agent/timer-service/timer"
)

// A log of a [timer.Number] is a partition. The number of a record is its offset + 1, so that
// 0 stands for no record. So the number is N if everything below the offset N is handled, which
// is the offset that Kafka commits, and a reader goes on behind the number N at the offset N.
//
// logName returns the name of a partition's log. The id of the topic distinguishes it
// from a topic of the same name that was deleted or made again.
func logName(p partition, id kadm.TopicID) string {
	return p.topic + "/" + strconv.Itoa(int(p.number)) + "@" + id.String()
}

// name notes the name of a log.
func (b *Broker) name(log string) {
	of, _, _ := strings.Cut(log, "@")
	b.named.Store(of, log)
}

// Place returns the log and the number of a record of the commands. It knows the partitions
// that [Broker.Logs] has found, and those of which a subscription has received a record.
func (b *Broker) Place(topic, position string) (log string, number int64, ok bool) {
	part, at, _ := strings.Cut(position, "/")
	named, _ := b.named.Load(topic + "/" + part)
	if log, ok = named.(string); !ok {
		return "", 0, false
	}
	offset, err := strconv.ParseInt(at, 10, 64)
	return log, offset + 1, err == nil
}

// Keep does nothing: the driver removes no message to make room.
func (b *Broker) Keep([]timer.Number) {}
