// Talks to a running timer-service over Kafka as a team would that does not use
// Go: bare JSON in, JSON out, nothing of ours imported.
//
//     node interop.js [127.0.0.1:9092]
//
// Exits with 0 if everything that docs/messages.md says held, else with 1.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Kafka, logLevel } from "kafkajs";

const brokers = (process.argv[2] ?? "127.0.0.1:9092").split(",");
const tenant = `interop-${randomUUID().slice(0, 8)}`;
const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

const kafka = new Kafka({ brokers, clientId: "interop", logLevel: logLevel.ERROR, retry: { retries: 20 } });
const producer = kafka.producer({ idempotent: true });
const inbox = { waiting: [], waiters: [] };
const events = await listen("service.events");
let letters;
try {
  await producer.connect();
  await timersFire();
  await invalidBecomesDeadLetter();
  console.log("ok");
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await Promise.all([producer.disconnect(), events.disconnect(), letters?.disconnect()]);
}

// A timer fires once and on time, keyed by tenant and call; one that was canceled
// does not; of the headers of a command only the trace crosses over.
async function timersFire() {
  const now = Date.now();
  const plain = schedule("plain:1.x", now + 1_500);
  const traced = schedule("traced", now + 1_200, { correlationId: "req-7f3a" });
  const canceled = schedule("canceled", now + 1_000);
  await send(plain);
  await send(plain); // the same command again changes nothing
  await send(traced, { traceparent: parent, tracestate: "vendor=1", "X-Team": "checkout" });
  await send(canceled);
  await send(envelope("CancelTimer", "canceled", {}, { timestampMs: canceled.timestampMs + 1 }));

  const first = await next();
  checkEvent(first, traced);
  assert.equal(header(first, "traceparent"), parent);
  assert.equal(header(first, "tracestate"), "vendor=1");
  assert.equal(header(first, "correlationId"), "req-7f3a");
  assert.equal(header(first, "X-Team"), undefined, "a header of the command crossed over");
  const second = await next();
  checkEvent(second, plain);
  assert.equal(header(second, "traceparent"), undefined);
}

function checkEvent({ message }, command) {
  const event = JSON.parse(message.value.toString());
  const { serviceCallId, dueAt } = command.payload;
  assert.equal(event.payload.serviceCallId, serviceCallId);
  assert.equal(event.type, "DueTimeReached");
  assert.equal(event.tenantId, tenant);
  assert.equal(Date.parse(event.payload.dueAt), Date.parse(dueAt));
  assert.ok(Date.parse(event.payload.reachedAt) >= Date.parse(dueAt), "fired early");
  assert.equal(message.key.toString(), `${tenant}.${serviceCallId}`);
  assert.deepEqual(
    { type: header({ message }, "type"), id: header({ message }, "messageId"), tenantId: header({ message }, "tenantId"), call: header({ message }, "serviceCallId") },
    { type: "DueTimeReached", id: event.id, tenantId: tenant, call: serviceCallId },
  );
}

// What is invalid goes to the tenant's dead letters, with the original body.
async function invalidBecomesDeadLetter() {
  const broken = { ...schedule("broken", Date.now()), payload: { tenantId: tenant, serviceCallId: "broken", dueAt: "tomorrow" } };
  await send(broken);
  letters = await listen(`service.events.${tenant}.dlq`);
  const letter = await next();
  assert.deepEqual(JSON.parse(letter.message.value.toString()), broken);
  assert.equal(header(letter, "deadLetterTopic"), "timer.commands");
  assert.equal(letter.message.key.toString(), header(letter, "messageId"), "a letter is keyed by its own id");
}

function schedule(serviceCallId, dueMs, more = {}) {
  return envelope("ScheduleTimer", serviceCallId, { dueAt: new Date(dueMs).toISOString() }, more);
}

function envelope(type, serviceCallId, payload, more = {}) {
  return {
    id: randomUUID(), type, tenantId: tenant, aggregateId: serviceCallId, timestampMs: Date.now(),
    ...more, payload: { tenantId: tenant, serviceCallId, ...payload },
  };
}

async function send(command, headers = {}) {
  const key = `${command.tenantId}.${command.aggregateId}`;
  await producer.send({ topic: "timer.commands", acks: -1, messages: [{ key, value: JSON.stringify(command), headers }] });
}

function header({ message }, name) {
  return message.headers[name]?.toString();
}

// listen puts what is ours of a topic into the inbox, from its beginning.
async function listen(topic) {
  const consumer = kafka.consumer({ groupId: `interop-${randomUUID()}`, sessionTimeout: 10_000 });
  await consumer.connect();
  for (let tries = 0; ; tries++) {
    try {
      await consumer.subscribe({ topic, fromBeginning: true });
      break;
    } catch (error) { // the topic of a tenant's dead letters is made with the first of them
      if (tries > 100) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  await consumer.run({
    eachMessage: async (m) => {
      if (header(m, "tenantId") !== tenant) return;
      const waiter = inbox.waiters.shift();
      waiter ? waiter(m) : inbox.waiting.push(m);
    },
  });
  return consumer;
}

// next returns the next message of the inbox.
function next() {
  if (inbox.waiting.length > 0) return inbox.waiting.shift();
  return new Promise((resolve, reject) => {
    const timeout = setTimeout(() => reject(new Error("nothing came within 60 s")), 60_000);
    inbox.waiters.push((m) => {
      clearTimeout(timeout);
      resolve(m);
    });
  });
}
