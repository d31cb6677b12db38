import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";

const service = spawn(process.env.SERVICE ?? "timer-service", ["serve", "--test-clock", "--http-addr", "127.0.0.1:0", "--nats-port", "0", "--log-level", "error"], { stdio: ["ignore", "pipe", "inherit"] });
let api = "";

before(async () => {
  for await (const line of createInterface({ input: service.stdout })) {
    api = line.match(/^http +([^,]+)/)?.[1] ?? api;
    if (line.startsWith("ready")) break;
  }
  assert.notEqual(api, "", "the service has not started");
});
after(() => service.kill());

async function ask(method: string, path: string, body?: object): Promise<any> {
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(api + path, { method, headers, body: body && JSON.stringify(body) });
  assert.ok(answer.ok, await answer.clone().text());
  return answer.json();
}

test("a reminder comes after two hours", async () => {
  const began = Date.now();
  await ask("PUT", "/v1/tenants/acme/timers/remind-1", { in: "2h" });
  await ask("PUT", "/v1/tenants/acme/timers/remind-2", { in: "4h" });
  const moved = await ask("POST", "/v1/clock:advance?by=3h");
  assert.equal(moved.published, 1);
  const first = await ask("GET", "/v1/tenants/acme/timers/remind-1");
  assert.equal(first.state, "Reached");
  assert.equal(first.event.state, "published");
  assert.equal((await ask("GET", "/v1/tenants/acme/timers/remind-2")).state, "Scheduled");
  console.log(`three hours took ${Date.now() - began} ms`);
});
