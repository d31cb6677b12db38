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

// matches reports whether a topic matches a filter, a topic that may hold the wildcard.
func matches(filter, topic string) bool {
	before, after, wild := strings.Cut(filter, anyTenant)
	if !wild {
		return topic == filter
	}
	return len(topic) > len(before)+len(after) && strings.HasPrefix(topic, before) && strings.HasSuffix(topic, after) &&
		!strings.Contains(topic[len(before):len(topic)-len(after)], ".")
}

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
