// Schedules over the API of the service, where a program has no broker.
import { InvalidMessage, TimerClient, type Transport } from "@event-service-agent/timer-client";

/** Publishes by the API, for which a token may be needed. */
export function overHTTP(api: string, token?: string): Transport {
  const headers = { "Content-Type": "application/jsonl", ...(token && { Authorization: `Bearer ${token}` }) };
  return {
    async publish(_topic, body) {
      const answer = await fetch(`${api}/v1/commands`, { method: "POST", headers, body });
      const text = await answer.text();
      const { result, reason, detail } = answer.ok ? JSON.parse(text) : {};
      if (result === "refused") throw new InvalidMessage(reason, detail);
      if (result !== "published") throw new Error(`${answer.status} ${text}`);
    },
  };
}

if (process.env.API) {
  const client = new TimerClient(overHTTP(process.env.API, process.env.TOKEN));
  const order = `order-${crypto.randomUUID()}`;
  await client.schedule("acme", { serviceCallId: order, after: 1000 });
  console.log(`${order} is scheduled`);
}
