//go:build !(linux || darwin || freebsd)

package sqlite

// space is not known on this system.
func space(string) error { return nil }

// DiskUsed returns 0: it is not known on this system.
func DiskUsed(string) float64 { return 0 }
