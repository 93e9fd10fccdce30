import type { Status } from "./link.js";
import type { Message } from "./messages.js";
import type { Copy } from "./replica.js";

/** What tabs that share a connection say to each other. */
export type Note = { from: string } & (
  | { type: "want"; users: string[]; ask: boolean } // whom this tab watches; ask: it wants a state
  | { type: "lead" } // this tab has the connection from now on
  | { type: "state"; copy: Copy; status: Status; wants: [tab: string, users: string[]][] } // to tabs that are new
  | { type: "status"; status: Status; retryIn?: number; code?: string; message?: string }
  | { type: "message"; message: Message } // of the server
  | { type: "forget"; users: string[] } // nobody watches these any more
  | { type: "beat"; interval: number } // the connection is cared for
  | { type: "touch" } // the person touches this tab now
  | { type: "left" } // this tab closes
);

type WithoutSender<T> = T extends unknown ? Omit<T, "from"> : never;

/** Whether tabs can share a connection here: not without https, and not outside of browsers. */
export function canShare(): boolean {
  return (
    typeof document !== "undefined" &&
    typeof BroadcastChannel !== "undefined" &&
    typeof navigator !== "undefined" &&
    typeof navigator.locks?.request === "function"
  );
}

/**
 * The tabs of a browser with the same key. One of them leads: it holds a lock, which the browser gives
 * to the next one when it closes or crashes. Each tab holds a lock of its own as well, so that the
 * leading one knows which others live.
 */
export class Tabs {
  readonly id = crypto.randomUUID();
  readonly #key: string;
  readonly #onLead: () => void;
  readonly #onLost: () => void;
  readonly #onNote: (note: Note) => void;
  #channel: BroadcastChannel | undefined;
  #ends = new AbortController();
  #release = () => {};
  #leads = false;

  /** onLost: another tab has taken the lead, because this one did not answer. */
  constructor(key: string, onLead: () => void, onLost: () => void, onNote: (note: Note) => void) {
    this.#key = `stillhere/2/${key}`;
    this.#onLead = onLead;
    this.#onLost = onLost;
    this.#onNote = onNote;
  }

  get leads() {
    return this.#leads;
  }

  open() {
    this.#ends = new AbortController();
    const { signal } = this.#ends;
    this.#channel = new BroadcastChannel(this.#key);
    this.#channel.onmessage = ({ data }) => this.#onNote(data as Note);
    const closed = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    navigator.locks.request(`${this.#key}/tab/${this.id}`, { signal }, () => closed).catch(() => {});
    this.#candidate({ signal });
  }

  /** Takes the lead from a tab that does not answer. */
  steal() {
    if (!this.#leads && this.#channel) this.#candidate({ steal: true });
  }

  #candidate(options: LockOptions) {
    const { signal } = this.#ends;
    navigator.locks
      .request(this.#key, options, () => {
        if (signal.aborted || this.#leads) return undefined;
        this.#leads = true;
        const released = new Promise<void>((resolve) => {
          this.#release = resolve;
        });
        this.#onLead();
        return released;
      })
      .catch(() => {
        // Closed, or another tab has taken the lock.
        if (!this.#leads || signal.aborted) return;
        this.#leads = false;
        this.#onLost();
        this.#candidate({ signal });
      });
  }

  send(note: WithoutSender<Note>) {
    this.#channel?.postMessage({ ...note, from: this.id });
  }

  /** The ids of the other tabs that live. */
  async others(): Promise<Set<string>> {
    const start = `${this.#key}/tab/`;
    const { held = [] } = await navigator.locks.query();
    const ids = held.flatMap(({ name }) => (name?.startsWith(start) ? [name.slice(start.length)] : []));
    return new Set(ids.filter((id) => id !== this.id));
  }

  close() {
    this.send({ type: "left" });
    this.#channel?.close();
    this.#channel = undefined;
    this.#ends.abort();
    this.#leads = false;
    this.#release();
  }
}
