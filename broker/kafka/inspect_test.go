package kafka

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

func TestPartitionThatLostAllHasNothingOlderThanNow(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
	first := now.Add(-time.Hour)
	for name, test := range map[string]struct {
		first kadm.ListedOffset
		want  time.Time
	}{
		"never used":          {kadm.ListedOffset{Timestamp: -1}, time.Time{}},
		"with records":        {kadm.ListedOffset{Timestamp: first.UnixMilli(), Offset: 3}, first},
		"all records expired": {kadm.ListedOffset{Timestamp: -1, Offset: 9}, now},
		"unknown":             {kadm.ListedOffset{Timestamp: -1, Offset: 9, Err: errors.New("no leader")}, time.Time{}},
	} {
		if got := firstAt(test.first, now); !got.Equal(test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
