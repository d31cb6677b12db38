package envelope

// Metadata that a subscriber adds to every message it delivers. They are not
// headers of the message and are never published.
const (
	MetaTopic    = "broker_topic"    // topic the message was published to, such as a NATS subject
	MetaPosition = "broker_position" // where it stands there, such as a stream sequence; unique within the topic's log
	MetaDelivery = "broker_delivery" // how often it has been delivered, from "1"; absent if the broker does not count
)
