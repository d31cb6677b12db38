import type { Command } from "./contract.js";
import { decode, type Trace } from "./decode.js";
import { InvalidMessage } from "./json.js";

/**
 * Publishes a message, and resolves when the broker has it: by a publish of JetStream, acks of all, or publisher confirms.
 * The key is that of a partition, "tenantId.serviceCallId", or empty for many timers. Messages may go out in any order.
 */
export interface Transport {
  publish(topic: string, body: string, headers: Record<string, string>, key: string): Promise<unknown>;
}

/** The topics that the service has by default, see topicOf. */
export const topics = {
  nats: { commands: "timer.commands", events: "svc.{tenant}.serviceCall", receipts: "svc.{tenant}.receipts", deadLetters: "svc.{tenant}.dlq" },
  kafka: { commands: "timer.commands", events: "service.events", receipts: "service.receipts", deadLetters: "service.events.{tenant}.dlq" },
  rabbitmq: { commands: "timer.commands", events: "svc.{tenant}.q", receipts: "svc.{tenant}.receipts", deadLetters: "svc.{tenant}.dlq" },
};

/** Returns the topic of a tenant. The id of a tenant has no character that means something to a broker; others are refused. */
export function topicOf(template: string, tenantId: string): string {
  if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(tenantId)) throw new InvalidMessage("bad_field", `${JSON.stringify(tenantId)} is no tenant`);
  return template.replaceAll("{tenant}", tenantId);
}

/** A timer: either dueAt or after, in milliseconds from now, says when it fires. */
export type Timer = {
  serviceCallId: string;
  expiresAt?: Date | string; // from then on it must not fire any more
  data?: unknown; // comes back in the event; undefined for none
} & ({ dueAt: Date | string; after?: never } | { after: number; dueAt?: never });

/** Which timers of a tenant a command is about. */
export type Selection = { serviceCallIds: string[] } | { prefix: string } | { correlationId: string };

/** What a command may carry in addition: ids and the trace of the request. */
export interface Context extends Trace { correlationId?: string; causationId?: string }

export interface ClientOptions {
  commands?: string; // the commands topic; default timer.commands
  now?: () => number; // default Date.now
  attempts?: number; // to publish a command; default 5
  delay?: number; // before the second attempt, in milliseconds, and twice the one before for each further one; default 200
}

/** A command as it was sent: each attempt has the same id, time and body. */
export interface Sent {
  readonly id: string;
  readonly timestampMs: number;
  readonly topic: string;
  readonly body: string;
  readonly headers: Record<string, string>;
  readonly key: string;
}

/** The broker did not confirm a command, and may have it. Give the command to TimerClient.send: it is taken once. */
export class NotConfirmed extends Error {
  override readonly name = "NotConfirmed";
  readonly command: Sent;

  constructor(command: Sent, cause: unknown) {
    super(`command ${command.id} was not confirmed: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.command = command;
  }
}

const maxTimers = 500;
const maxBytes = 63 * 1024; // of the timers in a message
const maxAhead = 23 * 60 * 60 * 1000; // of a command: the service refuses one that is a day ahead of its clock

/** Schedules and cancels timers. One in a process is enough: it makes each command of a timer newer than the one before. */
export class TimerClient {
  readonly #transport: Transport;
  readonly #options: Required<ClientOptions>;
  readonly #stamps = new Stamps();

  constructor(transport: Transport, options: ClientOptions = {}) {
    this.#transport = transport;
    this.#options = { commands: topics.nats.commands, now: Date.now, attempts: 5, delay: 200, ...options };
  }

  /** Asks for a timer, or moves the one that the service call has. Throws InvalidMessage, and sends nothing, if it is wrong. */
  async schedule(tenantId: string, timer: Timer, context: Context = {}): Promise<Sent> {
    return this.send(this.#make("ScheduleTimer", tenantId, this.#fields(timer), [timer.serviceCallId], context));
  }

  /** Cancels a timer that has not fired. It is no error if there is none. */
  async cancel(tenantId: string, serviceCallId: string, context: Context = {}): Promise<Sent> {
    return this.send(this.#make("CancelTimer", tenantId, { serviceCallId }, [serviceCallId], context));
  }

  /** Asks for timers, up to 500 with a message. If one is wrong, nothing is sent. After NotConfirmed send all of them again. */
  async scheduleMany(tenantId: string, timers: Timer[], context: Context = {}): Promise<Sent[]> {
    const messages: { serviceCallId: string }[][] = [];
    let bytes = maxBytes;
    for (const timer of timers.map((t) => this.#fields(t))) {
      const size = Buffer.byteLength(JSON.stringify(timer)) + 1;
      if (bytes + size > maxBytes || messages.at(-1)!.length === maxTimers) {
        messages.push([]);
        bytes = 0;
      }
      messages.at(-1)!.push(timer);
      bytes += size;
    }
    const made = messages.map((all) => this.#make("ScheduleTimers", tenantId, { timers: all }, all.map((t) => t.serviceCallId), context));
    for (const command of made) await this.send(command);
    return made;
  }

  /** Cancels the timers of a selection that there are when the service handles it, and that have not fired. */
  async cancelMany(tenantId: string, of: Selection, context: Context = {}): Promise<Sent> {
    return this.send(this.#make("CancelTimers", tenantId, of, "serviceCallIds" in of ? of.serviceCallIds : undefined, context));
  }

  /** Moves the timers of a selection, as cancelMany would cancel them, to a due time, and changes nothing else of them. */
  async rescheduleMany(tenantId: string, of: Selection, dueAt: Date | string, context: Context = {}): Promise<Sent> {
    return this.send(this.#make("RescheduleTimers", tenantId, { ...of, dueAt }, "serviceCallIds" in of ? of.serviceCallIds : undefined, context));
  }

  /** Publishes a command, again if that fails, and returns it. Throws NotConfirmed after the last attempt. */
  async send(command: Sent): Promise<Sent> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#transport.publish(command.topic, command.body, command.headers, command.key);
        return command;
      } catch (error) {
        if (error instanceof InvalidMessage) throw error; // by a transport that knows it at once
        if (attempt >= this.#options.attempts) throw new NotConfirmed(command, error);
        await new Promise((resolve) => setTimeout(resolve, this.#options.delay * 2 ** (attempt - 1)));
      }
    }
  }

  #fields({ serviceCallId, dueAt, after, expiresAt, data }: Timer): { serviceCallId: string } {
    const due = after === undefined ? dueAt : new Date(Math.ceil(this.#options.now() + after));
    return { serviceCallId, dueAt: due, expiresAt, data } as { serviceCallId: string }; // JSON has a Date in RFC 3339
  }

  #make(type: Command["type"], tenantId: string, fields: object, calls: string[] | undefined, context: Context): Sent {
    const { correlationId, causationId, traceparent, tracestate } = context;
    const now = this.#options.now();
    const id = uuidv7(now);
    const timestampMs = this.#stamps.next(tenantId, calls, now);
    const call = "serviceCallId" in fields ? calls![0] : undefined;
    const body = JSON.stringify({ id, type, tenantId, aggregateId: call, timestampMs, correlationId, causationId, payload: { tenantId, ...fields } });
    decode(body); // as strictly as the service
    const headers = JSON.parse(JSON.stringify({ type, tenantId, messageId: id, serviceCallId: call, correlationId, traceparent, tracestate }));
    return { id, timestampMs, topic: topicOf(this.#options.commands, tenantId), body, headers, key: call === undefined ? "" : `${tenantId}.${call}` };
  }
}

/** Makes the times of commands: for each timer later than the one before, whether that was for it alone or for many. */
class Stamps {
  readonly #last = new Map<string, number>(); // of timers that had a command within the last minute, in that order
  #newest = 0;
  #ofAll = 0; // of the last command that may be about any timer

  next(tenantId: string, calls: string[] | undefined, now: number): number {
    if (this.#newest - now > 60_000) { // the clock was set back, by more than keys are kept for: all follow the newest
      this.#ofAll = this.#newest = this.#newest - now < maxAhead ? this.#newest : 0;
      this.#last.clear();
    }
    if (!calls) return (this.#newest = this.#ofAll = Math.max(now, this.#newest + 1));
    const keys = calls.map((call) => `${tenantId}.${call}`);
    const stamp = Math.max(now, this.#ofAll + 1, ...keys.map((key) => (this.#last.get(key) ?? 0) + 1));
    for (const key of keys) {
      this.#last.delete(key);
      this.#last.set(key, stamp);
    }
    for (const [key, ms] of this.#last) {
      if (ms > now - 60_000) break; // a clock may be set back by less than that
      this.#last.delete(key);
    }
    this.#newest = Math.max(this.#newest, stamp);
    return stamp;
  }
}

function uuidv7(ms: number): string {
  const bytes = Buffer.from(crypto.getRandomValues(new Uint8Array(16)));
  bytes.writeUIntBE(ms, 0, 6);
  return uuid(bytes);
}

/** Returns bytes as a UUID of version 7. */
export function uuid(bytes: Uint8Array): string {
  bytes[6] = (bytes[6]! & 0x0f) | 0x70;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return Buffer.from(bytes).toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
