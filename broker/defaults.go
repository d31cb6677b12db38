package broker

// The topics of the service on each broker, unless its configuration names others. A
// program that only schedules timers finds them here without the driver.

// NATSRouting returns the topics of NATS: commands of all tenants in one, the others
// by tenant.
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

// PlainRouting returns one topic for commands, events and dead letters each: those in
// a process, and of any pair of a Watermill publisher and subscriber.
func PlainRouting() Routing {
	return Routing{
		Commands:    "timer.commands",
		Events:      "service.events",
		DeadLetters: "service.events.dlq",
	}
}
