import { onDue, TimerClient, topics } from "@event-service-agent/timer-client";
import { Consumer, MessagesStreamModes, ProduceAcks, Producer, stringDeserializers, stringSerializers } from "@platformatic/kafka";

const servers = { bootstrapBrokers: (process.env.BROKER ?? "127.0.0.1:9092").split(",") };
const producer = new Producer({ ...servers, clientId: "orders", serializers: stringSerializers });
const client = new TimerClient({
  publish: (topic, value, headers, key) => producer.send({ messages: [{ topic, key, value, headers }], acks: ProduceAcks.ALL }), // until the broker has it
});

const order = `order-${crypto.randomUUID()}`;
await client.schedule("acme", { serviceCallId: order, after: 1000 });
await client.schedule("acme", { serviceCallId: `${order}-paid`, after: 3_600_000 });
await client.cancel("acme", `${order}-paid`);

const consumer = new Consumer({ ...servers, clientId: "orders", groupId: "orders-node", deserializers: stringDeserializers });
const events = await consumer.consume({ topics: [topics.kafka.events], mode: MessagesStreamModes.COMMITTED, fallbackMode: "earliest", autocommit: false });
const handle = onDue((event) => {
  if (event.tenantId === "acme") console.log(`${event.payload.serviceCallId} is due`);
}, { invalid: (error) => console.error(error.message) });
for await (const message of events) {
  await handle(message.value); // an error ends the program, and the next one begins at this message
  await message.commit();
}
