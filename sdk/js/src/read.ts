import type { Audience, Denial, Me, Override, State, Unsure, User } from "./messages.js";
import { bearerOf, tokenNow } from "./options.js";
import { Problem, problemOf } from "./problem.js";
import { checked } from "./watch.js";

/** The server takes so many users in one request. */
const most = 1000;

/** Where and how to read. */
export interface Access {
  url: URL;
  token: string | (() => string | Promise<string>) | undefined;
  tenant: string | undefined;
  /** Without tokens: who reads. */
  user: string | undefined;
  fetch: typeof fetch;
}

/** One request; pathOf gets the user whose token it is, or who reads without one. Throws a Problem. */
async function ask(
  access: Access,
  method: string,
  pathOf: (me: string | undefined) => string,
  body?: object,
): Promise<unknown> {
  for (let again = typeof access.token === "function"; ; again = false) {
    const token = await tokenNow(access.token);
    const me = access.user ?? (token === undefined ? undefined : bearerOf(token)?.[1]);
    const url = new URL(`presence/${pathOf(me)}`, access.url);
    if (access.tenant !== undefined) url.searchParams.set("tenant", access.tenant);
    if (me !== undefined && token === undefined) url.searchParams.set("user_id", me);
    const headers = {
      "Content-Type": "application/json",
      ...(token !== undefined && { Authorization: `Bearer ${token}` }),
    };
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const answer = await access.fetch(url, init).catch((error) => {
      throw new Problem("unreachable", String(error));
    });
    if (answer.status === 401 && again) continue; // the token has ended; the next one is newer
    if (!answer.ok) throw await problemOf(answer);
    return answer.json();
  }
}

/** Answers of POST /presence/batch, in requests of at most 1,000 users, one after the other. */
async function* batches(access: Access, ids: string[], detail: boolean, query = ""): AsyncGenerator<unknown> {
  const users = [...new Set(checked(ids))];
  for (let i = 0; i < users.length; i += most)
    yield await ask(access, "POST", () => `batch${query}`, { user_ids: users.slice(i, i + most), detail });
}

/** The states of users, or with mark "unsure" in place of those that are not certain. Throws a Problem. */
export async function states(access: Access, ids: string[], mark: boolean): Promise<Map<string, State | Unsure>> {
  const all = new Map<string, State | Unsure>();
  for await (const part of batches(access, ids, false, mark ? "?unsure=mark" : ""))
    for (const [id, state] of Object.entries(part as Record<string, State | Unsure>)) all.set(id, state);
  return all;
}

/** All that is known of users, in the order asked, each once. Throws a Problem. */
export async function details(access: Access, ids: string[]): Promise<User[]> {
  const all: User[] = [];
  for await (const part of batches(access, ids, true)) all.push(...(part as { users: User[] }).users);
  return all;
}

const own = (rest: string) => (me: string | undefined) => {
  if (me === undefined) throw new Problem("unknown_user", "neither the token nor the option user says who this is");
  return `users/${encodeURIComponent(me)}${rest}`;
};

/** The user's own state, hidden or not. Throws a Problem. */
export async function myself(access: Access): Promise<Me> {
  const [user, { visibility }] = await Promise.all([
    ask(access, "GET", own("")) as Promise<User>,
    ask(access, "GET", own("/visibility")) as Promise<Pick<Me, "visibility">>,
  ]);
  return { ...user, visibility };
}

/** Sets what is given of the user's audience. Throws a Problem. */
export async function setAudience(access: Access, audience: Partial<Audience>): Promise<void> {
  await ask(access, "PUT", own("/audience"), audience);
}

/** The user's audience. Throws a Problem. */
export function audienceOf(access: Access) {
  return ask(access, "GET", own("/audience")) as Promise<Audience>;
}

/** Adds viewers to those whom the user denies, or removes them, as batches does. Throws a Problem. */
export async function deny(access: Access, change: "add" | "remove", ids: string[]): Promise<void> {
  const viewers = [...new Set(checked(ids))];
  for (let i = 0; i < viewers.length; i += most)
    await ask(access, "POST", own("/audience/deny"), { [change]: viewers.slice(i, i + most) });
}

/** The viewers whom the user denies. Throws a Problem. */
export async function denied(access: Access): Promise<Denial[]> {
  const all: Denial[] = [];
  for (let after = ""; ;) {
    const path = own(`/audience/deny?limit=${most}${after}`);
    const page = (await ask(access, "GET", path)) as { deny: Denial[] | null; next: string | null };
    all.push(...(page.deny ?? []));
    if (page.next === null) return all;
    after = `&after=${encodeURIComponent(page.next)}`;
  }
}

/** Sets the user's override, or ends it. Throws a Problem. */
export async function setOverride(access: Access, override: Override | null): Promise<void> {
  await ask(access, override ? "PUT" : "DELETE", own("/override"), override ?? undefined);
}

/** The user's override, and what the state would be without one that says away. Throws a Problem. */
export function overrideOf(access: Access) {
  return ask(access, "GET", own("/override")) as Promise<{ override: Override | null; automatic?: State }>;
}
