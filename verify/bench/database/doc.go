// Package database makes databases for one measurement each: it fills them with
// timers faster than the service could, and reports what is in them and what they
// cost.
package database
