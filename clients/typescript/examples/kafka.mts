import { Consumer, MessagesStreamModes, ProduceAcks, Producer, stringDeserializers, stringSerializers } from "@platformatic/kafka";

const servers = { bootstrapBrokers: (process.env.BROKER ?? "127.0.0.1:9092").split(",") };
const producer = new Producer({ ...servers, clientId: "orders", serializers: stringSerializers });
let last = 0;

async function send(type: string, serviceCallId: string, rest: object) {
  const timestampMs = (last = Math.max(last + 1, Date.now())); // newer than the command before, also within a millisecond
  const payload = { tenantId: "acme", serviceCallId, ...rest };
  const value = JSON.stringify({ id: crypto.randomUUID(), type, tenantId: "acme", timestampMs, payload });
  await producer.send({ messages: [{ topic: "timer.commands", key: `acme.${serviceCallId}`, value }], acks: ProduceAcks.ALL }); // until the broker has it
}
const after = (seconds: number) => ({ dueAt: new Date(Date.now() + seconds * 1000).toISOString() });

const order = `order-${crypto.randomUUID()}`;
await send("ScheduleTimer", order, after(1));
await send("ScheduleTimer", `${order}-paid`, after(3600));
await send("CancelTimer", `${order}-paid`, {});

const consumer = new Consumer({ ...servers, clientId: "orders", groupId: "orders-node", deserializers: stringDeserializers });
const events = await consumer.consume({ topics: ["service.events"], mode: MessagesStreamModes.COMMITTED, fallbackMode: "earliest", autocommit: false });
const handled = new Set<string>(); // of ids: keep them where your work is, in its transaction
for await (const message of events) {
  const event = JSON.parse(message.value);
  if (event.type === "DueTimeReached" && event.tenantId === "acme" && !handled.has(event.id)) {
    console.log(`${event.payload.serviceCallId} is due`);
    handled.add(event.id);
  }
  await message.commit();
}
