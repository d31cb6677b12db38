//go:build !temporal

package services

import (
	"context"
	"errors"
)

// Temporal's modules take half a minute to compile, which only those pay who judge it.
var errNoTemporal = errors.New("this program was built without Temporal: build it with -tags temporal")

func openTemporal(context.Context, *world) (service, error) { return nil, errNoTemporal }

func workTemporal(context.Context, string) error { return errNoTemporal }
