package kafka_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/internal/logbuf"
)

func TestSettingThatIsChangedWhileItRunsIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
		b, stop := start(t, opt)
		defer stop()
		cl := client(t, c)
		set := func(bytes string) {
			change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.bytes", Value: &bytes}}
			if _, err := kadm.NewClient(cl).AlterTopicConfigs(t.Context(), change, "timer.commands"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
		}
		set("1000")
		if err := b.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "timer.commands: retention.bytes=1000") {
			t.Errorf("Ready: %v, want topic and setting", err)
		}
		set("-1")
		if err := b.Ready(t.Context()); err != nil {
			t.Errorf("Ready: %v after the setting was taken back", err)
		}
	})
}

func TestLogsSayHowFullTheFullestDiskIs(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
		c.ControlKey(int16(kmsg.DescribeLogDirs), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			resp := r.ResponseKind().(*kmsg.DescribeLogDirsResponse)
			for dir, d := range map[string]struct{ total, usable int64 }{"/a": {1000, 900}, "/b": {200, 30}, "/c": {-1, -1}} {
				resp.Dirs = append(resp.Dirs, kmsg.DescribeLogDirsResponseDir{Dir: dir, TotalBytes: d.total, UsableBytes: d.usable})
			}
			return resp, nil, true
		})
		b, stop := start(t, opt)
		defer stop()
		time.Sleep(2 * time.Minute)
		logs, err := b.Logs(t.Context(), "timer-service")
		if err != nil || len(logs) == 0 {
			t.Fatalf("logs: %v, %v", logs, err)
		}
		for _, l := range logs {
			if l.Bytes != 170 || l.MaxBytes != 200 {
				t.Errorf("%s has %d of %d bytes, want those of the fullest disk: 170 of 200", l.Name, l.Bytes, l.MaxBytes)
			}
		}
	})
}

// TestServerThatPausesIsNotAway has a server answer nothing for five seconds.
func TestServerThatPausesIsNotAway(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
		log := new(logbuf.Buffer)
		b := kafka.New(opt, slog.New(slog.NewTextHandler(log, nil)))
		stop := brokertest.Start(t, b)
		defer stop()
		brokertest.AwaitReady(t, b)
		paused := false
		c.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.DropControl()
			paused = true
			time.Sleep(5 * time.Second)
			return nil, nil, false
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		publish(t, b, "timer.commands", "after")
		if strings.Contains(log.String(), "not connected") || !paused {
			t.Errorf("paused %v, and taken for an outage:\n%s", paused, log)
		}
	})
}
