//go:build !linux && !darwin && !freebsd

package trust

// KnowsPeers says whether the system tells who listens on a unix socket.
const KnowsPeers = false

// peerOf returns nothing: the system does not tell.
func peerOf(int) (uid int, err error) { return 0, nil }
