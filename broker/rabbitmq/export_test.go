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

// Remembered returns how many queues the broker remembers since it publishes to them: queues that
// it has declared, and queues whose confirms it waits for.
func Remembered(b *Broker) (declared, awaited int) {
	b.declaredTopics.Range(func(any, any) bool {
		declared++
		return true
	})
	c := b.channel.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	return declared, len(c.queues)
}

// Declared has the broker remember a queue.
func (b *Broker) Declared(topic string) { b.declared(topic) }

// MaxDeclared is the most queues that it remembers.
const MaxDeclared = maxDeclared
