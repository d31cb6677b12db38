//go:build !linux && !darwin && !freebsd

package service

import "github.com/event-service-agent/timer-service/app"

// disk checks nothing on this system.
func (x *examination) disk() []app.Check { return nil }
