import type { Reason } from "./contract.js";

/** Says why a message is not one of the contract, by the word that its dead letter would have. */
export class InvalidMessage extends Error {
  override readonly name = "InvalidMessage";
  readonly reason: Reason;

  constructor(reason: Reason, detail: string) {
    super(detail);
    this.reason = reason;
  }
}

const maxBytes = 64 * 1024;
const maxDepth = 16;
const tokens = /"[^"\\]*(?:\\.[^"\\]*)*"?|[{}[\]:,]|[^\s{}[\]:,"]+/g;

/**
 * Parses a body strictly: at most 64 KiB of valid UTF-8, one object, nested at most 16 deep, no key twice in an object. It
 * also returns the texts of values as they are written, by their paths, such as "payload.timers[0].data".
 */
export function parse(body: string | Uint8Array): { value: Record<string, unknown>; texts: Map<string, string> } {
  const text = toText(body);
  let depth = 0;
  for (const [token] of text.matchAll(tokens)) {
    depth += "{[".includes(token) ? 1 : "}]".includes(token) ? -1 : 0;
    if (depth > maxDepth) throw new InvalidMessage("too_deep", `body is nested deeper than ${maxDepth}`);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new InvalidMessage("not_json", `body is not JSON: ${(error as Error).message.slice(0, 200)}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new InvalidMessage("not_json", "body is not an object");

  const texts = new Map<string, string>();
  const open: { path: string; from: number; items: number; keys: Set<string> | undefined; key: string | undefined }[] = [];
  for (const { 0: token, index } of text.matchAll(tokens)) {
    const top = open.at(-1);
    const plain: string = token[0] === '"' ? JSON.parse(token) : "";
    if (!plain.isWellFormed()) throw new InvalidMessage("not_json", "body has half of a surrogate pair");
    if (token === ",") {
      top!.key = undefined;
    } else if ("}]".includes(token)) {
      texts.set(top!.path, text.slice(top!.from, index + 1));
      open.pop();
    } else if (top?.keys && top.key === undefined) {
      if (top.keys.has(plain)) throw new InvalidMessage("duplicate_key", `key ${JSON.stringify(plain.slice(0, 80))} occurs twice`);
      top.keys.add((top.key = plain));
    } else if (token !== ":") {
      const step = !top ? "" : top.keys ? `.${/^\w+$/.test(top.key!) ? top.key : "?"}` : `[${top.items++}]`; // "a.b" is no path
      const path = `${top?.path ?? ""}${step}`.replace(/^\./, "");
      if ("{[".includes(token)) open.push({ path, from: index, items: 0, keys: token === "{" ? new Set() : undefined, key: undefined });
      else texts.set(path, token);
    }
  }
  return { value: value as Record<string, unknown>, texts };
}

function toText(body: string | Uint8Array): string {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  if (bytes.length > maxBytes) throw new InvalidMessage("too_large", `body has ${bytes.length} bytes, of at most ${maxBytes}`);
  if (typeof body === "string") return body; // what is not well-formed is refused as such
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new InvalidMessage("not_utf8", "body is not UTF-8");
  }
}
