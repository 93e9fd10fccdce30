// What the API answers. Times are RFC 3339 in UTC; 64-bit ids are strings; null is "not known".

export type State = "online" | "away" | "offline";
export type Kind = "mobile" | "desktop" | "web" | "bot" | "other";
export type KindStates = Partial<Record<Kind, "online" | "away">>;
export const kinds: readonly Kind[] = ["mobile", "desktop", "web", "bot", "other"];

export interface Me {
  ids: "int" | "text";
  authenticated: boolean;
  acts: boolean;
  user: string | null;
  tenant: string | null;
  version: string;
  commit: string;
  partitions: number;
  mode: "dev" | "all" | "api";
}

export interface Pair {
  online: number | null;
  away: number | null;
}

/** Present users; by kind, one who has devices of two kinds counts for both. */
export interface Counts extends Pair {
  by_kind: Partial<Record<Kind, number>> | null;
  missing_partitions: number[] | null;
  as_of?: string | null;
}

export interface Partition {
  partition: number;
  owner: string | null;
  phase: string | null;
  lag_records: number | null;
  lag_seconds: number | null;
  watermark_age_seconds: number | null;
}

export interface Group {
  group: string;
  role: string | null;
  state: string | null;
  lag_records: number | null;
  members: { instance: string | null; host: string | null; partitions: number[] | null }[] | null;
}

export interface Instance {
  role: string;
  instance: string | null;
  version: string | null;
  host: string | null;
  started_at: string | null;
  ready: boolean | null;
}

export interface Gateway {
  gateway: string;
  /** idle: silent, and no user is on it. */
  state: "alive" | "draining" | "lost" | "idle";
  users: number | null;
  last_seen_at: string | null;
  epoch: string | null;
}

export interface Dependency {
  name: string;
  ready: boolean | null;
  error: string | null;
}

export type Points = (number | null)[];

export interface Past {
  from: string;
  step_seconds: number;
  online: Points;
  away: Points;
  beats: Points;
  changes: Points;
  deliveries: Points;
}

export type Settings = Record<string, number | string | boolean>;

export interface Overview {
  at: string;
  /** What is not well, in words; null: not shown to a tenant. */
  problems: string[] | null;
  counts: Counts | null;
  rates: { beats: number | null; changes: number | null; deliveries: number | null } | null;
  policy: { id: string | null; settings: Settings | null; since: string | null } | null;
  partitions: Partition[] | null;
  groups: Group[] | null;
  instances: Instance[] | null;
  gateways: Gateway[] | null;
  /** Which heartbeats detectors take; null: not known. */
  signing: { masters: string[]; checked: boolean } | null;
  dependencies: Dependency[] | null;
}

export interface Row {
  /** Null while the name of the user is not known. */
  user_id: string | null;
  tenant?: string;
  state: State | "hidden" | null;
  since: string | null;
  last_seen_at: string | null;
  last_seen?: string;
  visibility: "everyone" | "nobody" | null;
  devices: Partial<Record<Kind, number>> | null;
}

export interface Page {
  users: Row[];
  total: number;
  as_of: string | null;
  truncated: boolean;
  /** Not all users have been read yet. */
  loading?: boolean;
}

export interface Device {
  device_id: number;
  device_kind: Kind;
  state: "online" | "away";
  since: string;
  last_seen_at: string;
}

export interface User {
  user_id: string;
  state: State | null;
  last_seen_at: string | null;
  last_active_at: string | null;
  /** In place of times that the user, or the policy, does not show: "recently" and so on. */
  last_seen?: string;
  devices: Kind[] | null;
  kinds: KindStates | null;
  since: string | null;
  version: string;
  stale_since: string | null;
  unsure_since?: string;
  last_seen_coarseness_ms?: number;
  /** The user does not want to be disturbed. */
  dnd?: boolean;
  device_list?: Device[] | null;
}

/** To whom a user is shown, and what others learn of when the user was last here; null: the token may not know. */
export interface Audience {
  base: "everyone" | "nobody" | null;
  last_seen: keyof typeof lastSeens | null;
}

/** A page of the viewers to whom a user looks hidden; null: the token may not know. */
export interface Denied {
  deny: { user_id: string; since: string }[] | null;
  next: string | null;
}

/** What others may learn of last seen, in words. */
export const lastSeens = { exact: "exactly", coarse: "coarsely, in words", never: "never" } as const;

export interface Override {
  state: "dnd" | "away" | "invisible";
  until?: string;
  note?: string;
}

/** Overrides in words. */
export const overrides = { dnd: "do not disturb", away: "away", invisible: "invisible" } as const;

/** The override of a user; automatic is what the state would be without one that says away. */
export interface Overridden {
  override: Override | null;
  automatic?: State;
}

export interface Change {
  event_id: string;
  from: State;
  to: State;
  at: string;
  last_seen_at: string | null;
  cause: string;
  device_id: number | null;
  devices: Kind[];
  kinds: KindStates;
  version: string;
  policy_id: string;
  left_out: number;
}

export interface FeedRow extends Change {
  /** Null while the name of the user is not known. */
  user_id: string | null;
  tenant?: string;
}

/** A change, as stillhere explain has it. */
export interface Explained {
  event_id: string;
  from: State;
  to: State;
  at: string;
  cause: string;
}

/** What stillhere explain prints as JSON, and as text. */
export interface Explanation {
  text: string;
  event_id: string;
  change: Explained;
  policy: { id: string };
  place: { topic: string; partition: number; offset: number };
  /** The record of presence.heartbeats; without it record_gone says why. */
  record?: {
    time: string;
    kind: string;
    rows?: { device_id: number; device_kind: string; bye?: boolean; at: string }[];
  };
  record_gone?: string;
  /** The rule in words. */
  rule: string;
  /** What the detector, run again, knew before the record. */
  replay?: {
    agrees: boolean;
    before?: {
      devices?: {
        device_id: number;
        bye?: boolean;
        held?: boolean;
        seen_at: string;
        active_at?: string;
        until?: string;
        active_until?: string;
      }[];
      next_limit?: string;
    };
  };
  before: Explained[];
}

export interface Receipt {
  user_id: string;
  erased_at: string;
  last_copy_gone_on: string;
  topics: Record<string, string>;
}

interface Spread {
  count: number;
  p50: number;
  p99: number;
}

/** What a policy would have published, as stillhere backtest says it. */
export interface Outcome {
  policy: string;
  policy_id: string;
  transitions: number;
  to_online: number;
  to_away: number;
  to_offline: number;
  flaps: number;
  time_to_offline_ms: Spread;
}

export interface Backtest {
  from?: string;
  to?: string;
  /** What was published, the policy in force, and the one of the form. */
  policies?: [Outcome, Outcome, Outcome];
}
