import type { Link } from "./link.js";
import type { Message } from "./messages.js";
import { Problem } from "./problem.js";
import type { Replica } from "./replica.js";
import { after, backoff } from "./timers.js";

/** Requests within this time go together: a list that mounts its rows one by one makes one request. */
const gather = 50;
/** A subscribe has to be answered within this time. */
const patient = 20_000;

/**
 * Subscribes one connection to the users that are wanted. One subscribe is on its way at a time, so an
 * error belongs to that one.
 */
export class Subscriber {
  readonly #link: Link;
  readonly #replica: Replica;
  readonly #resume: boolean;
  /** The users that all tabs want. */
  readonly #wanted: () => Set<string>;
  readonly #onForget: (users: string[]) => void;
  readonly #onProblem: (problem: Problem) => void;
  /** Whom this connection watches or asks for. */
  #active = new Set<string>();
  /** Whom this connection may not watch. */
  #refused = new Set<string>();
  /** The users of the subscribe that is on its way, in its order, and those of them without an answer. */
  #asked: string[] = [];
  #open = new Set<string>();
  #max = 500;
  #overfull = false;
  #failures = 0;
  #cancelUpdate = () => {};
  #cancelAnswer = () => {};
  #planned = false;

  constructor(
    link: Link,
    replica: Replica,
    resume: boolean,
    wanted: () => Set<string>,
    onForget: (users: string[]) => void,
    onProblem: (problem: Problem) => void,
  ) {
    this.#link = link;
    this.#replica = replica;
    this.#resume = resume;
    this.#wanted = wanted;
    this.#onForget = onForget;
    this.#onProblem = onProblem;
  }

  /** The connection is open: subscribes to everything, from the cursor on if there is one. */
  opened(max: number) {
    this.#max = max;
    this.closed();
    const covered = this.#replica.covered;
    if (this.#resume && this.#replica.cursor && covered.length > 0) this.#ask(covered, this.#replica.cursor);
    else this.#update();
  }

  /** The connection has ended. */
  closed() {
    this.#cancelUpdate();
    this.#cancelAnswer();
    this.#planned = false;
    this.#active = new Set();
    this.#refused = new Set();
    this.#answered();
  }

  /** Other users are wanted: asks for them in a moment. */
  changed() {
    this.#plan(gather);
  }

  #plan(wait: number) {
    if (this.#planned) return;
    this.#planned = true;
    this.#cancelUpdate = after(wait, () => {
      this.#planned = false;
      if (this.#link.status === "open") this.#update();
    });
  }

  #ask(users: string[], since = "") {
    this.#asked = users;
    this.#open = new Set(users);
    for (const user of users) this.#active.add(user);
    this.#cancelAnswer();
    this.#cancelAnswer = after(patient, () =>
      this.#link.restart(new Problem("unanswered", "a subscribe was not answered")),
    );
    this.#link.send({ type: "subscribe", user_ids: users, ...(this.#resume && { since }) });
  }

  /** Asks for what is wanted and not watched, and ends what is watched and not wanted. */
  #update() {
    if (this.#asked.length > 0) return; // its answer comes first, and then this again
    const wanted = this.#wanted();
    const drop = [...this.#active].filter((user) => !wanted.has(user));
    if (drop.length > 0) {
      for (const user of drop) this.#active.delete(user);
      this.#link.send({ type: "unsubscribe", user_ids: drop });
    }
    // Also those of an earlier connection, who were never asked for on this one.
    const forget = [...this.#replica.users.keys()].filter((user) => !wanted.has(user));
    if (forget.length > 0) {
      this.#replica.forget(forget);
      this.#onForget(forget);
    }
    const lacking = [...wanted].filter((user) => !this.#active.has(user) && !this.#refused.has(user));
    const add = lacking.slice(0, Math.max(0, this.#max - this.#active.size));
    const overfull = add.length < lacking.length;
    if (overfull && !this.#overfull)
      this.#onProblem(
        new Problem(
          "too_many_subscriptions",
          `one connection may watch at most ${this.#max} users; the last ones are not watched`,
        ),
      );
    this.#overfull = overfull;
    if (add.length > 0) this.#ask(add);
  }

  #answered() {
    this.#cancelAnswer();
    this.#asked = [];
    this.#open.clear();
  }

  /** Takes a message of the connection. Returns the problem that it means, if it answers a subscribe. */
  receive(message: Message): Problem | undefined {
    for (const user of message.users ?? (message.type === "change" ? [message.user!] : []))
      this.#open.delete(user.user_id);
    if (message.type === "resumed") this.#open.clear();
    const problem = message.type === "error" ? this.#failed(message.error!) : undefined;
    // The answer to a resumed subscribe ends with resumed, or is a resync of all.
    if (this.#asked.length > 0 && this.#open.size === 0) {
      this.#answered();
      this.#failures = 0;
      this.#plan(0);
    }
    return problem;
  }

  #failed({ code, message, field, user_id }: NonNullable<Message["error"]>): Problem {
    const index = /^user_ids\[(\d+)]/.exec(field ?? "")?.[1];
    const user = code === "not_allowed" ? user_id : index && this.#asked[Number(index)];
    const asked = this.#asked;
    if (user) {
      // All others of a list with an invalid id have to be asked for again.
      if (index) for (const id of this.#open) this.#active.delete(id);
      else this.#open.delete(user);
      this.#active.delete(user);
      this.#refused.add(user);
      if (index) {
        this.#answered();
        this.#plan(0);
      }
    } else if (asked.length > 0 && code !== "too_slow") {
      for (const id of this.#open) this.#active.delete(id);
      const passes = code === "unavailable" || code === "rate_limited";
      if (!passes) for (const id of this.#open) this.#refused.add(id);
      this.#answered();
      this.#plan(passes ? backoff(++this.#failures, 1000, 30_000) : 0);
    }
    return new Problem(code, message, { field, user: user || undefined });
  }
}
