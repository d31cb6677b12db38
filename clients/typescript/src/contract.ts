// Made by scripts/generate.mjs of the JSON Schemas in envelope/schema: change those, then run npm run generate.

export interface CancelTimerPayload {
  /** With the tenant, the key of the timer. */
  serviceCallId: string;
  /** The same as in the message. */
  tenantId: string;
}

/** Takes a timer back that has not fired. */
export interface CancelTimer {
  /** The service call id. */
  aggregateId?: string;
  /** Id of the message that caused this one. */
  causationId?: string;
  /** Trace of the request. */
  correlationId?: string;
  /** Unique per message: the key to drop repetitions by. */
  id: string;
  payload: CancelTimerPayload;
  /** Who owns the timer. */
  tenantId: string;
  /** The producer's time in Unix milliseconds; of commands at most 24 hours ahead of the service's clock. */
  timestampMs: number;
  type: "CancelTimer";
}

export interface CancelTimersPayload {
  /** The timers that carry it. */
  correlationId?: string;
  /** The timers whose service call begins so. */
  prefix?: string;
  /** The timers of these service calls, each named once. One that has no timer leaves a tombstone. */
  serviceCallIds?: string[];
  /** The same as in the message. */
  tenantId: string;
}

/** Takes many timers of one tenant back that have not fired. */
export interface CancelTimers {
  /** Id of the message that caused this one. */
  causationId?: string;
  /** Trace of the request. */
  correlationId?: string;
  /** Unique per message: the key to drop repetitions by. */
  id: string;
  payload: CancelTimersPayload;
  /** Who owns the timer. */
  tenantId: string;
  /** The producer's time in Unix milliseconds; of commands at most 24 hours ahead of the service's clock. */
  timestampMs: number;
  type: "CancelTimers";
}

export interface DueTimeReachedPayload {
  /** Any JSON value of at most 4096 bytes as written. The event has it byte for byte. */
  data?: unknown;
  /** When the timer fires: RFC 3339 with a zone, kept in milliseconds, rounded up. */
  dueAt: string;
  /** From when on the timer must not fire any more: RFC 3339 with a zone, kept in milliseconds, rounded up, after dueAt. */
  expiresAt?: string;
  /** When it fired, by the clock of the service. Never before dueAt. */
  reachedAt: string;
  /** With the tenant, the key of the timer. */
  serviceCallId: string;
  /** The same as in the message. */
  tenantId: string;
}

/** Says that the time of a timer has come. */
export interface DueTimeReached {
  /** The service call id. */
  aggregateId: string;
  /** Id of the message that caused this one. */
  causationId?: string;
  /** Trace of the request. */
  correlationId?: string;
  /** Unique per message: the key to drop repetitions by. */
  id: string;
  payload: DueTimeReachedPayload;
  /** Who owns the timer. */
  tenantId: string;
  /** The producer's time in Unix milliseconds; of commands at most 24 hours ahead of the service's clock. */
  timestampMs: number;
  type: "DueTimeReached";
}

export interface RescheduleTimersPayload {
  /** The timers that carry it. */
  correlationId?: string;
  /** When the timer fires: RFC 3339 with a zone, kept in milliseconds, rounded up. */
  dueAt: string;
  /** The timers whose service call begins so. */
  prefix?: string;
  /** The timers of these service calls, each named once. One that has no timer is left out. */
  serviceCallIds?: string[];
  /** The same as in the message. */
  tenantId: string;
}

/** Moves many timers of one tenant that have not fired. */
export interface RescheduleTimers {
  /** Id of the message that caused this one. */
  causationId?: string;
  /** Trace of the request. */
  correlationId?: string;
  /** Unique per message: the key to drop repetitions by. */
  id: string;
  payload: RescheduleTimersPayload;
  /** Who owns the timer. */
  tenantId: string;
  /** The producer's time in Unix milliseconds; of commands at most 24 hours ahead of the service's clock. */
  timestampMs: number;
  type: "RescheduleTimers";
}

export interface ScheduleTimerPayload {
  /** Any JSON value of at most 4096 bytes as written. The event has it byte for byte. */
  data?: unknown;
  /** When the timer fires: RFC 3339 with a zone, kept in milliseconds, rounded up. */
  dueAt: string;
  /** From when on the timer must not fire any more: RFC 3339 with a zone, kept in milliseconds, rounded up, after dueAt. */
  expiresAt?: string;
  /** With the tenant, the key of the timer. */
  serviceCallId: string;
  /** The same as in the message. */
  tenantId: string;
}

/** Asks for one DueTimeReached at dueAt, or a TimerExpired in its place. */
export interface ScheduleTimer {
  /** The service call id. */
  aggregateId?: string;
  /** Id of the message that caused this one. */
  causationId?: string;
  /** Trace of the request. */
  correlationId?: string;
  /** Unique per message: the key to drop repetitions by. */
  id: string;
  payload: ScheduleTimerPayload;
  /** Who owns the timer. */
  tenantId: string;
  /** The producer's time in Unix milliseconds; of commands at most 24 hours ahead of the service's clock. */
  timestampMs: number;
  type: "ScheduleTimer";
}

export interface ScheduleTimersItem {
  /** Any JSON value of at most 4096 bytes as written. The event has it byte for byte. */
  data?: unknown;
  /** When the timer fires: RFC 3339 with a zone, kept in milliseconds, rounded up. */
  dueAt: string;
  /** From when on the timer must not fire any more: RFC 3339 with a zone, kept in milliseconds, rounded up, after dueAt. */
  expiresAt?: string;
  /** With the tenant, the key of the timer. */
  serviceCallId: string;
}

export interface ScheduleTimersPayload {
  /** The same as in the message. */
  tenantId: string;
  /** The timers. Each names another service call. */
  timers: ScheduleTimersItem[];
}

/** Asks for many timers of one tenant. */
export interface ScheduleTimers {
  /** Id of the message that caused this one. */
  causationId?: string;
  /** Trace of the request. */
  correlationId?: string;
  /** Unique per message: the key to drop repetitions by. */
  id: string;
  payload: ScheduleTimersPayload;
  /** Who owns the timer. */
  tenantId: string;
  /** The producer's time in Unix milliseconds; of commands at most 24 hours ahead of the service's clock. */
  timestampMs: number;
  type: "ScheduleTimers";
}

export interface TimerCanceledPayload {
  /** With the tenant, the key of the timer. */
  serviceCallId: string;
  /** The same as in the message. */
  tenantId: string;
}

/** Says that the timer of a CancelTimer is canceled. */
export interface TimerCanceled {
  /** The service call id. */
  aggregateId?: string;
  /** Id of the message that caused this one. */
  causationId?: string;
  /** Trace of the request. */
  correlationId?: string;
  /** Unique per message: the key to drop repetitions by. */
  id: string;
  payload: TimerCanceledPayload;
  /** Who owns the timer. */
  tenantId: string;
  /** The producer's time in Unix milliseconds; of commands at most 24 hours ahead of the service's clock. */
  timestampMs: number;
  type: "TimerCanceled";
}

export interface TimerExpiredPayload {
  /** Any JSON value of at most 4096 bytes as written. The event has it byte for byte. */
  data?: unknown;
  /** When the timer fires: RFC 3339 with a zone, kept in milliseconds, rounded up. */
  dueAt: string;
  /** When it expired, by the clock of the service. Never before expiresAt. */
  expiredAt: string;
  /** From when on the timer must not fire any more: RFC 3339 with a zone, kept in milliseconds, rounded up, after dueAt. */
  expiresAt: string;
  /** With the tenant, the key of the timer. */
  serviceCallId: string;
  /** The same as in the message. */
  tenantId: string;
}

/** Says that a timer did not fire before it expired. It comes in place of a DueTimeReached. */
export interface TimerExpired {
  /** The service call id. */
  aggregateId: string;
  /** Id of the message that caused this one. */
  causationId?: string;
  /** Trace of the request. */
  correlationId?: string;
  /** Unique per message: the key to drop repetitions by. */
  id: string;
  payload: TimerExpiredPayload;
  /** Who owns the timer. */
  tenantId: string;
  /** The producer's time in Unix milliseconds; of commands at most 24 hours ahead of the service's clock. */
  timestampMs: number;
  type: "TimerExpired";
}

export interface TimerIgnoredPayload {
  /** Of a TimerIgnored stale (a newer command was accepted before) reached (the timer has fired) expired (the timer has expired) or past_expiry (it would be due after it expires); of a TimerRejected the reason of its dead letter. More words may come. */
  reason: string;
  /** With the tenant, the key of the timer. */
  serviceCallId: string;
  /** The same as in the message. */
  tenantId: string;
}

/** Says that a command has no effect. */
export interface TimerIgnored {
  /** The service call id. */
  aggregateId?: string;
  /** Id of the message that caused this one. */
  causationId?: string;
  /** Trace of the request. */
  correlationId?: string;
  /** Unique per message: the key to drop repetitions by. */
  id: string;
  payload: TimerIgnoredPayload;
  /** Who owns the timer. */
  tenantId: string;
  /** The producer's time in Unix milliseconds; of commands at most 24 hours ahead of the service's clock. */
  timestampMs: number;
  type: "TimerIgnored";
}

export interface TimerRejectedPayload {
  /** The reason for people. */
  detail: string;
  /** Of a TimerIgnored stale (a newer command was accepted before) reached (the timer has fired) expired (the timer has expired) or past_expiry (it would be due after it expires); of a TimerRejected the reason of its dead letter. More words may come. */
  reason: string;
  /** With the tenant, the key of the timer. */
  serviceCallId?: string;
  /** The same as in the message. */
  tenantId: string;
}

/** Says that a command was refused. */
export interface TimerRejected {
  /** The service call id. */
  aggregateId?: string;
  /** Id of the message that caused this one. */
  causationId?: string;
  /** Trace of the request. */
  correlationId?: string;
  /** Unique per message: the key to drop repetitions by. */
  id: string;
  payload: TimerRejectedPayload;
  /** Who owns the timer. */
  tenantId: string;
  /** The producer's time in Unix milliseconds; of commands at most 24 hours ahead of the service's clock. */
  timestampMs: number;
  type: "TimerRejected";
}

export interface TimerScheduledPayload {
  /** When the timer fires: RFC 3339 with a zone, kept in milliseconds, rounded up. */
  dueAt: string;
  /** With the tenant, the key of the timer. */
  serviceCallId: string;
  /** The same as in the message. */
  tenantId: string;
}

/** Says that a command set the due time of its timer. */
export interface TimerScheduled {
  /** The service call id. */
  aggregateId?: string;
  /** Id of the message that caused this one. */
  causationId?: string;
  /** Trace of the request. */
  correlationId?: string;
  /** Unique per message: the key to drop repetitions by. */
  id: string;
  payload: TimerScheduledPayload;
  /** Who owns the timer. */
  tenantId: string;
  /** The producer's time in Unix milliseconds; of commands at most 24 hours ahead of the service's clock. */
  timestampMs: number;
  type: "TimerScheduled";
}

/** A command that the service refused for good. */
export interface DeadLetter {
  /** Trace of the request. */
  correlationId?: string;
  /** How often it became one. */
  count: string;
  /** The reason for people. */
  detail: string;
  /** When it first became a dead letter. */
  firstAt: string;
  /** When it last became one. */
  lastAt: string;
  /** Id of the original. */
  originalId?: string;
  /** Position of the original in its topic. */
  position?: string;
  /** Why the message was refused. More words may come. */
  reason: string;
  /** How often it was replayed. */
  replays: string;
  /** Topic of the original. */
  topic: string;
  /** The broker refused so large a body, and the rest of it was cut off. */
  truncated?: "true";
  /** An id of the dead letter's own. */
  messageId: string;
  /** Whose dead letter it is; _ if no valid tenant is named. */
  tenantId: string;
  type: "DeadLetter";
}

export type Command = CancelTimer | CancelTimers | RescheduleTimers | ScheduleTimer | ScheduleTimers;
export type Event = DueTimeReached | TimerExpired;
export type Receipt = TimerCanceled | TimerIgnored | TimerRejected | TimerScheduled;

/** Why a message is refused. More words may come. */
export type Reason = "bad_field" | "bad_time" | "beyond_horizon" | "duplicate_key" | "key_mismatch" | "missing_field" | "not_handled" | "not_json" | "not_utf8" | "over_quota" | "refused" | "tenant_mismatch" | "too_deep" | "too_large" | "unknown_type" | (string & {});

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
  CancelTimer: {"type":"object","required":["id","type","tenantId","timestampMs","payload"],"properties":{"aggregateId":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"causationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"payload":{"type":"object","required":["tenantId","serviceCallId"],"properties":{"serviceCallId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"timestampMs":{"type":"integer","maximum":9007199254740991},"type":{"const":"CancelTimer"}},"not":{"required":["specversion"]}},
  CancelTimerCloudEvent: {"type":"object","required":["specversion","id","source","type","time","data"],"properties":{"causationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"data":{"type":"object","required":["tenantId","serviceCallId"],"properties":{"serviceCallId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}},"data_base64":{"type":"null"},"datacontenttype":{"type":["string","null"],"pattern":"^[^;/]+/([^;]*\\+)?[Jj][Ss][Oo][Nn][^!-~]*(;|$)"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"source":{"type":"string","pattern":"^([A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$"},"specversion":{"const":"1.0"},"subject":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantid":{"type":["string","null"],"pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"time":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"type":{"const":"CancelTimer"}},"not":{"required":["tenantId"]}},
  CancelTimers: {"type":"object","required":["id","type","tenantId","timestampMs","payload"],"properties":{"aggregateId":{"type":"null"},"causationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"payload":{"type":"object","required":["tenantId"],"properties":{"correlationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"prefix":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$"},"serviceCallIds":{"type":["array","null"],"items":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"minItems":1,"maxItems":500},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}},"one":["correlationId","prefix","serviceCallIds"]},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"timestampMs":{"type":"integer","maximum":9007199254740991},"type":{"const":"CancelTimers"}},"not":{"required":["specversion"]}},
  CancelTimersCloudEvent: {"type":"object","required":["specversion","id","source","type","time","data"],"properties":{"causationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"data":{"type":"object","required":["tenantId"],"properties":{"correlationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"prefix":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$"},"serviceCallIds":{"type":["array","null"],"items":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"minItems":1,"maxItems":500},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}},"one":["correlationId","prefix","serviceCallIds"]},"data_base64":{"type":"null"},"datacontenttype":{"type":["string","null"],"pattern":"^[^;/]+/([^;]*\\+)?[Jj][Ss][Oo][Nn][^!-~]*(;|$)"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"source":{"type":"string","pattern":"^([A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$"},"specversion":{"const":"1.0"},"subject":{"type":"null"},"tenantid":{"type":["string","null"],"pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"time":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"type":{"const":"CancelTimers"}},"not":{"required":["tenantId"]}},
  DueTimeReached: {"type":"object","required":["id","type","tenantId","timestampMs","payload","aggregateId"],"properties":{"aggregateId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"causationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"payload":{"type":"object","required":["tenantId","serviceCallId","dueAt","reachedAt"],"properties":{"data":{"type":["object","array","string","number","boolean","null"]},"dueAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"expiresAt":{"type":["string","null"],"pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"reachedAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"serviceCallId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"timestampMs":{"type":"integer","maximum":9007199254740991},"type":{"const":"DueTimeReached"}},"not":{"required":["specversion"]}},
  DueTimeReachedCloudEvent: {"type":"object","required":["specversion","id","source","type","time","data","subject"],"properties":{"causationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"data":{"type":"object","required":["tenantId","serviceCallId","dueAt","reachedAt"],"properties":{"data":{"type":["object","array","string","number","boolean","null"]},"dueAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"expiresAt":{"type":["string","null"],"pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"reachedAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"serviceCallId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}},"data_base64":{"type":"null"},"datacontenttype":{"type":["string","null"],"pattern":"^[^;/]+/([^;]*\\+)?[Jj][Ss][Oo][Nn][^!-~]*(;|$)"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"source":{"type":"string","pattern":"^([A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$"},"specversion":{"const":"1.0"},"subject":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantid":{"type":["string","null"],"pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"time":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"type":{"const":"DueTimeReached"}},"not":{"required":["tenantId"]}},
  RescheduleTimers: {"type":"object","required":["id","type","tenantId","timestampMs","payload"],"properties":{"aggregateId":{"type":"null"},"causationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"payload":{"type":"object","required":["tenantId","dueAt"],"properties":{"correlationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"dueAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"prefix":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$"},"serviceCallIds":{"type":["array","null"],"items":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"minItems":1,"maxItems":500},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}},"one":["correlationId","prefix","serviceCallIds"]},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"timestampMs":{"type":"integer","maximum":9007199254740991},"type":{"const":"RescheduleTimers"}},"not":{"required":["specversion"]}},
  RescheduleTimersCloudEvent: {"type":"object","required":["specversion","id","source","type","time","data"],"properties":{"causationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"data":{"type":"object","required":["tenantId","dueAt"],"properties":{"correlationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"dueAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"prefix":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$"},"serviceCallIds":{"type":["array","null"],"items":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"minItems":1,"maxItems":500},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}},"one":["correlationId","prefix","serviceCallIds"]},"data_base64":{"type":"null"},"datacontenttype":{"type":["string","null"],"pattern":"^[^;/]+/([^;]*\\+)?[Jj][Ss][Oo][Nn][^!-~]*(;|$)"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"source":{"type":"string","pattern":"^([A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$"},"specversion":{"const":"1.0"},"subject":{"type":"null"},"tenantid":{"type":["string","null"],"pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"time":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"type":{"const":"RescheduleTimers"}},"not":{"required":["tenantId"]}},
  ScheduleTimer: {"type":"object","required":["id","type","tenantId","timestampMs","payload"],"properties":{"aggregateId":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"causationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"payload":{"type":"object","required":["tenantId","serviceCallId","dueAt"],"properties":{"data":{"type":["object","array","string","number","boolean","null"]},"dueAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"expiresAt":{"type":["string","null"],"pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"serviceCallId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"timestampMs":{"type":"integer","maximum":9007199254740991},"type":{"const":"ScheduleTimer"}},"not":{"required":["specversion"]}},
  ScheduleTimerCloudEvent: {"type":"object","required":["specversion","id","source","type","time","data"],"properties":{"causationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"data":{"type":"object","required":["tenantId","serviceCallId","dueAt"],"properties":{"data":{"type":["object","array","string","number","boolean","null"]},"dueAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"expiresAt":{"type":["string","null"],"pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"serviceCallId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}},"data_base64":{"type":"null"},"datacontenttype":{"type":["string","null"],"pattern":"^[^;/]+/([^;]*\\+)?[Jj][Ss][Oo][Nn][^!-~]*(;|$)"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"source":{"type":"string","pattern":"^([A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$"},"specversion":{"const":"1.0"},"subject":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantid":{"type":["string","null"],"pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"time":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"type":{"const":"ScheduleTimer"}},"not":{"required":["tenantId"]}},
  ScheduleTimers: {"type":"object","required":["id","type","tenantId","timestampMs","payload"],"properties":{"aggregateId":{"type":"null"},"causationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"payload":{"type":"object","required":["tenantId","timers"],"properties":{"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"timers":{"type":"array","items":{"type":"object","required":["serviceCallId","dueAt"],"properties":{"data":{"type":["object","array","string","number","boolean","null"]},"dueAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"expiresAt":{"type":["string","null"],"pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"serviceCallId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}}}},"minItems":1,"maxItems":500}}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"timestampMs":{"type":"integer","maximum":9007199254740991},"type":{"const":"ScheduleTimers"}},"not":{"required":["specversion"]}},
  ScheduleTimersCloudEvent: {"type":"object","required":["specversion","id","source","type","time","data"],"properties":{"causationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"data":{"type":"object","required":["tenantId","timers"],"properties":{"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"timers":{"type":"array","items":{"type":"object","required":["serviceCallId","dueAt"],"properties":{"data":{"type":["object","array","string","number","boolean","null"]},"dueAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"expiresAt":{"type":["string","null"],"pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"serviceCallId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}}}},"minItems":1,"maxItems":500}}},"data_base64":{"type":"null"},"datacontenttype":{"type":["string","null"],"pattern":"^[^;/]+/([^;]*\\+)?[Jj][Ss][Oo][Nn][^!-~]*(;|$)"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"source":{"type":"string","pattern":"^([A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$"},"specversion":{"const":"1.0"},"subject":{"type":"null"},"tenantid":{"type":["string","null"],"pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"time":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"type":{"const":"ScheduleTimers"}},"not":{"required":["tenantId"]}},
  TimerCanceled: {"type":"object","required":["id","type","tenantId","timestampMs","payload"],"properties":{"aggregateId":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"causationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"payload":{"type":"object","required":["tenantId","serviceCallId"],"properties":{"serviceCallId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"timestampMs":{"type":"integer","maximum":9007199254740991},"type":{"const":"TimerCanceled"}},"not":{"required":["specversion"]}},
  TimerCanceledCloudEvent: {"type":"object","required":["specversion","id","source","type","time","data"],"properties":{"causationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"data":{"type":"object","required":["tenantId","serviceCallId"],"properties":{"serviceCallId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}},"data_base64":{"type":"null"},"datacontenttype":{"type":["string","null"],"pattern":"^[^;/]+/([^;]*\\+)?[Jj][Ss][Oo][Nn][^!-~]*(;|$)"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"source":{"type":"string","pattern":"^([A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$"},"specversion":{"const":"1.0"},"subject":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantid":{"type":["string","null"],"pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"time":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"type":{"const":"TimerCanceled"}},"not":{"required":["tenantId"]}},
  TimerExpired: {"type":"object","required":["id","type","tenantId","timestampMs","payload","aggregateId"],"properties":{"aggregateId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"causationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"payload":{"type":"object","required":["tenantId","serviceCallId","dueAt","expiredAt","expiresAt"],"properties":{"data":{"type":["object","array","string","number","boolean","null"]},"dueAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"expiredAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"expiresAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"serviceCallId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"timestampMs":{"type":"integer","maximum":9007199254740991},"type":{"const":"TimerExpired"}},"not":{"required":["specversion"]}},
  TimerExpiredCloudEvent: {"type":"object","required":["specversion","id","source","type","time","data","subject"],"properties":{"causationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"data":{"type":"object","required":["tenantId","serviceCallId","dueAt","expiredAt","expiresAt"],"properties":{"data":{"type":["object","array","string","number","boolean","null"]},"dueAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"expiredAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"expiresAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"serviceCallId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}},"data_base64":{"type":"null"},"datacontenttype":{"type":["string","null"],"pattern":"^[^;/]+/([^;]*\\+)?[Jj][Ss][Oo][Nn][^!-~]*(;|$)"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"source":{"type":"string","pattern":"^([A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$"},"specversion":{"const":"1.0"},"subject":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantid":{"type":["string","null"],"pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"time":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"type":{"const":"TimerExpired"}},"not":{"required":["tenantId"]}},
  TimerIgnored: {"type":"object","required":["id","type","tenantId","timestampMs","payload"],"properties":{"aggregateId":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"causationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"payload":{"type":"object","required":["tenantId","serviceCallId","reason"],"properties":{"reason":{"type":"string"},"serviceCallId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"timestampMs":{"type":"integer","maximum":9007199254740991},"type":{"const":"TimerIgnored"}},"not":{"required":["specversion"]}},
  TimerIgnoredCloudEvent: {"type":"object","required":["specversion","id","source","type","time","data"],"properties":{"causationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"data":{"type":"object","required":["tenantId","serviceCallId","reason"],"properties":{"reason":{"type":"string"},"serviceCallId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}},"data_base64":{"type":"null"},"datacontenttype":{"type":["string","null"],"pattern":"^[^;/]+/([^;]*\\+)?[Jj][Ss][Oo][Nn][^!-~]*(;|$)"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"source":{"type":"string","pattern":"^([A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$"},"specversion":{"const":"1.0"},"subject":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantid":{"type":["string","null"],"pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"time":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"type":{"const":"TimerIgnored"}},"not":{"required":["tenantId"]}},
  TimerRejected: {"type":"object","required":["id","type","tenantId","timestampMs","payload"],"properties":{"aggregateId":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"causationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"payload":{"type":"object","required":["tenantId","reason","detail"],"properties":{"detail":{"type":"string"},"reason":{"type":"string"},"serviceCallId":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"timestampMs":{"type":"integer","maximum":9007199254740991},"type":{"const":"TimerRejected"}},"not":{"required":["specversion"]}},
  TimerRejectedCloudEvent: {"type":"object","required":["specversion","id","source","type","time","data"],"properties":{"causationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"data":{"type":"object","required":["tenantId","reason","detail"],"properties":{"detail":{"type":"string"},"reason":{"type":"string"},"serviceCallId":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}},"data_base64":{"type":"null"},"datacontenttype":{"type":["string","null"],"pattern":"^[^;/]+/([^;]*\\+)?[Jj][Ss][Oo][Nn][^!-~]*(;|$)"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"source":{"type":"string","pattern":"^([A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$"},"specversion":{"const":"1.0"},"subject":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantid":{"type":["string","null"],"pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"time":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"type":{"const":"TimerRejected"}},"not":{"required":["tenantId"]}},
  TimerScheduled: {"type":"object","required":["id","type","tenantId","timestampMs","payload"],"properties":{"aggregateId":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"causationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationId":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"payload":{"type":"object","required":["tenantId","serviceCallId","dueAt"],"properties":{"dueAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"serviceCallId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"timestampMs":{"type":"integer","maximum":9007199254740991},"type":{"const":"TimerScheduled"}},"not":{"required":["specversion"]}},
  TimerScheduledCloudEvent: {"type":"object","required":["specversion","id","source","type","time","data"],"properties":{"causationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"correlationid":{"type":["string","null"],"pattern":"^[!-~]{1,128}$"},"data":{"type":"object","required":["tenantId","serviceCallId","dueAt"],"properties":{"dueAt":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"serviceCallId":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantId":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}},"data_base64":{"type":"null"},"datacontenttype":{"type":["string","null"],"pattern":"^[^;/]+/([^;]*\\+)?[Jj][Ss][Oo][Nn][^!-~]*(;|$)"},"id":{"type":"string","pattern":"^[!-~]{1,128}$"},"source":{"type":"string","pattern":"^([A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$"},"specversion":{"const":"1.0"},"subject":{"type":["string","null"],"pattern":"^[A-Za-z0-9_.:-]{1,128}$","not":{"enum":[".",".."]}},"tenantid":{"type":["string","null"],"pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},"time":{"type":"string","pattern":"^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$"},"type":{"const":"TimerScheduled"}},"not":{"required":["tenantId"]}},
};

/** The headers of a dead letter, by the fields of a DeadLetter. */
export const letterHeaders: Record<keyof DeadLetter, string> = {"correlationId":"correlationId","count":"deadLetterCount","detail":"deadLetterDetail","firstAt":"deadLetterFirstAt","lastAt":"deadLetterLastAt","originalId":"deadLetterOriginalId","position":"deadLetterPosition","reason":"deadLetterReason","replays":"deadLetterReplays","topic":"deadLetterTopic","truncated":"deadLetterTruncated","messageId":"messageId","tenantId":"tenantId","type":"type"};
