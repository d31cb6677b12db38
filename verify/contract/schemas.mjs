// Compiles each schema of a folder with a strict validator, which takes its examples, and
// prints the types that a generator of code makes of it.
import { readFileSync, readdirSync } from "node:fs";
import Ajv2020 from "ajv/dist/2020.js";
import { compile } from "json-schema-to-typescript";

const dir = process.argv[2];
for (const file of readdirSync(dir).filter((name) => name.endsWith(".json") && name !== "asyncapi.json")) {
  const schema = JSON.parse(readFileSync(`${dir}/${file}`, "utf8"));
  const validate = new Ajv2020.default({ strict: true }).compile(schema);
  for (const example of schema.examples ?? []) {
    if (!validate(example)) throw new Error(`${file}: ${JSON.stringify(validate.errors)}`);
  }
  console.log(await compile(schema, file, { bannerComment: "" }));
}
