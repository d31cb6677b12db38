// Package poison_test attacks the service, as a black box, with what any client may
// send who may publish commands: thousands of broken, misleading and oversized
// messages among good ones, through a real broker.
//
//	attackers ──hostile──► nats-server ◄──commands──┐
//	producer  ──good─────►     │  ◄──events, dead letters── service
//	                           └──► judge: all that the stream holds
//
// What must become of a message is known from how it was made, and never asked
// of the service's own decoder, with one exception: of random mutations.
//
// Not a message: what only the broker can refuse, such as a reply subject that
// another client listens to.
package poison_test

import (
	_ "github.com/event-service-agent/timer-service/service" // what the program is made of
)
