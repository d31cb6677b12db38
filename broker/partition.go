package broker

// A PartitionError is the result of a message in a topic whose partitions fail
// separately, as Kafka's do, if the publisher knows the partition. Messages of different
// partitions are then retried separately.
type PartitionError struct {
	Partition string // the broker's name of it
	Err       error
}

// Error returns the text of the wrapped error.
func (e PartitionError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e PartitionError) Unwrap() error { return e.Err }
