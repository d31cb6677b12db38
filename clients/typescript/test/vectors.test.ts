import assert from "node:assert/strict";
import { test } from "node:test";
import { decode, InvalidMessage, parseTime } from "../src/index.js";
import { bodyOf, textOf, vectors } from "./vectors.js";

test("malformed messages are refused", () => {
  const all = vectors("refused");
  assert(all.length > 100);
  for (const v of all) {
    assert.throws(() => decode(bodyOf(v)), (error) => {
      assert(error instanceof InvalidMessage, `${v.name}: ${error}`);
      assert.equal(error.reason, v.reason, `${v.name}: ${error.message}`);
      return true;
    }, v.name);
  }
});

test("messages are read", () => {
  const whole = new Map<string, unknown>();
  for (const v of vectors("accepted")) {
    if (v.of && v.replace === undefined) whole.set(v.of, v.as);
    const as = v.as ?? whole.get(v.of);
    assert.deepEqual(decode(bodyOf(v)), as.payload ? as : undefined, `${v.of} ${v.name}`);
    assert.deepEqual(decode(Buffer.from(bodyOf(v))), as.payload ? as : undefined, v.name);
  }
});

test("times are rounded up, or refused", () => {
  for (const v of vectors("times")) {
    if (v.kept === undefined) assert.throws(() => parseTime(textOf(v.time)), { reason: "bad_time" }, v.time);
    else assert.equal(parseTime(textOf(v.time)), v.kept);
  }
});
