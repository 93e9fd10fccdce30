import { Emitter } from "./emitter.js";
import type { User } from "./messages.js";
import type { Problem } from "./problem.js";

export type WatchEvents = {
  /** A user is known, or has changed; before is undefined the first time. */
  change: [user: User, before: User | undefined];
  /** Changes were skipped, after a long absence or because they came too fast; the newest states follow. */
  skipped: [];
  /** The server lets nobody watch one of the users here, who is not watched any more. */
  refused: [problem: Problem];
};

/** What a watch needs of the presence that made it. */
export interface Source {
  get(id: string): User | undefined;
  changed(added: string[]): void;
  closed(watch: Watch): void;
}

/** Some users that are watched. Make it by Presence.watch. */
export class Watch extends Emitter<WatchEvents> {
  readonly #source: Source;
  readonly #ids = new Set<string>();
  readonly #ends = new Set<() => void>();

  constructor(source: Source) {
    super();
    this.#source = source;
  }

  /** Whom this watches. */
  get ids(): ReadonlySet<string> {
    return this.#ids;
  }

  /** What is known of a watched user; undefined: nothing yet. */
  get(id: string): User | undefined {
    return this.#ids.has(id) ? this.#source.get(id) : undefined;
  }

  /** What is known of all watched users, in the order in which they were added. */
  get users(): User[] {
    return [...this.#ids].flatMap((id) => this.#source.get(id) ?? []);
  }

  /** Watches further users. Those that are known already come as changes in a moment. */
  add(...ids: string[]): this {
    const added = [...new Set(checked(ids))].filter((id) => !this.#ids.has(id));
    for (const id of added) this.#ids.add(id);
    if (added.length > 0) this.#source.changed(added);
    // Those of whom another watch knows: the server does not send them again.
    queueMicrotask(() => {
      for (const id of added) {
        const user = this.get(id);
        if (user) this.emit("change", user, undefined);
      }
    });
    return this;
  }

  /** Stops watching users. */
  remove(...ids: string[]): this {
    const removed = ids.filter((id) => this.#ids.delete(id));
    if (removed.length > 0) this.#source.changed([]);
    return this;
  }

  /** Stops watching all of them, and ends the loops over changes. */
  close() {
    this.#ids.clear();
    for (const end of this.#ends) end();
    this.#source.closed(this);
  }

  /**
   * The changes as a loop: for await (const user of watch.changes()) … It begins with what is known. When
   * more than limit changes wait for the loop, only the newest one of each user stays.
   */
  async *changes({ limit = 1000 } = {}): AsyncGenerator<User, void, undefined> {
    let waiting: User[] = this.users;
    let wake = () => {};
    let ended = false;
    const off = this.on("change", (user) => {
      waiting.push(user);
      if (waiting.length > limit) {
        const newest = new Map(waiting.map((each) => [each.user_id, each]));
        waiting = [...newest.values()];
      }
      wake();
    });
    const end = () => {
      ended = true;
      wake();
    };
    this.#ends.add(end);
    try {
      while (!ended) {
        const user = waiting.shift();
        if (user) yield user;
        else
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
      }
    } finally {
      off();
      this.#ends.delete(end);
    }
  }

  /** @internal */
  deliver(changed: [User, User | undefined][], skipped: boolean) {
    if (skipped && this.#ids.size > 0) this.emit("skipped");
    for (const [user, before] of changed) if (this.#ids.has(user.user_id)) this.emit("change", user, before);
  }

  /** @internal */
  refuse(problem: Problem) {
    if (problem.user !== undefined && this.#ids.delete(problem.user)) {
      this.#source.changed([]);
      this.emit("refused", problem);
    }
  }
}

/** The ids, if all are texts. */
export function checked(ids: string[]): string[] {
  ids.forEach((id, i) => {
    if (typeof id !== "string" || id === "")
      throw new TypeError(`ids[${i}]: must be a string that is not empty (JavaScript rounds 64-bit numbers)`);
  });
  return ids;
}
