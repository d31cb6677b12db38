package kafka

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
)

// TestSettingsThatCouldLoseMessagesAreRefused lists settings that are refused, with an error
// that names the setting.
func TestSettingsThatCouldLoseMessagesAreRefused(t *testing.T) {
	t.Parallel()
	const day, week = "86400000", "604800000"
	for _, test := range []struct {
		kind     broker.Kind
		settings map[string]string
		refused  string // the setting, or empty
	}{
		{broker.Commands, nil, ""},
		{broker.Commands, map[string]string{"cleanup.policy": "delete", "retention.ms": week, "retention.bytes": "-1", "message.timestamp.type": "LogAppendTime"}, ""},
		{broker.Commands, map[string]string{"cleanup.policy": "compact"}, "cleanup.policy"},
		{broker.Events, map[string]string{"cleanup.policy": "compact,delete"}, "cleanup.policy"},
		{broker.DeadLetter, map[string]string{"cleanup.policy": "compact"}, ""},
		{broker.DeadLetter, map[string]string{"cleanup.policy": "delete"}, "cleanup.policy"},
		{broker.Events, map[string]string{"retention.ms": day}, ""},
		{broker.Events, map[string]string{"retention.ms": "86399999"}, "retention.ms"},
		{broker.Events, map[string]string{"retention.ms": "0"}, "retention.ms"},
		{broker.Events, map[string]string{"retention.ms": "-1"}, ""},
		{broker.Commands, map[string]string{"retention.bytes": "1000000000"}, "retention.bytes"},
		{broker.Commands, map[string]string{"unclean.leader.election.enable": "true"}, "unclean.leader.election.enable"},
		{broker.DeadLetter, map[string]string{"unclean.leader.election.enable": "true"}, "unclean.leader.election.enable"},
		{broker.Commands, map[string]string{"min.insync.replicas": "3"}, ""},
		{broker.Commands, map[string]string{"min.insync.replicas": "4"}, "min.insync.replicas"},
		{broker.Events, map[string]string{"max.message.bytes": "131072"}, ""},
		{broker.Events, map[string]string{"max.message.bytes": "131071"}, "max.message.bytes"},
		{broker.Commands, map[string]string{"message.timestamp.type": "CreateTime", "retention.ms": week}, "message.timestamp.type"},
		{broker.Commands, map[string]string{"message.timestamp.type": "CreateTime", "retention.ms": "-1"}, ""},
		{broker.Events, map[string]string{"message.timestamp.type": "CreateTime", "retention.ms": week}, ""},
		{broker.Commands, map[string]string{"message.timestamp.type": "CreateTime", "retention.ms": week, "message.timestamp.before.max.ms": day}, ""},
		{broker.Commands, map[string]string{"message.timestamp.type": "CreateTime", "retention.ms": week, "message.timestamp.before.max.ms": "9223372036854775807"}, "message.timestamp.type"},
		{broker.Commands, map[string]string{"message.timestamp.type": "CreateTime", "retention.ms": week, "message.timestamp.difference.max.ms": day}, ""},
	} {
		err := verify(test.kind, 3, test.settings)
		if (err != nil) != (test.refused != "") || err != nil && !strings.HasPrefix(err.Error(), test.refused+"=") {
			t.Errorf("%s %v: %v, want a complaint about %q", test.kind, test.settings, err, test.refused)
		}
	}
}

func TestNamesOfTopics(t *testing.T) {
	t.Parallel()
	for topic, ok := range map[string]bool{
		"timer.commands": true, "a": true, "A-b_c.9": true, strings.Repeat("a", 249): true, "service.events._.dlq": true,
		"": false, ".": false, "..": false, "a.": false, ".a": false, "a..b": false, "a b": false, "é": false, "a/b": false, "a*": false,
		strings.Repeat("a", 250): false, "a\x00": false, "\xff": false,
	} {
		if err := checkTopic(topic); (err == nil) != ok || err != nil && !errors.Is(err, broker.ErrRefused) {
			t.Errorf("%.20q: %v, want ok=%v", topic, err, ok)
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		urls string
		want address
	}{
		{"a:1", address{seeds: []string{"a:1"}}},
		{"a", address{seeds: []string{"a:9092"}}},
		{"kafka://a, b:2 ,kafka://[::1]:3/", address{seeds: []string{"a:9092", "b:2", "[::1]:3"}}},
		{"kafka+ssl://a,kafka+ssl://b:2", address{seeds: []string{"a:9092", "b:2"}, tls: true}},
		{"kafka://u:p%40@a", address{seeds: []string{"a:9092"}, username: "u", password: "p@"}},
	} {
		got, err := parse(test.urls)
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(address{})); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.urls, err, diff)
		}
	}
	for _, urls := range []string{"", ",", "nats://u:hunter2@a", "kafka://", "kafka://u:hunter2@a/topic", "kafka://u:hunter2@a?x=1", "kafka://a,kafka+ssl://b", "kafka://u:hunter2%zz@a", "u:hunter2@a:b:c"} {
		if _, err := parse(urls); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want an error without the password", urls, err)
		}
	}
}

func TestPartitionThatLostAllHasNothingOlderThanNow(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
	first := now.Add(-time.Hour)
	for name, test := range map[string]struct {
		logs []broker.Log
		want time.Time
	}{
		"never used":                  {[]broker.Log{{}}, time.Time{}},
		"with records":                {[]broker.Log{{Oldest: first, Last: 3}}, first},
		"all records expired":         {[]broker.Log{{Last: 9}}, now},
		"one of them lost more":       {[]broker.Log{{Oldest: first, Last: 3}, {Oldest: first.Add(time.Minute), Last: 9}, {}}, first.Add(time.Minute)},
		"one of them lost everything": {[]broker.Log{{Last: 9}, {Oldest: first, Last: 3}}, now},
	} {
		if got := oldest(test.logs, now); !got.Equal(test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
