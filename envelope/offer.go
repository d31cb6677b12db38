package envelope

// An Offer is a message in flight, offered to whoever can handle it without the
// costs of a message.Message: two channels, a map and a goroutine that waits.
// Whoever takes it owes it one call of Ack or Pass.
type Offer interface {
	Topic() string             // where it came from
	Header(name string) string // the value of a header, or ""
	Body() []byte              // not to be changed, nor kept beyond Ack or Pass
	Deliveries() int           // how often it was delivered, this time included; 1 if the broker does not count

	Ack()  // it is done: tell the broker
	Pass() // it goes on to whoever subscribed, as a message
}
