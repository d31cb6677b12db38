import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { test } from "node:test";
import { decode, decodeDeadLetter, TimerClient, type Transport } from "../src/index.js";
import { TimerServiceDouble } from "../src/testing.js";
import { overHTTP } from "../examples/http.mjs";

const program = process.env.TIMER_SERVICE;

/** Starts the service with the broker within it, and returns the address of its API. */
async function serve(folder: string) {
  const env = { PATH: process.env.PATH, TIMER_DB_PATH: join(folder, "timers.db"), TIMER_NATS_PORT: "0", TIMER_HTTP_ADDR: "127.0.0.1:0" };
  const service = spawn(program!, ["serve"], { env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => service.once("exit", resolve));
  let api = "";
  for await (const line of createInterface(service.stdout)) {
    api ||= /^http +(http[^ ,]+)/.exec(line)?.[1] ?? "";
    if (api && /\bready\b/.test(line)) break;
  }
  assert(api, "the service ended, or has no API");
  service.stdout.resume();
  return { api, stop: () => (service.kill(), ended) };
}

/** Listens, and returns a function that waits for a number of events. */
async function tail(api: string) {
  const answer = await fetch(`${api}/v1/messages/events?tenant=acme`);
  const lines = createInterface(Readable.fromWeb(answer.body as any));
  const found: { body: object }[] = [];
  lines.on("line", (line) => line && found.push(JSON.parse(line)));
  return async (n: number) => {
    while (found.length < n) await once(lines, "line");
    lines.close();
    return found;
  };
}

test("the double does what the service does", { skip: program ? false : "NOTHING IS PROVEN: TIMER_SERVICE is not the path of timer-service", timeout: 60_000 }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "timer-client-"));
  const { api, stop } = await serve(folder);
  t.after(async () => {
    await stop();
    rmSync(folder, { recursive: true });
  });
  const events = await tail(api);

  const double = new TimerServiceDouble();
  const http = overHTTP(api);
  const both: Transport = { publish: (...m) => Promise.all([http.publish(...m), double.publish(m[0], m[1], m[2])]) };
  const client = new TimerClient(both);
  const call = `order-${process.pid}`;
  const dueAt = new Date(Date.now() + 1000);
  // Commands are handled at once, and in no order: settled waits until both have the same timers.
  const settled = async () => {
    for (;;) {
      const { timers } = (await (await fetch(`${api}/v1/tenants/acme/timers`)).json()) as { timers: { serviceCallId: string; state: string; dueAt: string }[] };
      const differs = (t: (typeof timers)[0]) => {
        const { state, dueAt } = double.timer("acme", t.serviceCallId) ?? {};
        return t.state !== state || Date.parse(t.dueAt) !== Date.parse(dueAt!);
      };
      if (timers.length === double.timers.length && !timers.some(differs)) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  await fetch(`${api}/v1/firing:pause`, { method: "POST" });
  await client.schedule("acme", { serviceCallId: call, dueAt, data: { b: [1.5, "é"] } }, { correlationId: "req-1" });
  await client.schedule("acme", { serviceCallId: `${call}-paid`, dueAt });
  await client.cancel("acme", `${call}-paid`);
  await client.schedule("acme", { serviceCallId: `${call}-moved`, dueAt: new Date(Date.now() + 3_600_000) });
  await client.schedule("acme", { serviceCallId: `${call}-moved`, dueAt });
  await client.scheduleMany("acme", [1, 2].map((n) => ({ serviceCallId: `${call}.many.${n}`, dueAt })));
  await settled();
  await client.cancelMany("acme", { prefix: `${call}.many.2` });
  await client.schedule("acme", { serviceCallId: `${call}-late`, dueAt: "2001-01-01T00:00:00Z", expiresAt: "2001-01-01T00:00:01Z" });
  const wrong = { id: "wrong", type: "CancelTimer", tenantId: "acme", timestampMs: Date.now() + 48 * 3_600_000, payload: { tenantId: "acme", serviceCallId: call } };
  await assert.rejects(both.publish("timer.commands", JSON.stringify(wrong), {}, ""), { name: "InvalidMessage", reason: "bad_time" });
  assert.deepEqual(double.deadLetters.map(({ headers }) => decodeDeadLetter(headers)?.reason), ["bad_time"]);
  await settled();
  await double.advance(5000);
  await fetch(`${api}/v1/firing:resume`, { method: "POST" });

  const same = (all: { body: string | object }[]) => all.map(({ body }) => {
    const { payload, timestampMs, ...rest } = decode(typeof body === "string" ? body : JSON.stringify(body))! as any;
    return { ...rest, payload: { ...payload, reachedAt: undefined, expiredAt: undefined } };
  }).sort((a, b) => a.id.localeCompare(b.id));
  assert.deepEqual(same(await events(double.events.length)), same(double.events));
  assert.deepEqual(double.events.map((e) => e.headers.type).sort(), ["DueTimeReached", "DueTimeReached", "DueTimeReached", "TimerExpired"]);
});
