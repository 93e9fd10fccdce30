import { Emitter } from "./emitter.js";
import { type Detail, Link, type Status } from "./link.js";
import type { Audience, Denial, Me, Message, Override, State, Unsure, User } from "./messages.js";
import { bearerOf, type Options, settle } from "./options.js";
import { deviceId, onLife, Touches } from "./page.js";
import { Problem } from "./problem.js";
import { audienceOf, denied, deny, details, myself, overrideOf, setAudience, setOverride, states } from "./read.js";
import { type Changes, Replica } from "./replica.js";
import { Subscriber } from "./subscriber.js";
import { canShare, type Note, Tabs } from "./tabs.js";
import { after } from "./timers.js";
import { Watch } from "./watch.js";

export type PresenceEvents = {
  /** The connection has another status; with shared tabs, the one connection of all of them. */
  status: [status: Status, detail: Detail];
  /** The server refused something, or sent what cannot be read. Without a listener it is logged. */
  error: [problem: Problem];
  /** With the option deliveries: a user whom this one follows has changed. */
  delivery: [user: User];
};

/** A touch after so long is said at once, in milliseconds; a shorter pause changes nobody's state. */
const notable = 10_000;
/** A connection that nobody needs stays so long, in milliseconds: a list that changes is closed and opened at once. */
const linger = 50;
/** A leading tab that says nothing for so many heartbeat intervals is asked whether it lives. */
const mute = 3;

/**
 * A device's presence, and what it watches. Make it by connect. Call its methods from the thread that
 * made it; events come on that thread too.
 */
export class Presence extends Emitter<PresenceEvents> {
  readonly #options: ReturnType<typeof settle>;
  readonly #device: string;
  readonly #link: Link;
  readonly #replica = new Replica();
  readonly #subscriber: Subscriber;
  readonly #touches: Touches;
  readonly #watches = new Set<Watch>();
  readonly #ends = new AbortController();
  /** Whom other tabs watch, by the ids of the tabs. */
  readonly #others = new Map<string, string[]>();
  #tabs: Tabs | undefined;
  #first: string | undefined; // a token that was asked for already
  /** Whose the tokens of this connection are: its tabs are of one user. undefined: none was asked for. */
  #bearer: string | undefined;
  #status: Status = "closed";
  #leads = false;
  #greeted = true; // the hello of this connection has come
  #interval = 15_000;
  #heard = 0; // when the leading tab said something
  #cancelGuard = () => {};

  constructor(options: Options) {
    super();
    this.#options = settle(options);
    const { present, deliveries, resume, token, firstWait, maxWait, socket, fetch } = this.#options;
    this.#device = options.device ?? deviceId();
    this.#touches = new Touches((idle) => this.#onTouch(idle));
    this.#link = new Link({
      address: this.#address(),
      present,
      deliveries,
      firstWait,
      maxWait,
      socket,
      fetch,
      token: typeof token === "function" ? () => this.#token(token) : token,
      idle: options.idle ?? (() => this.#touches.idle),
      onMessage: (message) => this.#onMessage(message),
      onStatus: (status, detail) => this.#onStatus(status, detail),
      onProblem: (problem) => this.#publish({ type: "error", error: { code: problem.code, message: problem.message } }),
      onBeat: () => void this.#onBeat(),
    });
    this.#subscriber = new Subscriber(
      this.#link,
      this.#replica,
      resume,
      () => this.#wanted(),
      (users) => this.#tabs?.send({ type: "forget", users }),
      (problem) => this.#publish({ type: "error", error: { code: problem.code, message: problem.message } }),
    );
    onLife(
      {
        leave: () => void this.#leave(true),
        freeze: () => void this.#leave(false),
        back: () => void this.#enter(),
        wake: () => this.#link.wake(),
        offline: () => this.#link.offline(),
      },
      this.#ends.signal,
    );
    const { lacks } = this.#options;
    if (lacks === "") void this.#enter();
    else this.#ends.abort();
    if (lacks === "WebSocket")
      queueMicrotask(() =>
        this.#setStatus("refused", { problem: new Problem("missing", `${lacks}: must be given here`) }),
      );
  }

  /** The status of the connection; with shared tabs, of the one connection of all of them. */
  get status(): Status {
    return this.#status;
  }

  /** The id of this device. */
  get device(): string {
    return this.#device;
  }

  /** Watches users; onChange is called with each state that is new. The users of all watches count together. */
  watch(ids: Iterable<string> = [], onChange?: (user: User, before: User | undefined) => void): Watch {
    const watch = new Watch({
      get: (id) => this.#replica.users.get(id),
      changed: () => this.#onWanted(),
      closed: (which) => {
        this.#watches.delete(which);
        this.#onWanted();
      },
    });
    if (onChange) watch.on("change", onChange);
    watch.add(...ids);
    this.#watches.add(watch);
    this.#onWanted();
    return watch;
  }

  /**
   * Reads the states of users once, without watching them: null for hidden ones, and if asked "unsure" in place of a
   * state that is not certain. Throws a Problem.
   */
  read(ids: string[]): Promise<Map<string, State>>;
  read(ids: string[], how: { unsure: "mark" }): Promise<Map<string, State | Unsure>>;
  read(ids: string[], how?: { unsure: "mark" }): Promise<Map<string, State | Unsure>> {
    return states(this.#options, ids, how?.unsure === "mark");
  }

  /** Reads all that is known of users once, in the order asked. Throws a Problem. */
  readUsers(ids: string[]): Promise<User[]> {
    return details(this.#options, ids);
  }

  /** How this user is, also if hidden, and whether others see it. Throws a Problem. */
  me(): Promise<Me> {
    return myself(this.#options);
  }

  /** Hides this user, with all devices, from everybody else, until show. Throws a Problem. */
  hide(): Promise<void> {
    return setAudience(this.#options, { base: "nobody" });
  }

  /** Ends hide. Throws a Problem. */
  show(): Promise<void> {
    return setAudience(this.#options, { base: "everyone" });
  }

  /** Sets what is given: whether others see this user, and what they learn of when last here. Throws a Problem. */
  setAudience(audience: Partial<Audience>): Promise<void> {
    return setAudience(this.#options, audience);
  }

  /** What setAudience, hide and show have set. Throws a Problem. */
  audience(): Promise<Audience> {
    return audienceOf(this.#options);
  }

  /** Looks hidden to these viewers, on all devices, until allow. The server bounds their number. Throws a Problem. */
  deny(ids: string[]): Promise<void> {
    return deny(this.#options, "add", ids);
  }

  /** Ends deny for these viewers. Throws a Problem. */
  allow(ids: string[]): Promise<void> {
    return deny(this.#options, "remove", ids);
  }

  /** The viewers whom deny has set. Throws a Problem. */
  denied(): Promise<Denial[]> {
    return denied(this.#options);
  }

  /** Shows this user, with all devices, as one who is away, invisible or not to be disturbed. Throws a Problem. */
  setOverride(override: Override): Promise<void> {
    return setOverride(this.#options, override);
  }

  /** Ends setOverride. Throws a Problem. */
  endOverride(): Promise<void> {
    return setOverride(this.#options, null);
  }

  /** What setOverride has set, null if nothing; under away with the state without it. Throws a Problem. */
  override(): Promise<{ override: Override | null; automatic?: State }> {
    return overrideOf(this.#options);
  }

  /** Says that the person is active now, where the page cannot see it, as in a game. */
  active() {
    this.#onTouch(this.#touches.idle);
    this.#touches.touched();
  }

  /** Connects again at once, also after the server has refused for good. */
  reconnect() {
    if (this.#leads) {
      this.#link.start();
      this.#link.wake();
    }
  }

  /** Ends everything. The device leaves at once, if no other tab shares its connection. */
  close(): Promise<void> {
    this.#ends.abort();
    this.#touches.close();
    for (const watch of this.#watches) watch.close();
    return this.#leave(true);
  }

  #address(): URL {
    const { url, present, user, tenant, kind, deliveries, token } = this.#options;
    const address = new URL(present ? "presence/connect" : "presence/stream", url);
    const set = (name: string, value: string | undefined) =>
      value === undefined || address.searchParams.set(name, value);
    set("tenant", tenant);
    if (present || token === undefined) set("user_id", user);
    if (present) set("device_id", this.#device);
    if (present) set("device_kind", kind);
    if (deliveries) set("deliveries", "true");
    return address;
  }

  async #token(ask: () => string | Promise<string>): Promise<string> {
    const token = this.#first ?? (await ask());
    this.#first = undefined;
    if (this.#isAnother(token) && this.#leads) {
      // The other tabs go on as the user of before.
      this.#first = token;
      void this.#leave(true);
      void this.#enter();
    }
    return token;
  }

  /** Whether a token is of another user than the one before: what that one saw is nothing for this one. */
  #isAnother(token: string): boolean {
    const before = this.#bearer;
    this.#bearer = JSON.stringify(bearerOf(token));
    if (before === undefined || before === this.#bearer) return false;
    this.#replica.clear();
    return true;
  }

  /** Who this is, for the key of what tabs share; undefined: not known, and so nothing is shared. */
  async #who(): Promise<string | undefined> {
    const { user, tenant, token } = this.#options;
    if (token === undefined) return user && JSON.stringify([tenant, user]);
    try {
      if (typeof token === "function") this.#first ??= await token();
      this.#isAnother(this.#first ?? (token as string));
      return this.#bearer && JSON.stringify([tenant, user, this.#bearer]);
    } catch {
      return undefined; // the link asks again, and says what is wrong
    }
  }

  /** Begins: as one of the tabs, or without others. */
  async #enter() {
    if (this.#tabs || this.#leads || this.#ends.signal.aborted) return;
    const { share, url, present, deliveries, resume } = this.#options;
    const who = share && canShare() ? await this.#who() : undefined;
    if (this.#tabs || this.#leads || this.#ends.signal.aborted) return;
    if (who === undefined) return this.#lead();
    const key = JSON.stringify([url.href, who, this.#device, present, deliveries, resume]);
    this.#tabs = new Tabs(
      key,
      () => this.#lead(),
      () => this.#follow(),
      (note) => this.#onNote(note),
    );
    this.#tabs.open();
    this.#follow();
  }

  /** Leaves, for ever or for as long as the page is away. */
  #leave(bye: boolean): Promise<void> {
    const shared = this.#others.size > 0;
    const closed = this.#leads ? this.#link.stop(bye && !shared) : Promise.resolve();
    this.#subscriber.closed();
    this.#cancelGuard();
    this.#tabs?.close();
    this.#tabs = undefined;
    this.#leads = false;
    this.#others.clear();
    this.#replica.lost();
    this.#setStatus("closed", {});
    return closed;
  }

  /** This tab has the connection from now on. */
  #lead() {
    this.#leads = true;
    this.#cancelGuard();
    this.#replica.lost();
    this.#tabs?.send({ type: "lead" });
    this.#steer();
  }

  /** Another tab has the connection, or will soon say so. */
  #follow() {
    if (this.#leads) {
      this.#leads = false;
      void this.#link.stop(false);
      this.#subscriber.closed();
    }
    this.#heard = Date.now();
    this.#sayWanted(true);
    this.#guard();
  }

  /** Asks a leading tab that has been mute for too long whether it lives, and takes its place without an answer. */
  #guard() {
    const wait = mute * this.#interval;
    this.#cancelGuard();
    this.#cancelGuard = after(wait, () => {
      if (Date.now() - this.#heard <= wait) return this.#guard();
      this.#sayWanted(true);
      this.#cancelGuard = after(5000, () => {
        if (Date.now() - this.#heard > wait) this.#tabs?.steal();
        else this.#guard();
      });
    });
  }

  /** All users that are wanted, in the order of the tabs and of their watches. */
  #wanted(): Set<string> {
    const all = new Set<string>();
    for (const watch of this.#watches) for (const id of watch.ids) all.add(id);
    for (const users of this.#others.values()) for (const id of users) all.add(id);
    return all;
  }

  #sayWanted(ask: boolean) {
    const users = [...this.#watches].flatMap((watch) => [...watch.ids]);
    this.#tabs?.send({ type: "want", users: [...new Set(users)], ask });
  }

  #onWanted() {
    this.#sayWanted(false);
    this.#steer();
  }

  #needed(): boolean {
    return this.#options.present || this.#wanted().size > 0;
  }

  /** Opens the connection if there is something to do for it, and tells it what. */
  #steer() {
    if (!this.#leads) return;
    if (!this.#needed()) after(linger, () => this.#leads && !this.#needed() && void this.#link.stop(false));
    else if (this.#link.status === "closed") this.#link.start();
    this.#subscriber.changed();
  }

  #onTouch(idle: number) {
    if (!this.#leads) this.#tabs?.send({ type: "touch" });
    else if (idle >= Math.min(notable, this.#interval)) this.#link.active();
  }

  async #onBeat() {
    this.#tabs?.send({ type: "beat", interval: this.#interval });
    if (!this.#tabs || this.#others.size === 0) return;
    // Tabs that have crashed did not say that they left.
    const alive = await this.#tabs.others();
    let changed = false;
    for (const id of this.#others.keys()) if (!alive.has(id)) changed = this.#others.delete(id);
    if (changed) this.#steer();
  }

  #onStatus(status: Status, detail: Detail) {
    if (status === "open") this.#greeted = false;
    else this.#subscriber.closed();
    if (status === "waiting") this.#replica.lost();
    const { problem, retryIn } = detail;
    this.#tabs?.send({
      type: "status",
      status,
      ...(retryIn !== undefined && { retryIn }),
      ...(problem && { code: problem.code, message: problem.message }),
    });
    this.#setStatus(status, detail);
  }

  #setStatus(status: Status, detail: Detail) {
    if (status === this.#status && status !== "waiting") return;
    this.#status = status;
    this.emit("status", status, detail);
    if (status === "refused" && detail.problem) this.#report(detail.problem);
  }

  #report(problem: Problem) {
    if (!this.emit("error", problem)) console.error(`stillhere: ${problem.code}: ${problem.message}`);
  }

  /** Takes a message of the server, for all tabs. */
  #onMessage(message: Message) {
    const problem = this.#subscriber.receive(message);
    if (message.type === "hello") {
      this.#interval = message.heartbeat_interval_ms!;
      if (!this.#greeted) this.#subscriber.opened(message.max_subscriptions ?? 500);
      this.#greeted = true;
    }
    this.#publish(problem?.user ? { ...message, error: { ...message.error!, user_id: problem.user } } : message);
  }

  #publish(message: Message) {
    this.#tabs?.send({ type: "message", message });
    this.#apply(message);
  }

  #apply(message: Message) {
    if (message.type === "error") {
      const { code, message: text, field, user_id: user } = message.error!;
      const problem = new Problem(code, text, { field, user });
      this.#report(problem);
      for (const watch of [...this.#watches]) watch.refuse(problem);
    } else if (message.type === "delivery") {
      this.emit("delivery", message.user!);
    } else {
      this.#deliver(this.#replica.apply(message));
    }
  }

  #deliver({ changed, skipped }: Changes) {
    if (changed.length > 0 || skipped) for (const watch of [...this.#watches]) watch.deliver(changed, skipped);
  }

  #onNote(note: Note) {
    switch (note.type) {
      case "want":
        this.#others.set(note.from, note.users);
        if (this.#leads && note.ask) this.#sendState();
        return this.#steer();
      case "left":
        this.#others.delete(note.from);
        return this.#steer();
      case "touch": {
        const { idle } = this.#touches;
        this.#touches.touched();
        if (this.#leads) this.#onTouch(idle);
        return;
      }
    }
    if (this.#leads) return; // what an earlier leading tab still says
    this.#heard = Date.now();
    switch (note.type) {
      case "lead":
        return this.#sayWanted(true);
      case "beat":
        if (note.interval === this.#interval) return;
        this.#interval = note.interval;
        return this.#guard();
      case "state":
        for (const [id, users] of note.wants) if (id !== this.#tabs?.id) this.#others.set(id, users);
        this.#deliver(this.#replica.adopt(note.copy));
        return this.#setStatus(note.status, {});
      case "status": {
        if (note.status === "waiting") this.#replica.lost();
        const problem = note.code !== undefined && new Problem(note.code, note.message ?? "");
        return this.#setStatus(note.status, {
          ...(problem && { problem }),
          ...(note.retryIn !== undefined && { retryIn: note.retryIn }),
        });
      }
      case "message":
        return this.#apply(note.message);
      case "forget":
        return this.#replica.forget(note.users);
    }
  }

  #sendState() {
    const own: [string, string[]] = [this.#tabs!.id, [...this.#watches].flatMap((watch) => [...watch.ids])];
    const wants = [own, ...this.#others];
    this.#tabs!.send({ type: "state", copy: this.#replica.copy(), status: this.#link.status, wants });
  }
}
