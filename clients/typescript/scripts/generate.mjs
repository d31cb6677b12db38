// Makes src/contract.ts of the JSON Schemas in envelope/schema. With --check it only says whether that is current.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

const schemas = new URL("../../../envelope/schema/", import.meta.url);
const target = new URL("../src/contract.ts", import.meta.url);
const files = readdirSync(schemas).filter((file) => /^[A-Z]\w*\.json$/.test(file)).sort();
const all = Object.fromEntries(files.map((file) => [file.slice(0, -5), JSON.parse(readFileSync(new URL(file, schemas), "utf8"))]));
const messages = Object.keys(all).filter((name) => !/CloudEvent$|Headers$/.test(name));

const types = new Map();
const comment = (schema, indent) => (schema.description ? `${indent}/** ${schema.description} */\n` : "");

// typeOf returns the TypeScript type of a schema. An object that has a title becomes an interface. What is
// absent or null is absent in a message that was decoded, except for data.
function typeOf(schema, name = schema.title) {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((v) => JSON.stringify(v)).join(" | ");
  const kinds = [schema.type].flat();
  if (kinds.length > 2) return "unknown";
  switch (kinds[0]) {
    case "integer": return "number";
    case "array": return `${typeOf(schema.items)}[]`;
    case "object": break;
    default: return kinds[0];
  }
  const fields = Object.entries(schema.properties).filter(([, field]) => field.type !== "null").map(([key, field]) =>
    `${comment(field, "  ")}  ${/^\w+$/.test(key) ? key : JSON.stringify(key)}${schema.required?.includes(key) ? "" : "?"}: ${typeOf(field)};\n`);
  types.set(name, `${comment(schema, "")}export interface ${name} {\n${fields.join("")}}\n`);
  return name;
}

// rules returns what the decoder needs of a schema.
function rules({ type, const: only, pattern, required, properties, items, minItems, maxItems, maximum, not, oneOf }) {
  const each = properties && Object.fromEntries(Object.entries(properties).map(([key, field]) => [key, rules(field)]));
  return { type, const: only, pattern, required, properties: each, items: items && rules(items), minItems, maxItems, maximum, not, one: oneOf?.flatMap((o) => o.required) };
}

for (const name of messages) typeOf(all[name], name);
// A dead letter has the headers that are its own without their prefix.
const headers = all.DeadLetterHeaders;
const short = (name) => name.replace(/^deadLetter(.)/, (_, first) => first.toLowerCase());
const letter = { title: "DeadLetter", type: "object", description: "A command that the service refused for good.", required: headers.required.map(short) };
letter.properties = Object.fromEntries(Object.entries(headers.properties).map(([name, field]) => [short(name), field]));
typeOf(letter);
const union = (of) => messages.filter((name) => of.test(name)).join(" | ");
const tables = Object.keys(all).filter((name) => !/Headers$/.test(name)).map((name) => `  ${name}: ${JSON.stringify(rules(all[name]))},\n`);
const text = `// Made by scripts/generate.mjs of the JSON Schemas in envelope/schema: change those, then run npm run generate.

${[...types.values()].join("\n")}
export type Command = ${union(/^(Schedule|Reschedule|Cancel)/)};
export type Event = ${union(/^(DueTimeReached|TimerExpired)$/)};
export type Receipt = ${union(/^Timer(Scheduled|Canceled|Ignored|Rejected)$/)};

/** Why a message is refused. More words may come. */
export type Reason = ${headers.properties.deadLetterReason.examples.map((v) => JSON.stringify(v)).join(" | ")} | (string & {});

/** A JSON Schema, as far as the decoder needs it. */
export interface Schema {
  type?: string | string[];
  const?: string;
  pattern?: string;
  required?: string[];
  properties?: Record<string, Schema>;
  items?: Schema;
  minItems?: number;
  maxItems?: number;
  maximum?: number;
  not?: { enum?: string[]; required?: string[] };
  one?: string[]; // exactly one of these fields is given
}

export const schemas: Record<string, Schema> = {
${tables.join("")}};

/** The headers of a dead letter, by the fields of a DeadLetter. */
export const letterHeaders: Record<keyof DeadLetter, string> = ${JSON.stringify(Object.fromEntries(Object.keys(headers.properties).map((name) => [short(name), name])))};
`;

if (process.argv.includes("--check")) {
  if (readFileSync(target, "utf8") !== text) throw new Error("src/contract.ts is not what the schemas say: run npm run generate");
} else {
  writeFileSync(target, text);
}
