package kafka

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/event-service-agent/timer-service/broker"
)

// anyTenant stands for any tenant in a topic that is subscribed to. It is never part of a
// topic's name.
const anyTenant = "*"

// tenantPattern returns a pattern for the topics that a topic with a wildcard matches. It
// returns false if the topic has no wildcard.
func tenantPattern(topic string) (string, bool) {
	before, after, found := strings.Cut(topic, anyTenant)
	return "^" + regexp.QuoteMeta(before) + "[A-Za-z0-9_-]+" + regexp.QuoteMeta(after) + "$", found
}

// checkFilter returns a [broker.ErrRefused] unless the topic can be subscribed
// to.
func checkFilter(topic string) error {
	if strings.Count(topic, anyTenant) > 1 {
		return fmt.Errorf("%w: topic %.60q has more than one wildcard", broker.ErrRefused, topic)
	}
	return checkTopic(strings.Replace(topic, anyTenant, "x", 1))
}
