package broker

// These are the topics of the service on each broker, unless its configuration names
// others. A program that only schedules timers gets them here without importing a driver.

// NATSRouting returns the topics of NATS. The commands of all tenants share one topic;
// the other topics are per tenant.
func NATSRouting() Routing {
	return Routing{
		Commands:    "timer.commands",
		Events:      "svc.{tenant}.serviceCall",
		DeadLetters: "svc.{tenant}.dlq",
		Wildcard:    "*",
	}
}

// KafkaRouting returns the topics of Kafka.
func KafkaRouting() Routing {
	return Routing{
		Commands:    "timer.commands",
		Events:      "service.events",
		DeadLetters: "service.events.{tenant}.dlq",
		Wildcard:    "*",
	}
}

// RabbitMQRouting returns the queues of RabbitMQ.
func RabbitMQRouting() Routing {
	return Routing{
		Commands:    "timer.commands",
		Events:      "svc.{tenant}.q",
		DeadLetters: "svc.{tenant}.dlq",
	}
}

// PlainRouting returns one topic each for commands, events and dead letters. It is for
// brokers within a process, and for any pair of a Watermill publisher and subscriber.
func PlainRouting() Routing {
	return Routing{
		Commands:    "timer.commands",
		Events:      "service.events",
		DeadLetters: "service.events.dlq",
	}
}
