import { createHash } from "node:crypto";
import { topicOf, topics, type Transport, uuid } from "./client.js";
import type { Command, ScheduleTimerPayload } from "./contract.js";
import { type Headers, read } from "./decode.js";
import { InvalidMessage } from "./json.js";

const day = 24 * 60 * 60 * 1000;

export interface DoubleOptions {
  now?: number | Date; // default the time of the process
  topics?: { commands: string; events: string; deadLetters: string }; // default topics.nats
  maxAhead?: number; // how far ahead the time of a command may be, in milliseconds; default a day
  horizon?: number; // how far ahead a timer may be due, in milliseconds; default 3650 days
}

/** A message that the double has published. */
export interface Published { topic: string; body: string; headers: Record<string, string> }

/** A timer in the double. One that was canceled before it was scheduled has no due time. */
export interface TimerState {
  tenantId: string;
  serviceCallId: string;
  state: "Scheduled" | "Reached" | "Expired" | "Canceled";
  commandId: string; // of the newest command that took effect
  timestampMs: number; // its time
  dueAt?: string;
  expiresAt?: string | undefined;
  correlationId?: string | undefined;
  data?: string | undefined; // as it was written
}

/**
 * Stands in for the service in unit tests: it takes commands by its rules, and fires timers when a test moves its clock.
 * It writes envelopes, no CloudEvents and no receipts, and knows no quotas.
 */
export class TimerServiceDouble implements Transport {
  readonly events: Published[] = [];
  readonly deadLetters: Published[] = [];
  readonly #options: Required<Omit<DoubleOptions, "now">>;
  readonly #timers = new Map<string, TimerState>();
  readonly #subscribers: ((body: string, headers: Headers) => unknown)[] = [];
  #now: number;
  #paused = false;

  constructor({ now = Date.now(), ...options }: DoubleOptions = {}) {
    this.#now = Number(now);
    this.#options = { topics: topics.nats, maxAhead: day, horizon: 3650 * day, ...options };
  }

  /** Its time, for the option now of a client. */
  readonly now = (): number => this.#now;

  /** Takes a command, or puts it among the dead letters. */
  async publish(topic: string, body: string | Uint8Array, headers: Headers = {}): Promise<void> {
    try {
      this.#take(topic, body, headers);
    } catch (error) {
      if (!(error instanceof InvalidMessage)) throw error;
      const text = typeof body === "string" ? body : new TextDecoder().decode(body);
      const tenantId = /"tenant[iI]d"\s*:\s*"([A-Za-z0-9][A-Za-z0-9_-]{0,63})"/.exec(text)?.[1] ?? "_";
      const at = new Date(this.#now).toISOString();
      this.deadLetters.push({
        topic: this.#options.topics.deadLetters.replaceAll("{tenant}", tenantId), body: text, headers: {
          type: "DeadLetter", tenantId, messageId: `dead-letter-${this.deadLetters.length + 1}`, deadLetterReason: error.reason, deadLetterDetail: error.message,
          deadLetterTopic: topic, deadLetterFirstAt: at, deadLetterLastAt: at, deadLetterCount: "1", deadLetterReplays: "0",
        },
      });
    }
  }

  /** Calls a function, such as that of onDue, for each event from now on. advance waits for it, and throws its error. */
  subscribe(handle: (body: string, headers: Headers) => unknown): void {
    this.#subscribers.push(handle);
  }

  /** Moves the clock, and fires each timer at its due time, also one that is scheduled meanwhile. advance(0) fires what is due now. */
  async advance(milliseconds: number): Promise<void> {
    const until = this.#now + milliseconds;
    for (let t = this.#next(until); t; t = this.#next(until)) {
      this.#now = Math.max(this.#now, Date.parse(t.dueAt!));
      await this.#fire(t);
    }
    this.#now = until;
  }

  /** Has nothing fire until resume. What expires meanwhile does not fire afterwards. */
  pause(): void {
    this.#paused = true;
  }

  /** Has timers fire again, at the next advance. */
  resume(): void {
    this.#paused = false;
  }

  /** All timers, in any state. */
  get timers(): Readonly<TimerState>[] {
    return [...this.#timers.values()];
  }

  timer(tenantId: string, serviceCallId: string): Readonly<TimerState> | undefined {
    return this.#timers.get(`${tenantId}.${serviceCallId}`);
  }

  #take(topic: string, body: string | Uint8Array, headers: Headers): void {
    const found = read(body, headers);
    if (!found || !/^(Schedule|Reschedule|Cancel)/.test(found.message.type)) throw new InvalidMessage("unknown_type", "the type is no command");
    const command = found.message as Command;
    const { tenantId, correlationId, timestampMs } = command;
    if (topic !== topicOf(this.#options.topics.commands, tenantId)) throw new InvalidMessage("tenant_mismatch", `tenantId ${tenantId} came on the topic ${topic}`);
    if (timestampMs < Date.UTC(2000, 0)) throw new InvalidMessage("bad_time", "timestampMs is before the year 2000");
    if (timestampMs > this.#now + this.#options.maxAhead) throw new InvalidMessage("bad_time", "timestampMs is ahead of the clock of the service");
    const payload = found.texts.has("specversion") ? "data" : "payload";
    if (command.type === "ScheduleTimer") return this.#schedule(command, [{ ...command.payload, data: found.texts.get(`${payload}.data`) }]);
    if (command.type === "ScheduleTimers") {
      return this.#schedule(command, command.payload.timers.map((t, i) => ({ ...t, data: found.texts.get(`${payload}.timers[${i}].data`) })));
    }
    const of: { serviceCallId?: string; serviceCallIds?: string[]; prefix?: string; correlationId?: string } = command.payload;
    const selected = [...this.#timers.values()].filter((t) => t.tenantId === tenantId && t.state === "Scheduled" &&
      (of.prefix === undefined ? t.correlationId === (of.correlationId ?? NaN) : t.serviceCallId.startsWith(of.prefix)));
    const calls = of.serviceCallIds ?? (of.serviceCallId === undefined ? selected.map((t) => t.serviceCallId) : [of.serviceCallId]);
    if (command.type === "RescheduleTimers") {
      const { dueAt } = command.payload;
      this.#checkHorizon(dueAt);
      for (const call of calls) {
        const t = this.timer(tenantId, call);
        if (t?.state === "Scheduled" && (t.expiresAt === undefined || dueAt < t.expiresAt)) this.#set(command, call, { ...t, dueAt });
      }
      return;
    }
    for (const call of calls) this.#set(command, call, { ...this.timer(tenantId, call), state: "Canceled" });
  }

  #schedule(command: Command, timers: (Omit<ScheduleTimerPayload, "tenantId" | "data"> & { data: string | undefined })[]): void {
    for (const t of timers) this.#checkHorizon(t.dueAt);
    for (const { serviceCallId, dueAt, expiresAt, data } of timers) {
      this.#set(command, serviceCallId, { state: "Scheduled", dueAt, expiresAt, correlationId: command.correlationId, data });
    }
  }

  #checkHorizon(dueAt: string): void {
    if (Date.parse(dueAt) > this.#now + this.#options.horizon) throw new InvalidMessage("beyond_horizon", `dueAt ${dueAt} is beyond the horizon`);
  }

  /** Changes a timer, if a command is newer than it: by time, then by id, byte by byte. What has fired or expired is final. */
  #set({ tenantId, id, timestampMs }: Command, serviceCallId: string, to: Partial<TimerState> & Pick<TimerState, "state">): void {
    const has = this.timer(tenantId, serviceCallId);
    const isNewer = !has || timestampMs > has.timestampMs || (timestampMs === has.timestampMs && id > has.commandId);
    if (isNewer && has?.state !== "Reached" && has?.state !== "Expired") {
      this.#timers.set(`${tenantId}.${serviceCallId}`, { ...to, tenantId, serviceCallId, commandId: id, timestampMs });
    }
  }

  #next(until: number): TimerState | undefined {
    const at = (t: TimerState) => (t.state === "Scheduled" && !this.#paused ? Date.parse(t.dueAt!) : Infinity);
    return [...this.#timers.values()].filter((t) => at(t) <= until).sort((a, b) => at(a) - at(b))[0];
  }

  async #fire(t: TimerState): Promise<void> {
    const { tenantId, serviceCallId, commandId, dueAt, expiresAt, correlationId, data } = t;
    const at = new Date(this.#now).toISOString();
    t.state = expiresAt !== undefined && at >= expiresAt ? "Expired" : "Reached";
    const [type, which] = t.state === "Expired" ? ["TimerExpired", "expiredAt"] : ["DueTimeReached", "reachedAt"];
    // The id is made of the due time and of a hash, so that it is the same however often the event is published.
    const hash = createHash("sha256");
    for (const text of [tenantId, serviceCallId, commandId]) hash.update(Uint8Array.of(0, 0, 0, text.length)).update(text);
    const bytes = Buffer.concat([Buffer.alloc(6), hash.digest()]).subarray(0, 16);
    bytes.writeUIntBE(Date.parse(dueAt!), 0, 6);
    const id = uuid(bytes);
    const payload = { tenantId, serviceCallId, dueAt, expiresAt, [which!]: at };
    const whole = JSON.stringify({ id, type, tenantId, aggregateId: serviceCallId, timestampMs: this.#now, correlationId, payload });
    const body = data === undefined ? whole : `${whole.slice(0, -2)},"data":${data}}}`;
    const headers = JSON.parse(JSON.stringify({ type, tenantId, serviceCallId, messageId: id, correlationId }));
    this.events.push({ topic: topicOf(this.#options.topics.events, tenantId), body, headers });
    for (const handle of this.#subscribers) await handle(body, headers);
  }
}
