import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const repository = new URL("../../../../", import.meta.url);
const file = (name: string) => readFileSync(new URL(name, repository), "utf8");
export const vectors = (name: string): any[] => JSON.parse(file(`envelope/schema/vectors/${name}.json`));

/** The text of a vector, which may be a list of texts and of pairs. */
export const textOf = (text: string | (string | [string, number])[] = ""): string =>
  [text].flat().map((part) => (typeof part === "string" ? part : part[0].repeat(part[1]))).join("");

export function bodyOf(v: any): string | Uint8Array {
  if (v.base64 !== undefined) return Buffer.from(v.base64, "base64");
  if (v.of === undefined) return textOf(v.body);
  const whole = file(`envelope/testdata/${v.of}`);
  const [piece, replaced] = [v.replace ?? "", textOf(v.with)];
  assert(whole.includes(piece), `${v.of} has no ${piece}`);
  return whole.replace(piece, () => replaced);
}
