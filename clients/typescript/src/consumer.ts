import type { DueTimeReached, TimerExpired } from "./contract.js";
import { decode, type Headers, type Message, type Trace } from "./decode.js";
import { InvalidMessage } from "./json.js";

export interface ConsumerOptions {
  /** Called for timers that expired. Without it their events are acknowledged. */
  expired?: (event: TimerExpired & Trace) => unknown;
  /** How many ids of handled events are remembered; default 10000. */
  remember?: number;
  /** In place of that memory: calls handle unless the event of this id was handled, as in a transaction that inserts the id. */
  once?: (id: string, handle: () => Promise<unknown>) => Promise<unknown>;
  /** Called for a message that can't be read, which is acknowledged then. Without it the error is thrown. */
  invalid?: (error: InvalidMessage, body: string | Uint8Array, headers: Headers) => unknown;
}

/**
 * Returns a function for the messages of an events topic. Acknowledge a message when its promise is fulfilled, and have it delivered
 * again when it is rejected. An event that was handled is not handled again. Messages of other types are acknowledged.
 */
export function onDue(handle: (event: DueTimeReached & Trace) => unknown, options: ConsumerOptions = {}) {
  const { expired, invalid, once = remember(options.remember ?? 10_000) } = options;
  return async (body: string | Uint8Array, headers: Headers = {}): Promise<void> => {
    let event: Message | undefined;
    try {
      event = decode(body, headers);
    } catch (error) {
      if (!invalid || !(error instanceof InvalidMessage)) throw error;
      await invalid(error, body, headers);
    }
    if (event?.type === "DueTimeReached") await once(event.id, async () => handle(event));
    if (event?.type === "TimerExpired" && expired) await once(event.id, async () => expired(event));
  };
}

/** Remembers so many ids. A message that comes while its event is handled waits for that: if it fails, neither is acknowledged. */
function remember(size: number) {
  const running = new Map<string, Promise<unknown>>();
  const handled = new Set<string>();
  return async (id: string, handle: () => Promise<unknown>): Promise<void> => {
    if (handled.has(id)) return;
    const run = running.get(id) ?? handle();
    running.set(id, run);
    try {
      await run;
    } finally {
      if (running.get(id) === run) running.delete(id);
    }
    handled.add(id);
    for (const oldest of handled) {
      if (handled.size <= size) break;
      handled.delete(oldest);
    }
  };
}
