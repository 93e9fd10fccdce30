import { type Message, newer, type User } from "./messages.js";

/** What a message has changed. */
export interface Changes {
  /** New states with those before, in order. */
  changed: [user: User, before: User | undefined][];
  /** Changes before these were skipped: nobody can list them, or this client was too slow. */
  skipped: boolean;
}

/** The parts of a replica that another tab needs to continue it. */
export interface Copy {
  users: User[];
  cursor: string;
  covered: string[];
  behind: boolean;
}

/**
 * The states of the watched users, and the cursor from which a later connection resumes. Each tab has
 * one, and all tabs that share a connection apply the same messages, so that any of them can go on.
 */
export class Replica {
  readonly users = new Map<string, User>();
  /** The cursor of the last message; "": none. */
  cursor = "";
  /** The users of the cursor, if they are no longer those of users. */
  #covered: string[] | undefined;
  /** The connection was lost, and what was missed has not come. */
  #behind = false;
  /** Who was unsure or stale when the connection was lost. Those who still are come again before resumed. */
  #unsure = new Set<string>();

  /** The users that a subscribe with the cursor has to name: exactly these, else it is of no use. */
  get covered(): string[] {
    return this.#covered ?? [...this.users.keys()];
  }

  apply(message: Message): Changes {
    const changes: Changes = { changed: [], skipped: false };
    if (message.type === "snapshot" || message.type === "resync" || message.type === "change") {
      if (message.type !== "change") {
        changes.skipped = this.#behind;
        this.#behind = false;
      }
      for (const user of message.users ?? [message.user!]) this.#set(user, changes);
    } else if (message.type === "resumed") {
      this.#behind = false;
      for (const id of this.#unsure) {
        const { unsure_since: _, stale_since: __, ...sure } = this.users.get(id)!;
        this.#set(sure, changes);
      }
      this.#unsure.clear();
    } else if (message.type === "collapsed") {
      changes.skipped = true;
    }
    if (message.cursor) {
      this.cursor = message.cursor;
      this.#covered = undefined;
    }
    return changes;
  }

  #set(user: User, changes: Changes) {
    const before = this.users.get(user.user_id);
    this.#unsure.delete(user.user_id);
    if (before) {
      if (newer(before.version, user.version)) return;
      const same = (a?: string | null, b?: string | null) => (a ?? "") === (b ?? "");
      if (
        same(before.version, user.version) &&
        before.state === user.state &&
        same(before.stale_since, user.stale_since) &&
        same(before.unsure_since, user.unsure_since)
      )
        return;
    }
    this.users.set(user.user_id, user);
    changes.changed.push([user, before]);
  }

  /** Notes that the connection was lost. */
  lost() {
    this.#behind ||= this.users.size > 0;
    for (const [id, user] of this.users) if (user.unsure_since || user.stale_since) this.#unsure.add(id);
  }

  /** Drops everything: it was what another user saw. */
  clear() {
    this.forget([...this.users.keys()]);
    this.cursor = "";
    this.#covered = undefined;
    this.#behind = false;
  }

  /** Drops users who are not watched any more. */
  forget(ids: Iterable<string>) {
    if (this.cursor) this.#covered ??= this.covered;
    for (const id of ids) {
      this.users.delete(id);
      this.#unsure.delete(id);
    }
  }

  copy(): Copy {
    return { users: [...this.users.values()], cursor: this.cursor, covered: this.covered, behind: this.#behind };
  }

  /** Takes over what another tab has. */
  adopt(copy: Copy): Changes {
    const changes: Changes = { changed: [], skipped: false };
    for (const user of copy.users) this.#set(user, changes);
    const known = new Set(copy.users.map((user) => user.user_id));
    this.cursor = copy.cursor;
    this.#behind = copy.behind;
    for (const id of this.users.keys()) if (!known.has(id)) this.users.delete(id);
    this.#covered = copy.covered;
    return changes;
  }
}
