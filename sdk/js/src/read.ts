import type { State, User } from "./messages.js";
import { tokenNow } from "./options.js";
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

/** Answers of POST /presence/batch, in requests of at most 1,000 users, one after the other. */
async function* batches(access: Access, ids: string[], detail: boolean): AsyncGenerator<unknown> {
  const users = [...new Set(checked(ids))];
  const url = new URL("presence/batch", access.url);
  if (access.tenant !== undefined) url.searchParams.set("tenant", access.tenant);
  if (access.user !== undefined && access.token === undefined) url.searchParams.set("user_id", access.user);
  for (let i = 0; i < users.length; i += most) {
    const body = JSON.stringify({ user_ids: users.slice(i, i + most), detail });
    for (let again = typeof access.token === "function"; ; again = false) {
      const token = await tokenNow(access.token);
      const headers = {
        "Content-Type": "application/json",
        ...(token !== undefined && { Authorization: `Bearer ${token}` }),
      };
      const answer = await access.fetch(url, { method: "POST", headers, body }).catch((error) => {
        throw new Problem("unreachable", String(error));
      });
      if (answer.status === 401 && again) continue; // the token has ended; the next one is newer
      if (!answer.ok) throw await problemOf(answer);
      yield await answer.json();
      break;
    }
  }
}

/** The states of users. Throws a Problem. */
export async function states(access: Access, ids: string[]): Promise<Map<string, State>> {
  const all = new Map<string, State>();
  for await (const part of batches(access, ids, false))
    for (const [id, state] of Object.entries(part as Record<string, State>)) all.set(id, state);
  return all;
}

/** All that is known of users, in the order asked, each once. Throws a Problem. */
export async function details(access: Access, ids: string[]): Promise<User[]> {
  const all: User[] = [];
  for await (const part of batches(access, ids, true)) all.push(...(part as { users: User[] }).users);
  return all;
}
