package service

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// A quotas applies the limits of a file, if there is one.
type quotas struct {
	watchedFile
	limiter *quota.Limiter // nil if there are no quotas
	summary string         // of the file at the start, for people

	instances func() int       // how many instances share the database
	now       func() time.Time // by the clock of a test, if there is one
}

// loadQuotas returns the quotas of the configuration. The error has all mistakes of the file.
func loadQuotas(cfg config.Config, counters *app.Counters, log *slog.Logger) (*quotas, error) {
	if cfg.QuotasFile == "" {
		return new(quotas), nil
	}
	q := &quotas{instances: func() int { return 1 }, now: time.Now, watchedFile: watchedFile{file: cfg.QuotasFile, log: log, is: "new quotas are in force", wrong: "the quotas file is wrong, the old quotas stay in force"}}
	q.load = func() (string, error) {
		limits, err := config.LoadQuotas(q.file)
		if err == nil {
			err = q.limiter.Use(limits)
		}
		if q.summary != "" { // at the start there is no summary yet
			counters.QuotasChanged(err)
		}
		return describe(limits), err
	}
	limiter, err := quota.New(quota.Config{}, timer.ClockFunc(func() time.Time { return q.now() }), quota.Options{Instances: func() int { return q.instances() }})
	if err != nil {
		return nil, err
	}
	q.limiter = limiter
	q.summary, err = q.first()
	return q, err
}

// describe summarizes the limits in a line.
func describe(limits quota.Config) string {
	return fmt.Sprintf("default %s; tenants with limits of their own: %d", config.FormatLimits(limits.Default), len(limits.Tenants))
}
