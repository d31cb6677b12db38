import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

test("the package has the compiled sources, its page and its licence alone, and no dependency", () => {
  const cwd = fileURLToPath(new URL("../../", import.meta.url));
  const [pack] = JSON.parse(execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd, encoding: "utf8", shell: process.platform === "win32" }));
  const sources = ["client", "consumer", "contract", "decode", "index", "json", "testing"];
  assert.deepEqual(
    pack.files.map((f: { path: string }) => f.path).sort(),
    ["LICENSE", "README.md", "package.json", ...sources.flatMap((s) => [`dist/src/${s}.d.ts`, `dist/src/${s}.js`])].sort(),
  );
  assert.equal(JSON.parse(readFileSync(`${cwd}package.json`, "utf8")).dependencies, undefined);
});

test("the page has pieces of programs that run", () => {
  const file = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), "utf8");
  const pieces = [...file("README.md").matchAll(/<!-- (\S+) -->\n```ts\n(.*?)```/gs)];
  assert.equal(pieces.length, 2);
  for (const [, name, piece] of pieces) assert(file(`examples/${name}`).includes(piece!), `${name} has no\n${piece}`);
});
