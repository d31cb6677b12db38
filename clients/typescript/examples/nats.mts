import { AckPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";

const nc = await connect({ servers: process.env.BROKER ?? "nats://127.0.0.1:4222" });
const js = jetstream(nc);
let last = 0;

async function send(type: string, serviceCallId: string, rest: object) {
  const timestampMs = (last = Math.max(last + 1, Date.now())); // newer than the command before, also within a millisecond
  const payload = { tenantId: "acme", serviceCallId, ...rest };
  const command = { id: crypto.randomUUID(), type, tenantId: "acme", timestampMs, payload };
  await js.publish("timer.commands", JSON.stringify(command)); // until the broker has it
}
const after = (seconds: number) => ({ dueAt: new Date(Date.now() + seconds * 1000).toISOString() });

const order = `order-${crypto.randomUUID()}`;
await send("ScheduleTimer", order, after(1));
await send("ScheduleTimer", `${order}-paid`, after(3600));
await send("CancelTimer", `${order}-paid`, {});

const manager = await jetstreamManager(nc);
await manager.consumers.add("svc", { durable_name: "orders-node", ack_policy: AckPolicy.Explicit, filter_subject: "svc.acme.serviceCall" });
const consumer = await js.consumers.get("svc", "orders-node");
const handled = new Set<string>(); // of ids: keep them where your work is, in its transaction
for await (const message of await consumer.consume()) {
  const event = message.json<{ id: string; type: string; payload: { serviceCallId: string } }>();
  if (event.type === "DueTimeReached" && !handled.has(event.id)) {
    console.log(`${event.payload.serviceCallId} is due`);
    handled.add(event.id);
  }
  message.ack();
}
