package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// diskTimeout is the longest wait for an answer about disks.
const diskTimeout = 3 * time.Second

// A disk is a disk of a server with messages.
type disk struct{ used, size int64 } // bytes

func (d disk) ratio() float64 { return float64(d.used) / float64(max(d.size, 1)) }

// fullestDisk returns the fullest disk of the servers, or none if it is not known.
// Servers before Kafka 3.3 do not report disks, and no server does to a user who may not
// describe the cluster. It is not asked often, since each server has to add up its files.
func (b *Broker) fullestDisk(ctx context.Context, client *kgo.Client) (fullest disk) {
	ctx, cancel := context.WithTimeout(ctx, diskTimeout)
	defer cancel()
	var some kadm.TopicsSet // an empty set would ask for all partitions
	some.Add(b.ownerTopic(), 0)
	found, _ := kadm.NewClient(client).DescribeAllLogDirs(ctx, some) // servers that do not answer are left out
	found.Each(func(dir kadm.DescribedLogDir) {
		if d := (disk{dir.TotalBytes - dir.UsableBytes, dir.TotalBytes}); d.ratio() > fullest.ratio() {
			fullest = d
		}
	})
	return fullest
}
