package rabbitmq

import "context"

// Tell has the broker tell of each queue that it makes or finds, so that tests
// can remove it.
func (b *Broker) Tell(made func(queue string)) { b.made = made }

// KillOutlet has the server end the channel that b publishes on, as it does
// after an error.
func KillOutlet(b *Broker) {
	if o := b.outlet.now.Load(); o != nil {
		_ = o.channel.ExchangeDeclarePassive("is not there", "direct", true, false, false, false, nil)
	}
}

// OpenOutlet opens a channel to publish on, as Publish does.
func OpenOutlet(ctx context.Context, b *Broker) error {
	_, err := b.openOutlet(ctx)
	return err
}

// Answered waits until the server has answered what it was asked, also what
// nobody waits for.
func Answered(b *Broker) { b.asks.Wait() }
