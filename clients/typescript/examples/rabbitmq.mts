import { connect } from "amqplib";

const connection = await connect(process.env.BROKER ?? "amqp://guest:guest@127.0.0.1:5672/");
const channel = await connection.createConfirmChannel();
channel.on("return", () => { throw new Error("there is no queue timer.commands: start the service first"); });
let last = 0;

async function send(type: string, serviceCallId: string, rest: object) {
  const timestampMs = (last = Math.max(last + 1, Date.now())); // newer than the command before, also within a millisecond
  const payload = { tenantId: "acme", serviceCallId, ...rest };
  const command = { id: crypto.randomUUID(), type, tenantId: "acme", timestampMs, payload };
  channel.publish("svc.direct.commands", "timer.commands", Buffer.from(JSON.stringify(command)), { persistent: true, mandatory: true });
  await channel.waitForConfirms(); // until the broker has it
}
const after = (seconds: number) => ({ dueAt: new Date(Date.now() + seconds * 1000).toISOString() });

const order = `order-${crypto.randomUUID()}`;
await send("ScheduleTimer", order, after(1));
await send("ScheduleTimer", `${order}-paid`, after(3600));
await send("CancelTimer", `${order}-paid`, {});

await channel.assertQueue("svc.acme.q", { durable: true });
await channel.bindQueue("svc.acme.q", "svc.direct", "svc.acme.q");
await channel.prefetch(100);
const handled = new Set<string>(); // of ids: keep them where your work is, in its transaction
await channel.consume("svc.acme.q", (message) => {
  if (!message) throw new Error("the queue was deleted");
  const event = JSON.parse(message.content.toString());
  if (event.type === "DueTimeReached" && !handled.has(event.id)) {
    console.log(`${event.payload.serviceCallId} is due`);
    handled.add(event.id);
  }
  channel.ack(message);
});
