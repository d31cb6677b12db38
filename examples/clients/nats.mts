import { AckPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";

const nc = await connect({ servers: process.env.BROKER ?? "nats://127.0.0.1:4222" });
const now = Date.now(), call = `order-${now}`;
let last = 0; // each command is newer than the one before, also within a millisecond
const stamp = () => (last = Math.max(last + 1, Date.now()));

const payload = { tenantId: "acme", serviceCallId: call, dueAt: new Date(now + 1000).toISOString() };
const command = { id: crypto.randomUUID(), type: "ScheduleTimer", tenantId: "acme", timestampMs: stamp(), payload };
await jetstream(nc).publish("timer.commands", JSON.stringify(command)); // until the broker has it

const manager = await jetstreamManager(nc);
await manager.consumers.add("svc", { durable_name: "orders", ack_policy: AckPolicy.Explicit, filter_subject: "svc.acme.serviceCall" });
const consumer = await jetstream(nc).consumers.get("svc", "orders");
for await (const message of await consumer.consume()) {
  const event = message.json<{ type: string; payload: typeof payload }>();
  if (event.type === "DueTimeReached") console.log(`${event.payload.serviceCallId} is due`);
  message.ack();
  if (event.payload?.serviceCallId === call) break; // else it goes on for ever
}
await nc.drain();
