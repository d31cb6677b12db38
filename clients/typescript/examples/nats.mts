import { onDue, TimerClient, topicOf, topics } from "@event-service-agent/timer-client";
import { AckPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, headers } from "@nats-io/transport-node";

const nc = await connect({ servers: process.env.BROKER ?? "nats://127.0.0.1:4222" });
const js = jetstream(nc);
const client = new TimerClient({
  async publish(topic, body, fields) {
    const all = headers();
    for (const [name, value] of Object.entries(fields)) all.set(name, value);
    await js.publish(topic, body, { headers: all, msgID: fields.messageId! }); // until the stream has it
  },
});

const order = `order-${crypto.randomUUID()}`;
await client.schedule("acme", { serviceCallId: order, after: 1000 });
await client.schedule("acme", { serviceCallId: `${order}-paid`, after: 3_600_000 });
await client.cancel("acme", `${order}-paid`);

const manager = await jetstreamManager(nc);
const events = topicOf(topics.nats.events, "acme");
await manager.consumers.add("svc", { durable_name: "orders-node", ack_policy: AckPolicy.Explicit, filter_subject: events });
const consumer = await js.consumers.get("svc", "orders-node");
const handle = onDue((event) => console.log(`${event.payload.serviceCallId} is due`), { invalid: (error) => console.error(error.message) });
for await (const message of await consumer.consume()) {
  try {
    await handle(message.data);
    message.ack();
  } catch (error) {
    console.error(error);
    message.nak(1000); // again in a second
  }
}
