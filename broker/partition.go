package broker

// A PartitionError is the result of a message whose topic has parts that fail by
// themselves, as Kafka's partitions do, if the publisher knows which part it was.
// Messages that are retried are then retried apart from those of other parts.
type PartitionError struct {
	Partition string // as the broker names it
	Err       error
}

// Error is the text of what is wrapped.
func (e PartitionError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrapped.
func (e PartitionError) Unwrap() error { return e.Err }
