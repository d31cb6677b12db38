// Talks to a running timer-service over NATS as a team would that does not use
// Go: bare JSON in, JSON out, nothing of ours imported.
//
//     node interop.js [nats://[user:password@]127.0.0.1:4222]
//
// Exits with 0 if everything that docs/messages.md says held, else with 1.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { DeliverPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, headers } from "@nats-io/transport-node";

const url = new URL(process.argv[2] ?? "nats://127.0.0.1:4222");
const commands = "timer.commands";
const tenant = `interop-${randomUUID().slice(0, 8)}`;
const deadline = AbortSignal.timeout(30_000);

const nc = await connect({ servers: url.host, user: url.username || undefined, pass: url.password || undefined, name: "interop", timeout: 5_000 });
let inbox;
try {
  const stream = await (await jetstreamManager(nc)).streams.find(commands);
  inbox = await listen(stream, [`svc.${tenant}.>`, "svc._.dlq"]);
  await timersFire(inbox);
  await invalidBecomesDeadLetters(inbox);
  console.log("ok");
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  inbox?.close();
  await nc.close();
}

// A timer fires once and on time; one that was canceled does not; of the headers
// of a command only the trace crosses over.
async function timersFire(inbox) {
  const now = Date.now();
  const plain = schedule("plain:1.x", now + 1_500);
  const traced = schedule("traced", now + 1_200, { correlationId: "req-7f3a" });
  const canceled = schedule("canceled", now + 1_000);
  const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

  await publish(plain);
  await publish(plain); // the same command again changes nothing
  await publish(traced, { traceparent: parent, tracestate: "vendor=1", "X-Team": "checkout" });
  await publish(canceled);
  await publish(envelope("CancelTimer", "canceled", {}, { timestampMs: canceled.timestampMs + 1 }));

  const first = await inbox.next((m) => m.subject === `svc.${tenant}.serviceCall`);
  checkEvent(first, traced);
  assert.equal(first.headers.get("traceparent"), parent);
  assert.equal(first.headers.get("tracestate"), "vendor=1");
  assert.equal(first.headers.get("X-Team"), "", "a header of the command crossed over");

  const second = await inbox.next((m) => m.subject === `svc.${tenant}.serviceCall`);
  checkEvent(second, plain);
  assert.equal(second.headers.get("traceparent"), "");
}

function checkEvent(message, command) {
  const event = JSON.parse(message.string());
  const { serviceCallId, dueAt } = command.payload;
  assert.equal(serviceCallId, event.payload?.serviceCallId, `expected the event of ${serviceCallId}, got ${message.string()}`);

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
  assert.match(event.id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(parseInt(event.id.slice(0, 13).replace("-", ""), 16), Date.parse(dueAt), "the id begins with the due time");
  assert.match(reachedAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

  const lateness = Date.parse(reachedAt) - Date.parse(dueAt);
  assert.ok(lateness >= 0, `${lateness} ms late: that is early`);
  assert.ok(Date.now() >= Date.parse(reachedAt), "arrived before it was reached");

  const want = { type: "DueTimeReached", tenantId: tenant, serviceCallId, messageId: event.id, correlationId: command.correlationId ?? "" };
  for (const [name, value] of Object.entries(want)) {
    assert.equal(message.headers.get(name), value, `header ${name}`);
  }
  assert.equal(message.headers.get("Nats-Msg-Id"), event.id, "the broker's dedupe id");
  console.log(`${serviceCallId}: reached ${lateness} ms after it was due, received ${Date.now() - Date.parse(dueAt)} ms after`);
}

// What no retry can help comes back as a dead letter that says why.
async function invalidBecomesDeadLetters(inbox) {
  const noCall = envelope("ScheduleTimer", undefined, { dueAt: new Date().toISOString() });
  const noZone = envelope("ScheduleTimer", "no-zone", { dueAt: "2030-01-31T12:00:00" });
  const spoofed = schedule("spoofed", Date.now());
  spoofed.payload.tenantId = "somebody-else";
  const garbage = `this is no JSON ${randomUUID()}`;

  await isDeadLetter(inbox, JSON.stringify(noCall), tenant, "missing_field", /serviceCallId/);
  await isDeadLetter(inbox, JSON.stringify(noZone), tenant, "bad_time", /dueAt.*zone/);
  await isDeadLetter(inbox, JSON.stringify(spoofed), tenant, "tenant_mismatch", /tenantId/);
  await isDeadLetter(inbox, garbage, "_", "not_json", /JSON/);
}

async function isDeadLetter(inbox, body, owner, reason, detail) {
  const since = Date.now();
  await jetstream(nc).publish(commands, body);
  const letter = await inbox.next((m) => m.subject === `svc.${owner}.dlq` && m.string() === body);
  const header = (name) => letter.headers.get(name);

  assert.equal(header("type"), "DeadLetter");
  assert.equal(header("tenantId"), owner);
  assert.equal(header("deadLetterReason"), reason);
  assert.match(header("deadLetterDetail"), detail);
  assert.equal(header("deadLetterTopic"), commands);
  assert.equal(header("deadLetterCount"), "1");
  assert.equal(header("deadLetterReplays"), "0");
  assert.match(header("messageId"), /^[0-9a-f-]{36}$/);
  assert.notEqual(header("messageId"), header("deadLetterOriginalId"));
  for (const name of ["deadLetterFirstAt", "deadLetterLastAt"]) {
    const at = Date.parse(header(name));
    assert.ok(since <= at && at <= Date.now(), `${name} is ${header(name)}`);
  }
  console.log(`dead letter: ${reason}: ${header("deadLetterDetail")}`);
}

function schedule(serviceCallId, dueMs, more) {
  return envelope("ScheduleTimer", serviceCallId, { dueAt: new Date(dueMs).toISOString() }, more);
}

function envelope(type, serviceCallId, payload, more) {
  return { id: randomUUID(), type, tenantId: tenant, timestampMs: Date.now(), ...more, payload: { tenantId: tenant, serviceCallId, ...payload } };
}

// publish resolves when the broker has the command on disk. It sends no headers
// unless told to.
async function publish(command, extra) {
  let options;
  if (extra) {
    options = { headers: headers() };
    for (const [name, value] of Object.entries(extra)) {
      options.headers.set(name, value);
    }
  }
  await jetstream(nc).publish(commands, JSON.stringify(command), options);
}

// listen returns what is stored on the subjects from now on, one by one.
async function listen(stream, subjects) {
  const { state } = await (await jetstreamManager(nc)).streams.info(stream);
  const consumer = await jetstream(nc).consumers.get(stream, {
    filter_subjects: subjects,
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: state.last_seq + 1,
  });
  const messages = await consumer.consume();
  deadline.addEventListener("abort", () => messages.stop(new Error("nothing came for too long")));
  const iterator = messages[Symbol.asyncIterator]();
  return {
    // next returns the next message, which must be the one expected.
    async next(expected) {
      const { value, done } = await iterator.next();
      assert.ok(!done, "the messages ended");
      if (value.subject === "svc._.dlq" && !expected(value)) {
        return this.next(expected); // of somebody else
      }
      assert.ok(expected(value), `unexpected message on ${value.subject}: ${value.string()}`);
      return value;
    },
    close: () => messages.stop(),
  };
}
