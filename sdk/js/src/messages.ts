/** Presence of a user: null for one who is hidden, or whom one may not see. */
export type State = "online" | "away" | "offline" | null;

/** In place of the state of a user who would have `unsure_since` or `stale_since`. */
export type Unsure = "unsure";

/** What is known of a user, as the API says it. 64-bit numbers are strings; times are RFC 3339 in UTC. */
export interface User {
  /** The id, with --ids text the name. */
  user_id: string;
  /** With --ids text the tenant, unless that is the default one. */
  tenant?: string;
  state: State;
  last_seen_at?: string | null;
  last_active_at?: string | null;
  /** Set if the user, or the server's policy, lets others learn no times: when about the user was last here. */
  last_seen?: "recently" | "within_a_week" | "within_a_month" | "long_ago" | "hidden";
  /** The kinds of the devices that are connected. */
  devices?: DeviceKind[] | null;
  /** The state of each of them: online while the person uses a device of the kind. */
  kinds?: Partial<Record<DeviceKind, "online" | "away">> | null;
  /** Since when the user is in this state. */
  since?: string | null;
  /** Orders the changes of a user. */
  version?: string;
  /** Set if the server could not read the newest state: since when it may be out of date. */
  stale_since?: string | null;
  /** Set if the user is shown as present by devices of a lost gateway alone: since when. */
  unsure_since?: string;
  /** The user does not want to be disturbed. */
  dnd?: boolean;
}

/** The user's own state, as it is, and whether others see it. */
export interface Me extends User {
  visibility: Audience["base"];
}

/** To whom a user is shown, and what others learn of when the user was last here. */
export interface Audience {
  base: "everyone" | "nobody";
  last_seen: "exact" | "coarse" | "never";
}

/** A viewer to whom a user looks hidden, and since when. */
export interface Denial {
  user_id: string;
  since: string;
}

/** What a user asks to be shown as. */
export interface Override {
  state: "dnd" | "away" | "invisible";
  /** When it ends by itself; left out: never. */
  until?: string;
  /** At most 256 bytes, which nobody else reads. */
  note?: string;
}

export type DeviceKind = "mobile" | "desktop" | "web" | "bot" | "other";

/** A message of the server; asyncapi.yaml has their meaning. */
export interface Message {
  type: string;
  heartbeat_interval_ms?: number;
  heartbeat_jitter_ms?: number;
  max_subscriptions?: number;
  users?: User[];
  user?: User;
  cursor?: string;
  after_ms?: number;
  ends_in_ms?: number;
  error?: { code: string; message: string; field?: string; user_id?: string };
}

/** Reads a message; undefined if it is not one. */
export function parse(text: unknown): Message | undefined {
  try {
    const message = JSON.parse(text as string) as Message | null;
    if (typeof message?.type !== "string") return undefined;
    const isUser = (user: User | null) => typeof user?.user_id === "string";
    const lists = message.type === "snapshot" || message.type === "resync";
    if (lists && !(Array.isArray(message.users) && message.users.every(isUser))) return undefined;
    const names = message.type === "change" || message.type === "delivery";
    if (names && !isUser(message.user ?? null)) return undefined;
    if (message.type === "error" && typeof message.error?.code !== "string") return undefined;
    if (message.type === "hello" && !(Number(message.heartbeat_interval_ms) > 0)) return undefined;
    return message;
  } catch {
    return undefined;
  }
}

/** Whether version a is greater than b: 64-bit decimals, which a number cannot hold. */
export function newer(a = "0", b = "0"): boolean {
  return a.length === b.length ? a > b : a.length > b.length;
}
