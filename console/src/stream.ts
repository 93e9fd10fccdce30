import { type Event, events, Fault } from "./api";

/** How a live connection is. */
export interface Link {
  /**
   * connecting: no event has come yet, or nobody sees the page; live: from the server's first event on; lost: it is
   * tried again at retryAt, and stays lost until it is live; refused: trying again does not help.
   */
  how: "connecting" | "live" | "lost" | "refused";
  fault?: Fault;
  /** Of lost: when it is tried again, in Unix milliseconds. */
  retryAt?: number;
}

/** For how long a page that nobody sees keeps its streams, in milliseconds. */
const hideAfter = 5_000;
/** The first and the longest wait after a connection was lost, in milliseconds. */
const [firstWait, longestWait] = [500, 15_000];

/** Statuses at which trying again does not help. */
const final = (fault: Fault) =>
  fault.status >= 400 && fault.status < 500 && fault.status !== 408 && fault.status !== 429;

/**
 * A stream of events that stays open until close. It is live from the server's first event on, for a server that has
 * answered may still look for the end of a log: what passes before is not sent. Nor is what passes while a connection is
 * lost: take gets an event "reopened" then, whose data is the instant, in Unix milliseconds by this machine, of the
 * last event before. A page that nobody sees has no connection: a browser has six to a server, for all of its tabs.
 */
export class LiveStream {
  /** The connection, or the last one; aborted by sleep and close. */
  #connection = new AbortController();
  /** Of lost: until the next try. Else 0. */
  #retry = 0;
  /** Of a page that nobody sees: until it sleeps. Else 0. */
  #hide = 0;
  #asleep = false;
  /** How often it was tried since it was live. */
  #tries = 0;
  /** When the last event came, in Unix milliseconds; 0: none has. */
  #heard = 0;

  /** With idle, a connection is lost when nothing has come for so many milliseconds. */
  constructor(
    readonly url: string,
    readonly idle: number,
    readonly take: (event: Event) => void,
    readonly show: (link: Link) => void,
  ) {
    this.show({ how: "connecting" });
    void this.#connect();
  }

  close() {
    this.#disconnect();
    clearTimeout(this.#hide);
  }

  /** Tries a lost connection at once. */
  tryNow() {
    if (this.#retry) void this.#connect();
  }

  /** Says whether somebody sees the page. */
  setHidden(hidden: boolean) {
    clearTimeout(this.#hide);
    if (hidden) this.#hide = window.setTimeout(() => this.#sleep(), hideAfter);
    else if (this.#asleep) {
      this.#asleep = false;
      void this.#connect();
    }
  }

  #sleep() {
    this.#asleep = true;
    this.#disconnect();
    this.show({ how: "connecting" });
  }

  #disconnect() {
    this.#connection.abort();
    clearTimeout(this.#retry);
    this.#retry = 0;
  }

  /** Reads until the connection ends. Its errors are told, not thrown. */
  async #connect() {
    this.#disconnect();
    this.#connection = new AbortController();
    const { signal } = this.#connection;
    let fault = new Fault(0, "ended", "The server closed the connection.");
    try {
      await this.#read(signal);
    } catch (error) {
      fault = error instanceof Fault ? error : new Fault(0, "lost", "The connection was lost.");
    }
    if (!signal.aborted) this.#lose(fault);
  }

  async #read(signal: AbortSignal) {
    let first = true;
    for await (const event of events(new URL(this.url), { signal }, this.idle)) {
      if (event.name === "error") {
        const { status = 0, code = "ended", message } = JSON.parse(event.data).error;
        throw new Fault(status, code, message);
      }
      if (first) this.#live();
      first = false;
      this.#heard = Date.now();
      this.take(event);
    }
  }

  #live() {
    this.#tries = 0;
    this.show({ how: "live" });
    if (this.#heard) this.take({ name: "reopened", data: String(this.#heard) });
  }

  #lose(fault: Fault) {
    if (final(fault)) return this.show({ how: "refused", fault });
    const wait = Math.min(longestWait, firstWait * 2 ** this.#tries++) * (0.75 + Math.random() / 4);
    this.show({ how: "lost", fault, retryAt: Date.now() + wait });
    this.#retry = window.setTimeout(() => this.#connect(), wait);
  }
}
