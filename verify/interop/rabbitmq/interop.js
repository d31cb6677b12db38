// Talks to a running timer-service over RabbitMQ as a team would that does not
// use Go: bare JSON in, JSON out, nothing of ours imported.
//
//     node interop.js [amqp://guest:guest@127.0.0.1:5672/ [commands events letters]]
//
// Commands, events and letters are names of queues, in which {tenant} stands for
// the tenant. Exits with 0 if everything that docs/messages.md says held, else
// with 1.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import amqp from "amqplib";

const [url = "amqp://guest:guest@127.0.0.1:5672/", commands = "timer.commands", events = "svc.{tenant}.q", letters = "svc.{tenant}.dlq"] =
  process.argv.slice(2);
const tenant = "acme";
const of = (template, owner) => template.replace("{tenant}", owner);

const late = setTimeout(() => {
  console.error("nothing came for too long");
  process.exit(1);
}, 30_000);
const connection = await amqp.connect(url);
const channel = await connection.createConfirmChannel();
try {
  await timersFire();
  await invalidBecomesDeadLetters();
  console.log("ok");
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  clearTimeout(late);
  await connection.close();
}

// A timer fires once and on time; one that was canceled does not; of the headers
// of a command only the trace crosses over.
async function timersFire() {
  const now = Date.now();
  const run = randomUUID().slice(0, 8);
  const plain = schedule(`plain:1.x-${run}`, now + 1_500);
  const traced = schedule(`traced-${run}`, now + 1_200, { correlationId: "req-7f3a" });
  const canceled = schedule(`canceled-${run}`, now + 1_000);
  const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

  await publish(plain);
  await publish(plain); // the same command again changes nothing
  await publish(traced, {
    headers: { traceparent: parent, tracestate: "vendor=1", "X-Team": "checkout", "x-list": ["a", 1], flag: true, nothing: null, CC: [`${commands}.elsewhere`] },
  });
  await publish(canceled);
  await publish(envelope("CancelTimer", canceled.payload.serviceCallId, {}, { timestampMs: canceled.timestampMs + 1 }));

  const queue = of(events, tenant);
  const first = await take(queue);
  checkEvent(first, traced);
  assert.equal(first.properties.headers.traceparent, parent);
  assert.equal(first.properties.headers.tracestate, "vendor=1");
  for (const name of ["X-Team", "x-list", "flag", "CC"]) {
    assert.ok(!(name in first.properties.headers), `the header ${name} of the command crossed over`);
  }
  const second = await take(queue);
  checkEvent(second, plain);
  assert.ok(!("traceparent" in second.properties.headers));
}

function checkEvent(message, command) {
  const event = JSON.parse(message.content.toString());
  const { serviceCallId, dueAt } = command.payload;
  assert.equal(serviceCallId, event.payload?.serviceCallId, `expected the event of ${serviceCallId}, got ${message.content}`);

  const { reachedAt } = event.payload;
  assert.deepEqual(event, {
    id: event.id,
    type: "DueTimeReached",
    tenantId: tenant,
    aggregateId: serviceCallId,
    timestampMs: Date.parse(reachedAt),
    ...(command.correlationId && { correlationId: command.correlationId }),
    payload: { tenantId: tenant, serviceCallId, dueAt, reachedAt },
  });
  const lateness = Date.parse(reachedAt) - Date.parse(dueAt);
  assert.ok(lateness >= 0, `${lateness} ms late: that is early`);

  const { headers, messageId, correlationId, contentType, type, deliveryMode, timestamp } = message.properties;
  assert.equal(headers.type, "DueTimeReached");
  assert.equal(headers.tenantId, tenant);
  assert.equal(headers.serviceCallId, serviceCallId);
  assert.equal(headers.messageId, event.id);
  assert.equal(headers.correlationId, command.correlationId);
  assert.equal(messageId, event.id);
  assert.equal(correlationId, command.correlationId);
  assert.equal(contentType, "application/json");
  assert.equal(type, "DueTimeReached");
  assert.equal(deliveryMode, 2, "persistent");
  assert.ok(Math.abs(timestamp * 1000 - Date.parse(reachedAt)) < 30_000, `timestamp ${timestamp}`);
  assert.equal(message.fields.redelivered, false);
  console.log(`${serviceCallId}: reached ${lateness} ms after it was due`);
}

// What no retry can help comes back as a dead letter that says why.
async function invalidBecomesDeadLetters() {
  const noZone = envelope("ScheduleTimer", "no-zone", { dueAt: "2030-01-31T12:00:00" });
  await isDeadLetter(JSON.stringify(noZone), tenant, "bad_time", /dueAt.*zone/);
  await isDeadLetter(`this is no JSON ${randomUUID()}`, "_", "not_json", /JSON/);
}

async function isDeadLetter(body, owner, reason, detail) {
  await send(Buffer.from(body), {});
  const letter = await take(of(letters, owner));
  const { headers, messageId } = letter.properties;
  assert.equal(letter.content.toString(), body);
  assert.equal(headers.type, "DeadLetter");
  assert.equal(headers.tenantId, owner);
  assert.equal(headers.deadLetterReason, reason);
  assert.match(headers.deadLetterDetail, detail);
  assert.equal(headers.deadLetterTopic, commands);
  assert.equal(headers.deadLetterCount, "1");
  assert.equal(headers.messageId, messageId);
  assert.notEqual(messageId, headers.deadLetterOriginalId);
  console.log(`dead letter: ${reason}: ${headers.deadLetterDetail}`);
}

function schedule(serviceCallId, dueMs, more) {
  return envelope("ScheduleTimer", serviceCallId, { dueAt: new Date(dueMs).toISOString() }, more);
}

function envelope(type, serviceCallId, payload, more) {
  return { id: randomUUID(), type, tenantId: tenant, timestampMs: Date.now(), ...more, payload: { tenantId: tenant, serviceCallId, ...payload } };
}

function publish(command, properties = {}) {
  return send(Buffer.from(JSON.stringify(command)), properties);
}

// send resolves when the queue has the message, which goes through the default
// exchange.
async function send(body, properties) {
  channel.sendToQueue(commands, body, { persistent: true, ...properties });
  await channel.waitForConfirms();
}

// take returns the next message of a queue, which may not be there yet.
async function take(queue) {
  const own = await connection.createChannel();
  own.on("error", () => {}); // the queue is not there
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    try {
      const probe = await connection.createChannel();
      probe.on("error", () => {});
      await probe.checkQueue(queue);
      await probe.close();
    } catch {
      continue;
    }
    const message = await own.get(queue);
    if (message) {
      own.ack(message);
      await own.close();
      return message;
    }
  }
}
