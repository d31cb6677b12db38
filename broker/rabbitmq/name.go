package rabbitmq

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxRole is how much of a role's name is for people.
const maxRole = 40

// ownName names the queue of a role and a topic. It is stable, since the queue
// outlives us.
func ownName(topic, role string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, role)
	if clean == role && role != "" && len(role) <= maxRole {
		return topic + "." + role
	}
	sum := sha256.Sum256([]byte(role)) // else two roles could share a queue
	return topic + "." + clean[:min(len(clean), maxRole)] + "-" + hex.EncodeToString(sum[:4])
}
