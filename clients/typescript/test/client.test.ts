import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import {
  type DueTimeReached, InvalidMessage, NotConfirmed, onDue, type ScheduleTimers, type Selection, TimerClient, decode, decodeDeadLetter, topicOf, topics,
} from "../src/index.js";
import { TimerServiceDouble } from "../src/testing.js";

const now = Date.parse("2030-01-01T00:00:00Z");
const hour = 60 * 60 * 1000;

interface Sent { topic: string; body: string; headers: Record<string, string>; key: string }

/** A client whose messages are kept, with a clock that stands still unless the test moves it. */
function recorded(fail: (attempt: number) => boolean = () => false, options = {}) {
  const sent: Sent[] = [];
  const clock = { now };
  const publish = async (topic: string, body: string, headers: Record<string, string>, key: string) => {
    sent.push({ topic, body, headers, key });
    if (fail(sent.length)) throw new Error("the broker is away");
  };
  const client = new TimerClient({ publish }, { now: () => clock.now, delay: 1, ...options });
  return { client, clock, sent, messages: () => sent.map((m) => decode(m.body)!) };
}

test("the generated types and tables are those of the schemas", () => {
  execFileSync(process.execPath, [fileURLToPath(new URL("../../scripts/generate.mjs", import.meta.url)), "--check"]);
});

test("a command has an envelope, headers, a topic and a key", async () => {
  const { client, sent } = recorded(undefined, { commands: "svc.{tenant}.timer" });
  const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  await client.schedule("acme", { serviceCallId: "order:42.pay", dueAt: new Date(now + hour), data: { attempt: 3 } }, { correlationId: "req-1", traceparent });
  const [{ topic, body, headers, key }] = sent as [Sent];
  const { id, ...rest } = decode(body, headers)!;
  assert.match(id, /^0[0-9a-f]{7}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(parseInt(id.replace("-", "").slice(0, 12), 16), now);
  assert.deepEqual(rest, {
    type: "ScheduleTimer", tenantId: "acme", aggregateId: "order:42.pay", timestampMs: now, correlationId: "req-1", traceparent,
    payload: { tenantId: "acme", serviceCallId: "order:42.pay", dueAt: "2030-01-01T01:00:00.000Z", data: { attempt: 3 } },
  });
  assert.deepEqual(headers, { type: "ScheduleTimer", tenantId: "acme", messageId: id, serviceCallId: "order:42.pay", correlationId: "req-1", traceparent });
  assert.deepEqual([topic, key], ["svc.acme.timer", "acme.order:42.pay"]);
});

test("a retry sends the same message, and the last error has it", async () => {
  const { client, sent } = recorded((attempt) => attempt !== 3 && attempt < 9, { attempts: 5 });
  await client.cancel("acme", "a");
  assert.equal(sent.length, 3);
  assert.equal(new Set(sent.map((m) => JSON.stringify(m))).size, 1);
  const error = await client.cancel("acme", "a").then(() => assert.fail("it was confirmed"), (e: unknown) => e);
  assert(error instanceof NotConfirmed && error.cause instanceof Error);
  assert.equal(sent.length, 8);
  await client.send(error.command);
  assert.deepEqual(sent[8], sent[7]);
});

test("what a transport refuses is not sent again", async () => {
  let attempts = 0;
  const client = new TimerClient({ publish: async () => { attempts++; throw new InvalidMessage("bad_time", "too late"); } });
  await assert.rejects(client.cancel("acme", "a"), { reason: "bad_time" });
  assert.equal(attempts, 1);
});

test("each command for a timer is newer than the one before", async () => {
  const { client, clock, messages } = recorded();
  const schedule = (call: string) => client.schedule("acme", { serviceCallId: call, after: hour });
  await schedule("a");
  await schedule("b");
  await client.cancel("acme", "a");
  await client.scheduleMany("acme", [{ serviceCallId: "a", after: hour }, { serviceCallId: "c", after: hour }]);
  await client.cancelMany("acme", { prefix: "a" });
  await schedule("c");
  clock.now += 30_000;
  await schedule("e");
  clock.now -= 50_000;
  await schedule("a");
  await schedule("c");
  await client.cancelMany("acme", { serviceCallIds: ["a", "d"] });
  clock.now += hour;
  await schedule("a");
  assert.deepEqual(messages().map((m) => m.timestampMs - now), [0, 0, 1, 2, 3, 4, 30_000, 4, 5, 5, hour - 20_000]);
});

test("a clock that was a day ahead has no effect for long", async () => {
  const { client, clock, messages } = recorded();
  const cancel = () => client.cancel("acme", "a");
  const all = () => client.cancelMany("acme", { prefix: "a" });
  clock.now += 3 * hour;
  await cancel();
  clock.now -= 3 * hour; // the service takes commands that are less than a day ahead of it
  await cancel();
  await all();
  await client.cancel("acme", "b");
  clock.now += 48 * hour;
  await cancel();
  await all();
  clock.now -= 48 * hour;
  await all();
  await cancel();
  assert.deepEqual(messages().map((m) => m.timestampMs - now), [3 * hour, 3 * hour + 1, 3 * hour + 2, 3 * hour + 3, 48 * hour, 48 * hour + 1, 0, 1]);
});

test("many timers are split by number and by size", async () => {
  const { client, messages } = recorded();
  await client.scheduleMany("acme", Array.from({ length: 1001 }, (_, i) => ({ serviceCallId: `call-${i}`, after: hour })));
  await client.scheduleMany("acme", Array.from({ length: 40 }, (_, i) => ({ serviceCallId: `call-${i}`, after: hour, data: "é".repeat(2000) })));
  assert.deepEqual(messages().map((m) => (m as ScheduleTimers).payload.timers.length), [500, 500, 1, 15, 15, 10]);
});

test("nothing is sent if something is wrong, and the error says why", async () => {
  const { client, sent } = recorded();
  const reason = async (call: () => Promise<unknown>) => call().then(() => "sent", (e: unknown) => (e instanceof InvalidMessage ? e.reason : e));
  const dueAt = new Date(now);
  for (const [want, call] of [
    ["bad_field", () => client.schedule("acme.>", { serviceCallId: "a", dueAt })],
    ["bad_field", () => client.schedule("acme", { serviceCallId: "a b", dueAt })],
    ["bad_time", () => client.schedule("acme", { serviceCallId: "a", dueAt: "tomorrow" })],
    ["missing_field", () => client.schedule("acme", { serviceCallId: "a", dueAt: new Date(NaN) })],
    ["bad_time", () => client.schedule("acme", { serviceCallId: "a", dueAt, expiresAt: dueAt })],
    ["too_large", () => client.schedule("acme", { serviceCallId: "a", dueAt, data: "x".repeat(4095) })],
    ["bad_field", () => client.scheduleMany("acme", [{ serviceCallId: "a", dueAt }, { serviceCallId: "a", dueAt }])],
    ["bad_field", () => client.cancelMany("acme", { serviceCallIds: Array.from({ length: 501 }, (_, i) => `call-${i}`) })],
    ["missing_field", () => client.cancelMany("acme", {} as Selection)],
    ["missing_field", () => client.cancelMany("acme", { prefix: "" })],
  ] as const) assert.equal(await reason(call), want);
  assert.equal(sent.length, 0);
  assert.throws(() => topicOf(topics.nats.events, "*"), InvalidMessage);
  assert.equal(topicOf(topics.nats.events, "acme"), "svc.acme.serviceCall");
});

const event = (id: string, type = "DueTimeReached", payload = {}) => JSON.stringify({
  id, type, tenantId: "acme", aggregateId: "a", timestampMs: now,
  payload: { tenantId: "acme", serviceCallId: "a", dueAt: "2030-01-01T00:00:00Z", reachedAt: "2030-01-01T00:00:01Z", ...payload },
});

test("an event is handled once, and what is not for the handler is acknowledged", async () => {
  const handled: string[] = [];
  let failures = 1;
  const handle = onDue((e) => {
    if (failures-- > 0) throw new Error("not now");
    handled.push(e.id);
  }, { remember: 2 });
  await assert.rejects(handle(event("1")), /not now/);
  await Promise.all([handle(event("1")), handle(event("1")), handle(Buffer.from(event("2")))]);
  await handle(event("1"));
  for (const other of ['{"type":"OrderPlaced"}', event("9", "TimerScheduled"), event("9", "TimerExpired", { expiresAt: "2030-01-01T00:00:01Z", expiredAt: "2030-01-01T00:00:01Z" })]) {
    await handle(other);
  }
  await handle(event("3"));
  await handle(event("1")); // forgotten
  assert.deepEqual(handled, ["1", "2", "3", "1"]);
  await assert.rejects(handle("{}"), InvalidMessage);
});

test("an event that takes long is not forgotten while it is handled", async () => {
  const handled: string[] = [];
  let end = () => {};
  const handle = onDue((e) => {
    handled.push(e.id);
    if (e.id === "1") return new Promise<void>((resolve) => (end = resolve));
  }, { remember: 2 });
  const first = handle(event("1"));
  for (const id of ["2", "3", "4"]) await handle(event(id));
  const again = handle(event("1"));
  end();
  await Promise.all([first, again]);
  await handle(event("1"));
  assert.deepEqual(handled, ["1", "2", "3", "4"]);
});

test("two deliveries of one event at once fail together", async () => {
  let runs = 0;
  const handle = onDue(async () => {
    runs++;
    await new Promise((resolve) => setImmediate(resolve));
    throw new Error("not now");
  });
  const results = await Promise.allSettled([handle(event("1")), handle(event("1"))]);
  assert.deepEqual(results.map((r) => r.status), ["rejected", "rejected"]);
  assert.equal(runs, 1);
});

test("the host may keep the ids, and look at what can't be read and at what expired", async () => {
  const seen: string[] = [];
  const handle = onDue((e) => seen.push(`due ${e.id}`), {
    once: async (id, run) => (seen.includes(`kept ${id}`) ? undefined : (seen.push(`kept ${id}`), run())),
    expired: (e) => seen.push(`expired ${e.payload.expiredAt}`),
    invalid: (error) => seen.push(error.reason),
  });
  await handle(event("1"));
  await handle(event("1"));
  await handle("hello");
  await handle(event("2", "TimerExpired", { expiresAt: "2030-01-01T00:00:01Z", expiredAt: "2030-01-01T00:00:02Z" }));
  assert.deepEqual(seen, ["kept 1", "due 1", "not_json", "kept 2", "expired 2030-01-01T00:00:02.000Z"]);
});

test("a dead letter is read from its headers, as a client library has them", () => {
  assert.deepEqual(decodeDeadLetter({
    type: [Buffer.from("DeadLetter")], tenantId: Buffer.from("acme"), messageId: "m", deadLetterReason: "bad_time", deadLetterDetail: "too late", deadLetterTopic: "timer.commands",
    deadLetterFirstAt: "2030-01-01T00:00:00.000Z", deadLetterLastAt: "2030-01-01T00:00:00.000Z", deadLetterCount: 2, deadLetterReplays: "0", DEADLETTERORIGINALID: "c",
  }), {
    type: "DeadLetter", tenantId: "acme", messageId: "m", reason: "bad_time", detail: "too late", topic: "timer.commands",
    firstAt: "2030-01-01T00:00:00.000Z", lastAt: "2030-01-01T00:00:00.000Z", count: "2", replays: "0", originalId: "c",
  });
  assert.equal(decodeDeadLetter({ type: "OperatorMark", tenantId: "acme" }), undefined);
});

test("the double fires as its clock is moved, also what handlers schedule", async () => {
  const service = new TimerServiceDouble({ now });
  const client = new TimerClient(service, { now: service.now });
  const fired: string[] = [];
  service.subscribe(onDue(async (e: DueTimeReached) => {
    fired.push(`${e.payload.serviceCallId} at ${service.now() - now}`);
    if (e.payload.serviceCallId === "a") await client.schedule("acme", { serviceCallId: "b", after: hour });
  }));
  await client.schedule("acme", { serviceCallId: "a", after: hour, data: [1] });
  await client.schedule("acme", { serviceCallId: "c", after: hour });
  await client.cancel("acme", "c");
  await client.schedule("acme", { serviceCallId: "d", after: hour, expiresAt: new Date(now + 2 * hour) });
  await service.advance(hour - 1);
  assert.deepEqual(fired, []);
  service.pause();
  await service.advance(3 * hour + 1);
  service.resume();
  await service.advance(2 * hour);
  assert.deepEqual(fired, [`a at ${4 * hour}`, `b at ${5 * hour}`]);
  assert.deepEqual(service.events.map((e) => decode(e.body)!.type), ["DueTimeReached", "TimerExpired", "DueTimeReached"]);
  assert.equal(service.timer("acme", "c")?.state, "Canceled");
  await service.publish("timer.commands", Buffer.from([0xff]));
  assert.equal(decodeDeadLetter(service.deadLetters[0]!.headers)?.reason, "not_utf8");
});

test("the double fires in the order of due times, and what has fired or expired is final", async () => {
  const service = new TimerServiceDouble({ now });
  const client = new TimerClient(service, { now: service.now });
  await client.schedule("acme", { serviceCallId: "b", after: 2 });
  await client.schedule("acme", { serviceCallId: "a", after: 1 });
  await client.schedule("acme", { serviceCallId: "c", dueAt: new Date(now - 2), expiresAt: new Date(now - 1) });
  await service.advance(2);
  for (const call of ["a", "b", "c"]) {
    await client.schedule("acme", { serviceCallId: call, after: 1 });
    await client.cancel("acme", call);
  }
  await service.advance(hour);
  assert.deepEqual(service.events.map((e) => `${e.headers.serviceCallId} ${e.headers.type}`), ["c TimerExpired", "a DueTimeReached", "b DueTimeReached"]);
  assert.deepEqual(["a", "b", "c"].map((call) => service.timer("acme", call)?.state), ["Reached", "Reached", "Expired"]);
});

test("the double moves the timers of a selection, and nothing else of them", async () => {
  const service = new TimerServiceDouble({ now });
  const client = new TimerClient(service, { now: service.now });
  await client.schedule("acme", { serviceCallId: "a.1", after: hour, data: "kept" });
  await client.schedule("acme", { serviceCallId: "a.2", after: hour, expiresAt: new Date(now + 2 * hour) });
  await client.schedule("acme", { serviceCallId: "b", after: hour });
  await client.rescheduleMany("acme", { prefix: "a." }, new Date(now + 2 * hour));
  await client.rescheduleMany("acme", { serviceCallIds: ["c"] }, new Date(now));
  await service.advance(3 * hour);
  const fired = service.events.map((e) => decode(e.body) as DueTimeReached);
  assert.deepEqual(fired.map((e) => [e.payload.serviceCallId, e.payload.data, (e.timestampMs - now) / hour]), [["a.2", undefined, 1], ["b", undefined, 1], ["a.1", "kept", 2]]);
});
