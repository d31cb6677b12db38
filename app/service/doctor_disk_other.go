//go:build !linux && !darwin && !freebsd

package service

// disk is not checked on this system.
func (x *examination) disk() []Finding { return nil }
