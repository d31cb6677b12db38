package nats

import (
	"fmt"
	"strings"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// maxSubject is the length in bytes of the longest subject that is published to. A
// protocol line over 4 KiB makes the server close the connection, for good.
const maxSubject = 1024

// checkSubject returns a [broker.ErrRefused] unless a message may be published
// to the subject.
func checkSubject(subject string) error {
	return checkTokens(subject, func(token string) bool { return !strings.ContainsAny(token, "*>") })
}

// checkFilter returns a [broker.ErrRefused] unless the subject, which may hold
// wildcards, may be subscribed to.
func checkFilter(subject string) error {
	return checkTokens(strings.TrimSuffix(subject, ".>"), func(token string) bool {
		return token == "*" || !strings.ContainsAny(token, "*>")
	})
}

func checkTokens(subject string, valid func(token string) bool) error {
	refuse := func(why string) error {
		return fmt.Errorf("%w: subject %s %s", broker.ErrRefused, timer.Quote(subject), why)
	}
	switch {
	case subject == "":
		return refuse("is empty")
	case len(subject) > maxSubject:
		return refuse(fmt.Sprintf("is longer than %d bytes", maxSubject))
	case strings.HasPrefix(subject, "$"), strings.HasPrefix(subject, "_INBOX."), strings.HasPrefix(subject, "_INBOX_"):
		return refuse("belongs to the server")
	}
	for i := range len(subject) {
		if subject[i] <= ' ' || subject[i] > '~' {
			return refuse("has a character that is not visible ASCII")
		}
	}
	for token := range strings.SplitSeq(subject, ".") {
		if token == "" {
			return refuse("has an empty token")
		}
		if !valid(token) {
			return refuse("has a wildcard")
		}
	}
	return nil
}
