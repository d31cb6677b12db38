import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeDeadLetter, topics } from "../src/index.js";
import { TimerServiceDouble } from "../src/testing.js";
import { bodyOf, vectors } from "./vectors.js";

const now = Date.parse("2030-01-01T00:00:00Z");

test("the double takes and refuses commands as the service does", async () => {
  for (const v of vectors("service")) {
    const service = new TimerServiceDouble({ now, topics: { ...topics.nats, commands: v.topic ? "svc.{tenant}.timer" : "timer.commands" } });
    await service.publish(v.topic ?? "timer.commands", bodyOf(v));
    assert.equal(service.deadLetters.length, v.reason ? 1 : 0, v.name);
    for (const { topic, body, headers } of service.deadLetters) {
      const letter = decodeDeadLetter(headers);
      assert.deepEqual([topic, letter?.reason, letter?.tenantId, body], ["svc.acme.dlq", v.reason, "acme", bodyOf(v)], v.name);
    }
  }
});

function* arrivals<T>(all: T[]): Generator<T[]> {
  if (all.length === 0) yield [];
  for (let i = 0; i < all.length; i++) for (const rest of arrivals(all.toSpliced(i, 1))) yield [all[i]!, ...rest];
}

test("the newest command wins, whatever the order of arrival", async () => {
  for (const v of vectors("order")) {
    for (const commands of arrivals<string>(v.commands)) {
      const service = new TimerServiceDouble({ now });
      for (const command of commands) await service.publish("timer.commands", command);
      assert.equal(service.timer("acme", "order:42.pay")?.commandId, v.wins, v.name);
      if (v.firedAt) {
        service.pause();
        await service.advance(Date.parse(v.firedAt) - now);
        service.resume();
      }
      await service.advance(v.firedAt ? 0 : 365 * 24 * 60 * 60 * 1000);
      assert.equal(service.events[0]?.body, v.event, v.name);
      assert.equal(service.events.filter((e) => e.headers.serviceCallId === "order:42.pay").length, v.event ? 1 : 0, v.name);
    }
  }
});

test("a selection cancels or moves timers that are older", async () => {
  const movedTo = "2030-03-01T00:00:00.000Z";
  for (const v of vectors("selections")) {
    for (const [type, state, changed] of [["CancelTimers", "Canceled", v.selected], ["RescheduleTimers", "Scheduled", v.moved ?? v.selected]]) {
      const service = new TimerServiceDouble({ now });
      const send = (type: string, id: string, tenantId: string, timestampMs: number, payload: object, correlationId?: string) =>
        service.publish("timer.commands", JSON.stringify({ id, type, tenantId, timestampMs, correlationId, payload }));
      for (const { tenantId = "acme", serviceCallId, correlationId, timestampMs = now, expiresAt } of v.timers) {
        await send("ScheduleTimer", "a", tenantId, timestampMs, { tenantId, serviceCallId, dueAt: "2030-02-01T00:00:00Z", expiresAt }, correlationId);
      }
      await send(type, "b", "acme", now + 1, state === "Canceled" ? v.payload : { ...v.payload, dueAt: movedTo });
      assert.deepEqual(service.deadLetters, [], v.name);
      const found = service.timers.filter((t) => t.commandId === "b" && t.state === state && (state === "Canceled" ? t.dueAt : t.dueAt === movedTo));
      assert.deepEqual(found.map((t) => t.serviceCallId).sort(), changed, `${v.name}, of a ${type}`);
      await service.advance(365 * 24 * 60 * 60 * 1000);
      assert.equal(service.events.length, v.timers.length - (state === "Canceled" ? changed.length : 0), v.name);
    }
  }
});
