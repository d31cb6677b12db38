package rabbitmq

// OnQueue makes the broker call f with each queue that it declares, after the functions of
// earlier calls of OnQueue.
func (b *Broker) OnQueue(f func(queue string)) {
	before := b.onDeclare
	b.onDeclare = func(queue string) {
		before(queue)
		f(queue)
	}
}

// Answered waits until the server has answered all requests, also those for which no caller
// waits.
func Answered(b *Broker) { b.requests.Wait() }

// Awaited returns of how many queues the broker awaits confirms.
func Awaited(b *Broker) int {
	c := b.channel.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queues)
}
