package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// Nodes returns the instances that hold a shard of the outbox. An instance describes itself
// in the application name of the transaction that holds its lease. The server forgets that
// name with the lease: nothing is written, and an instance that ends is gone from the list
// within seconds. The name has at most 63 bytes, so a version is cut to 16, and the rest is
// for the host. Of an instance with a role that ours may not see, or of a version without
// such a name, only the ID is known, and its start if it can be seen.
func (s *Store) Nodes(ctx context.Context) (nodes []timer.Node, err error) {
	err = s.rows(ctx, "list instances", sqlNodes, nil, func(row store.Scanner) error {
		var shard int64
		var name string
		var began, seen time.Time
		if err := row.Scan(&shard, &name, (*store.Time)(&began), (*store.Time)(&seen)); err != nil {
			return err
		}
		node, named := parseNode(name)
		if !named {
			node = timer.Node{ID: fmt.Sprint("shard-", shard), Started: began}
		}
		node.Seen, node.Self = seen, node.ID == s.node.ID
		nodes = append(nodes, node)
		return nil
	})
	slices.SortFunc(nodes, func(a, b timer.Node) int {
		return cmp.Or(a.Started.Compare(b.Started), strings.Compare(a.ID, b.ID))
	})
	return nodes, err
}

const (
	nodePrefix = "timer"
	maxName    = 63 // bytes of an application's name, NAMEDATALEN - 1
	maxVersion = 16
)

// nodeName returns the application name that describes an instance.
func nodeName(n timer.Node) string {
	version := n.Version[:min(len(n.Version), maxVersion)]
	name := strings.Join([]string{nodePrefix, word(n.ID), strconv.Itoa(n.PID), strconv.FormatInt(n.Started.Unix(), 36), word(version), word(n.Host)}, " ")
	return name[:min(len(name), maxName)]
}

// word returns s without all characters that are not visible ASCII, or "-" if none is left.
func word(s string) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	return cmp.Or(s, "-")
}

// parseNode returns the instance that an application name describes.
func parseNode(name string) (n timer.Node, ok bool) {
	var prefix, began string
	if _, err := fmt.Sscan(name, &prefix, &n.ID, &n.PID, &began, &n.Version, &n.Host); err != nil || prefix != nodePrefix || strings.Count(name, " ") != 5 {
		return n, false
	}
	started, err := strconv.ParseInt(began, 36, 64)
	n.Started = time.Unix(started, 0).UTC()
	if n.Version == "-" {
		n.Version = ""
	}
	if n.Host == "-" {
		n.Host = ""
	}
	return n, err == nil
}
