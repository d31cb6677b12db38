// Package services gives the same load and the same faults to several timer services, and
// records what their clients see in the format of docs/history.md.
//
// Each service has a file: which processes it has, how a client schedules, moves and cancels,
// and how it receives events. Everything else is the same for all: [Run] sends the load,
// injects the faults of a seed and has both judges judge the history.
package services
