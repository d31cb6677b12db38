package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
)

// errUnfit says that the settings of an existing topic could lose messages.
var errUnfit = errors.New("unfit")

// fetchNamesTopics is the first version of a fetch request that names the ids of topics.
const fetchNamesTopics = 13

// tooOld returns an errUnfit if a server is older than Kafka 3.1. Such a server does not
// name the id of a message's topic, so that a topic that was deleted and made again would
// be taken for the old one.
func tooOld(ctx context.Context, client *kgo.Client) (unfit, err error) {
	versions, err := apiVersions(ctx, client)
	if err != nil {
		return nil, err
	}
	for _, k := range versions.ApiKeys {
		if k.ApiKey == int16(kmsg.Fetch) && k.MaxVersion < fetchNamesTopics {
			return fmt.Errorf("%w: the server is older than Kafka 3.1", errUnfit), nil
		}
	}
	return nil, nil
}

// apiVersions returns the requests that a server supports.
func apiVersions(ctx context.Context, client *kgo.Client) (*kmsg.ApiVersionsResponse, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = clientID, "1"
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("ask for the version of the server: %w", err)
	}
	return resp, nil
}

// Settings of topics.
const (
	settingCleanup        = "cleanup.policy"
	settingRetentionTime  = "retention.ms"
	settingRetentionBytes = "retention.bytes"
	settingTimestamp      = "message.timestamp.type"
	settingTimestampLimit = "message.timestamp.before.max.ms"
	settingTimestampOld   = "message.timestamp.difference.max.ms" // name of the limit before Kafka 3.6
	settingUnclean        = "unclean.leader.election.enable"
	settingInSync         = "min.insync.replicas"
	settingMaxBytes       = "max.message.bytes"
)

const (
	minRetention = 24 * time.Hour        // of commands and events; a service may be down for that time
	minMaxBytes  = 2 * envelope.MaxBytes // bytes of a batch with the largest message and its headers
)

// verify returns an error that names the setting if a topic could lose messages silently.
// An absent setting has its default.
func verify(k broker.Kind, replicas int, settings map[string]string) error {
	number := func(name string, fallback int64) int64 {
		n, err := strconv.ParseInt(settings[name], 10, 64)
		if err != nil {
			return fallback
		}
		return n
	}
	policy, inSync := settings[settingCleanup], number(settingInSync, 1)
	age, bytes, largest := number(settingRetentionTime, -1), number(settingRetentionBytes, -1), number(settingMaxBytes, minMaxBytes)
	stamped := k == broker.Commands && age >= 0 && settings[settingTimestamp] == "CreateTime"
	letters := k == broker.DeadLetter
	for _, check := range []struct {
		bad     bool
		setting string
		text    string
	}{
		{settings[settingUnclean] == "true", settingUnclean, "a replica that lacks messages may become the leader, and they are lost; set it to false"},
		{replicas > 0 && inSync > int64(replicas), settingInSync, fmt.Sprintf("but there are %d replicas: nothing can ever be published; set it lower", replicas)},
		{letters && policy != "" && policy != "compact", settingCleanup, "dead letters would be deleted before an operator has read them; set it to compact"},
		{!letters && policy != "" && policy != "delete", settingCleanup, fmt.Sprintf("of the %s of a timer only the last would be kept; set it to delete", k)},
		{!letters && bytes >= 0, settingRetentionBytes, fmt.Sprintf("%s would be deleted when there are many, handled or not; set it to -1", k)},
		{!letters && age >= 0 && age < minRetention.Milliseconds(), settingRetentionTime, fmt.Sprintf("%s would be deleted before a service that was down is back; set it to %d or more", k, minRetention.Milliseconds())},
		{!letters && largest < minMaxBytes, settingMaxBytes, fmt.Sprintf("%s of the largest size would be refused; set it to %d or more", k, minMaxBytes)},
		{stamped && min(number(settingTimestampLimit, age), number(settingTimestampOld, age)) > age/2, settingTimestamp, fmt.Sprintf("commands with an old timestamp, such as mirrored ones, would be deleted at once; "+
			"set it to LogAppendTime, or %s to %d or less", settingTimestampLimit, age/2)},
	} {
		if check.bad {
			return fmt.Errorf("%s=%s: %s", check.setting, settings[check.setting], check.text)
		}
	}
	return nil
}
