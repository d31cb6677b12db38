import { onDue, TimerClient, topicOf, topics } from "@event-service-agent/timer-client";
import { connect } from "amqplib";

const connection = await connect(process.env.BROKER ?? "amqp://guest:guest@127.0.0.1:5672/");
const channel = await connection.createConfirmChannel();
channel.on("return", () => { throw new Error("there is no queue timer.commands: start the service first"); });
const client = new TimerClient({
  async publish(topic, body, headers) {
    channel.publish("svc.direct.commands", topic, Buffer.from(body), { headers, messageId: headers.messageId, persistent: true, mandatory: true });
    await channel.waitForConfirms(); // until the broker has it
  },
});

const order = `order-${crypto.randomUUID()}`;
await client.schedule("acme", { serviceCallId: order, after: 1000 });
await client.schedule("acme", { serviceCallId: `${order}-paid`, after: 3_600_000 });
await client.cancel("acme", `${order}-paid`);

const events = topicOf(topics.rabbitmq.events, "acme");
await channel.assertQueue(events, { durable: true });
await channel.bindQueue(events, "svc.direct", events);
await channel.prefetch(100);
const handle = onDue((event) => console.log(`${event.payload.serviceCallId} is due`), { invalid: (error) => console.error(error.message) });
await channel.consume(events, async (message) => {
  if (!message) throw new Error("the queue was deleted");
  try {
    await handle(message.content);
    channel.ack(message);
  } catch (error) {
    console.error(error);
    setTimeout(() => channel.nack(message), 1000); // again in a second
  }
});
