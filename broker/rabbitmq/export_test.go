package rabbitmq

// OnQueue makes the broker call f with each queue that it declares, after the functions of
// earlier calls of OnQueue.
func (b *Broker) OnQueue(f func(queue string)) {
	before := b.onDeclare
	b.onDeclare = func(queue string) {
		if before != nil {
			before(queue)
		}
		f(queue)
	}
}

// Answered waits until the server has answered all requests, also those for which no caller
// waits.
func Answered(b *Broker) { b.requests.Wait() }
