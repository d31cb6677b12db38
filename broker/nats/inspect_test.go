package nats

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestStreamThatLostAllHasNothingOlderThanNow(t *testing.T) {
	t.Parallel()
	created := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
	first, now := created.Add(time.Hour), created.Add(24*time.Hour)
	for name, test := range map[string]struct {
		state jetstream.StreamState
		want  time.Time
	}{
		"never used":           {jetstream.StreamState{}, created},
		"with messages":        {jetstream.StreamState{Msgs: 2, FirstTime: first, LastSeq: 9}, first},
		"all messages expired": {jetstream.StreamState{LastSeq: 9}, now},
	} {
		if got := oldest(jetstream.StreamInfo{Created: created, State: test.state}, now); !got.Equal(test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
