package rabbitmq

// Tell has the broker tell of each queue that it makes or finds, so that tests
// can remove it.
func (b *Broker) Tell(made func(queue string)) { b.made = made }

// KillOutlet has the server end the channel that b publishes on, as it does
// after an error.
func KillOutlet(b *Broker) {
	b.outlet.slot <- struct{}{}
	o := b.outlet.now
	<-b.outlet.slot
	if o != nil {
		_ = o.channel.ExchangeDeclarePassive("is not there", "direct", true, false, false, false, nil)
	}
}
