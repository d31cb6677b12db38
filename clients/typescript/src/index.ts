export { type ClientOptions, type Context, NotConfirmed, type Selection, type Sent, type Timer, TimerClient, topicOf, topics, type Transport } from "./client.js";
export * from "./consumer.js";
export type * from "./contract.js";
export { decode, decodeDeadLetter, type Headers, type Message, parseTime, type Trace } from "./decode.js";
export { InvalidMessage } from "./json.js";
