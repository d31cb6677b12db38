import { type Command, type DeadLetter, type Event, letterHeaders, type Receipt, type Schema, schemas } from "./contract.js";
import { InvalidMessage, parse } from "./json.js";

/** Headers as client libraries have them: values may be bytes, numbers or lists. */
export type Headers = Record<string, unknown>;

/** The W3C trace of a message, from its CloudEvent or its headers. */
export interface Trace { traceparent?: string; tracestate?: string }

export type Message = (Command | Event | Receipt) & Trace;

/**
 * Decodes a message, an envelope or a CloudEvent, as strictly as the service does. Times are in UTC and milliseconds,
 * and what is null is absent, except data. A correlation id and a trace that the body lacks come from the headers.
 * The result is undefined for another type: acknowledge such a message, and do nothing else. Throws InvalidMessage.
 */
export function decode(body: string | Uint8Array, headers: Headers = {}): Message | undefined {
  return read(body, headers)?.message;
}

/** Decodes a message, and returns the texts of its values, too. */
export function read(body: string | Uint8Array, headers: Headers): { message: Message; texts: Map<string, string> } | undefined {
  const { value, texts } = parse(body);
  const isCloudEvent = Object.hasOwn(value, "specversion");
  const { type } = readObject(value, { properties: { type: { pattern: "." } }, required: ["type"] }, "", texts);
  const schema = schemas[`${type}${isCloudEvent ? "CloudEvent" : ""}`];
  if (!Object.hasOwn(schemas, type) || !schema || type.endsWith("CloudEvent")) return undefined;
  const fields = readObject(value, schema, "", texts);
  const message = isCloudEvent ? fromCloudEvent(fields) : fields;
  const { payload } = message;
  if (payload.tenantId !== message.tenantId) throw new InvalidMessage("tenant_mismatch", "the payload names another tenant");
  if ((message.aggregateId ?? payload.serviceCallId) !== payload.serviceCallId) {
    throw new InvalidMessage("key_mismatch", "the message and its payload do not name the same service call");
  }
  if (payload.expiresAt !== undefined && (payload.reachedAt >= payload.expiresAt || payload.expiredAt < payload.expiresAt)) {
    throw new InvalidMessage("bad_time", "a timer expires at expiresAt or later, and is reached before");
  }
  message.correlationId ??= matching(header(headers, "correlationId"), /^[!-~]{1,128}$/);
  const trace = isCloudEvent ? traceOf(value.traceparent, value.tracestate) : {};
  Object.assign(message, trace.traceparent ? trace : traceOf(header(headers, "traceparent"), header(headers, "tracestate")));
  return { message: present(message) as Message, texts };
}

/** Reads an object by its schema. */
function readObject(from: unknown, schema: Schema, path: string, texts: Map<string, string>): Record<string, any> {
  if (typeof from !== "object" || from === null || Array.isArray(from)) throw bad(path, "is not an object");
  const given: Record<string, unknown> = Object.assign(Object.create(null), from);
  const to: Record<string, any> = {};
  if (schema.not?.required?.some((key) => key in given)) throw bad(path, "is both an envelope and a CloudEvent");
  for (const [key, field] of Object.entries(schema.properties ?? {})) {
    const v = given[key];
    const at = path + key;
    if (key === "data" && Array.isArray(field.type) && v !== undefined) {
      if (Buffer.byteLength(texts.get(at)!) > 4096) throw new InvalidMessage("too_large", `${at} has more than 4096 bytes`);
      to.data = v;
    } else if (v !== undefined && v !== null) {
      to[key] = readValue(v, field, at, texts);
    } else if (schema.required?.includes(key)) {
      throw new InvalidMessage("missing_field", `${at} is missing`);
    }
  }
  if (schema.one && schema.one.filter((key) => to[key] !== undefined).length !== 1) {
    throw new InvalidMessage("missing_field", `give exactly one of ${schema.one.map((key) => path + key).join(", ")}`);
  }
  if (to.expiresAt <= to.dueAt) throw new InvalidMessage("bad_time", `${path}expiresAt is not after dueAt`);
  return to;
}

// What no schema says of the attributes of a CloudEvent: a URI-reference of RFC 3986, and a media type of RFC 2045.
const token = /[^\0-\x20\x7f-\uffff()<>@,;:\\"/[\]?=]+/.source;
const grammars: Record<string, RegExp> = {
  source: /^(?:[A-Za-z][A-Za-z0-9+.-]*:|(?![^/?#]*:))(?:\/\/(?:[^/?#[\]]*@)?(?:\[[0-9A-Fa-f:.]+\]|[^:/?#@[\]%]*)(?::\d*)?(?=[/?#]|$)|(?!\/\/))/,
  datacontenttype: new RegExp(`^\\s*${token}/${token}\\s*(?:;\\s*${token}\\s*=\\s*(?:${token}|"(?:[^"\\\\\r\n]|\\\\.)*")\\s*)*(?:;\\s*)?$`),
};

function readValue(v: unknown, schema: Schema, path: string, texts: Map<string, string>): unknown {
  const key = path.slice(path.lastIndexOf(".") + 1);
  switch ([schema.type ?? "string"].flat()[0]) {
    case "null":
      throw new InvalidMessage(key === "data_base64" ? "bad_field" : "key_mismatch", `${path} is not allowed`);
    case "object":
      return readObject(v, schema, `${path}.`, texts);
    case "array":
      return readArray(v, schema, path, texts);
    case "integer":
      if (!/^\d+$/.test(texts.get(path)!)) throw bad(path, "is not an integer");
      if (Number(v) > (schema.maximum ?? Infinity)) throw new InvalidMessage("bad_time", `${path} is too large`);
      return v;
  }
  if (typeof v !== "string") throw bad(path, "is not a string");
  if (/^(aggregateId|subject|(payload|data)\.tenantId)$/.test(path)) return v; // it is compared with another field
  if (/^(dueAt|expiresAt|reachedAt|expiredAt|time)$/.test(key)) return parseTime(v, key !== "time", path);
  if (v === "" && key !== "datacontenttype") throw new InvalidMessage("missing_field", `${path} is empty`);
  const fits = schema.pattern ? new RegExp(schema.pattern, "s").test(v) && (grammars[path]?.test(v) ?? true) : v === (schema.const ?? v);
  if (!fits || schema.not?.enum?.includes(v)) throw bad(path, "has another form");
  return v;
}

function readArray(v: unknown, schema: Schema, path: string, texts: Map<string, string>): unknown[] {
  if (!Array.isArray(v)) throw bad(path, "is not an array");
  if (v.length < schema.minItems!) throw new InvalidMessage("missing_field", `${path} is empty`);
  if (v.length > schema.maxItems!) throw bad(path, `has more than ${schema.maxItems} items`);
  const seen = new Set<unknown>();
  return v.map((item: unknown, i) => {
    const one = readValue(item, schema.items!, `${path}[${i}]`, texts) as { serviceCallId?: string };
    const calls = seen.size;
    if (seen.add(one.serviceCallId ?? one).size === calls) throw bad(`${path}[${i}]`, "names a service call again");
    return one;
  });
}

const bad = (path: string, what: string) => new InvalidMessage("bad_field", `${path.replace(/\.$/, "") || "body"} ${what}`);

function fromCloudEvent({ id, type, tenantid, subject, time, correlationid, causationid, data }: Record<string, any>): Record<string, any> {
  const tenantId = tenantid ?? readValue(data.tenantId, schemas.CancelTimer!.properties!.tenantId!, "tenantid", new Map());
  return { id, type, tenantId, aggregateId: subject, timestampMs: Date.parse(time), correlationId: correlationid, causationId: causationid, payload: data };
}

const timeForm = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))$/i;

/** Reads a time: RFC 3339 with a zone, in the years 2000 to 2200. It returns UTC; what is finer than a millisecond is rounded up, or else down. */
export function parseTime(text: string, up = true, path = "time"): string {
  const found = timeForm.exec(text) ?? [];
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map(Number) as [number, number, number, number, number, number];
  const [fraction = "", sign, hours = "0", minutes = "0"] = found.slice(7);
  const offset = Number(hours) * 60 + Number(minutes);
  const exists = month >= 1 && month <= 12 && day >= 1 && day <= new Date(Date.UTC(year, month, 0)).getUTCDate() && hour < 24 && minute < 60 && second < 60;
  if (!exists || Number(minutes) > 59 || offset > 14 * 60) throw new InvalidMessage("bad_time", `${path} is not RFC 3339 with a zone`);
  const finer = up && /[1-9]/.test(fraction.slice(3)) ? 1 : 0;
  const local = Date.UTC(year, month - 1, day, hour, minute, second, Number(fraction.slice(0, 3).padEnd(3, "0")) + finer);
  const utc = local - (sign === "-" ? -offset : offset) * 60_000;
  if (utc < Date.UTC(2000, 0) || utc >= Date.UTC(2201, 0)) throw new InvalidMessage("bad_time", `${path} is outside the years 2000 to 2200`);
  return new Date(utc).toISOString();
}

/** Returns the text of a header, whose name may be in any case. */
function header(headers: Headers, name: string): string | undefined {
  const key = name in headers ? name : Object.keys(headers).find((k) => k.toLowerCase() === name.toLowerCase());
  const v = [headers[key ?? name]].flat()[0] ?? undefined;
  return v instanceof Uint8Array ? new TextDecoder().decode(v) : v === undefined ? undefined : String(v);
}

const matching = (v: unknown, form: RegExp): string | undefined => (typeof v === "string" && form.test(v) ? v : undefined);
const present = <T extends object>(from: T): object => Object.fromEntries(Object.entries(from).filter(([, v]) => v !== undefined));

function traceOf(parent: unknown, state: unknown): Trace {
  const traceparent = matching(parent, /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/);
  const tracestate = traceparent && matching(typeof state === "string" ? state.replace(/^ +| +$/g, "") : "", /^[ -~]{1,512}$/);
  return present({ traceparent, tracestate });
}

/** Decodes a dead letter, whose body is the command, byte for byte. The result is undefined for another message, such as a mark of an operator. */
export function decodeDeadLetter(headers: Headers): DeadLetter | undefined {
  if (header(headers, "type") !== "DeadLetter") return undefined;
  return present(Object.fromEntries(Object.entries(letterHeaders).map(([field, name]) => [field, header(headers, name)]))) as DeadLetter;
}
