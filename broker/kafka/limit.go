package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A disk is one that a server keeps messages on.
type disk struct{ used, size int64 } // bytes

func (d disk) ratio() float64 { return float64(d.used) / float64(max(d.size, 1)) }

// findDisk notes the fullest disk of the servers. Servers before Kafka 3.3 do not say it,
// nor does any to a user who may not describe the cluster.
func (b *Broker) findDisk(ctx context.Context, client *kgo.Client) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var some kadm.TopicsSet // without any, the answer has all partitions that there are
	some.Add(b.ownerTopic(), 0)
	found, _ := kadm.NewClient(client).DescribeAllLogDirs(ctx, some) // a server that does not answer is missing
	var fullest disk
	found.Each(func(dir kadm.DescribedLogDir) {
		if d := (disk{dir.TotalBytes - dir.UsableBytes, dir.TotalBytes}); d.ratio() > fullest.ratio() {
			fullest = d
		}
	})
	b.fullest.Store(&fullest)
}
