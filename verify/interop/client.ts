// Schedules, waits for and cancels timers with a client that was generated from
// docs/openapi.json. Its types must fit, too: it is compiled with --strict.
import { client } from "./client/client.gen.js";
import { cancelTimer, getTimer, listen, listTimers, replayDeadLetters, scheduleTimer } from "./client/index.js";

const [baseUrl, token] = process.argv.slice(2);
client.setConfig({ baseUrl, auth: () => token });
const path = { tenant: "acme", call: `openapi-${Date.now()}` };

function expect(what: string, got: unknown, want: unknown) {
  if (got !== want) throw new Error(`${what}: ${String(got)}, want ${String(want)}`);
  console.log(`${what}: ${String(got)}`);
}

// Listen first, so that nothing is missed.
const events = await listen({ query: { tenant: path.tenant, only: ["scheduled", "published"] } });
const heard = (async () => {
  for await (const event of events.stream) {
    if (event && "latenessMs" in event && "serviceCallId" in event && event.serviceCallId === path.call) return event;
  }
  throw new Error("the stream ended");
})();

const scheduled = await scheduleTimer({ path, query: { wait: "20s" }, body: { in: "1s", data: { attempt: 3 }, correlationId: "req-1" } });
expect("schedule", scheduled.response?.status, 200);
expect("result", scheduled.data?.result, "scheduled");

const timer = await getTimer({ path });
expect("its id", timer.data?.commandId, scheduled.data?.id);
expect("its data", JSON.stringify(timer.data?.data), '{"attempt":3}');

const event = await heard;
expect("fired", event.correlationId, "req-1");
expect("its state", (await getTimer({ path })).data?.state, "Reached");

const late = await cancelTimer({ path, query: { wait: "20s" } });
expect("too late to cancel", late.response?.status, 409);
expect("because", late.error && "reason" in late.error && late.error.reason, "already_reached");

const other = { ...path, call: `${path.call}-2` };
await scheduleTimer({ path: other, body: { dueAt: new Date(Date.now() + 3_600_000).toISOString() } });
const canceled = await cancelTimer({ path: other, query: { wait: "20s" } });
expect("cancel", canceled.data?.result, "canceled");

const page = await listTimers({ path: { tenant: path.tenant }, query: { state: "Canceled", limit: 10 } });
expect("in the list", page.data?.timers.some((t) => t.serviceCallId === other.call), true);

const none = await replayDeadLetters({ query: { tenant: path.tenant, id: "none" } });
expect("no such dead letter", none.response?.status, 404);

const wrong = await scheduleTimer({ path, body: { in: "soon" } });
expect("a wrong duration", wrong.response?.status, 422);

client.setConfig({ baseUrl, auth: () => "wrong" });
const refused = await getTimer({ path });
expect("a wrong token", refused.response?.status, 401);
expect("as a problem", refused.error?.title, "Unauthorized");
process.exit(0);
