import { afterEach } from "node:test";
import {
  connect,
  type Options,
  type Presence,
  type Problem,
  type Status,
  type User,
  type Watch,
} from "../src/index.js";
import { Between } from "./between.js";
import { Seen } from "./seen.js";
import type { Server } from "./server.js";

/** What ends after each test. */
export const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** Connects, until the test ends. */
export function join(options: Options): { presence: Presence; statuses: Seen<Status>; problems: Seen<Problem> } {
  const presence = connect({ device: "7", firstWait: 50, maxWait: 500, ...options });
  ends.push(() => presence.close());
  const [statuses, problems] = [new Seen<Status>(), new Seen<Problem>()];
  presence.on("status", statuses.push);
  presence.on("error", problems.push);
  return { presence, statuses, problems };
}

/** Every change that a watch delivers, and "skipped". */
export function note(watch: Watch): Seen<User | "skipped"> {
  const seen = new Seen<User | "skipped">();
  watch.on("change", seen.push);
  watch.on("skipped", () => seen.push("skipped"));
  return seen;
}

export const is = (id: string, state: User["state"]) => (user: User | "skipped") =>
  user !== "skipped" && user.user_id === id && user.state === state;

/** Stands before a server, until the test ends. */
export async function through(server: Server): Promise<Between> {
  const proxy = await Between.before(server.port);
  ends.push(() => proxy.end());
  return proxy;
}
