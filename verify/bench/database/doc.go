// Package database makes databases for one measurement each. It fills them with
// timers faster than the service could, and reports the CPU time of their server.
package database
