import { type Message, parse } from "./messages.js";
import { tokenNow } from "./options.js";
import { Problem, problemOf } from "./problem.js";
import { after, backoff } from "./timers.js";

/**
 * connecting, open, waiting (lost; the next attempt is planned), refused (the server refuses for good),
 * closed (nothing is wanted of it).
 */
export type Status = "connecting" | "open" | "waiting" | "refused" | "closed";

/** With a status: why, and when the next attempt comes, in milliseconds. */
export interface Detail {
  problem?: Problem;
  retryIn?: number;
}

/** What a link needs of its surroundings. */
export interface Terms {
  /** http:// or https:// address of the endpoint with its parameters, without token. */
  address: URL;
  /** Whether this is a device's connection, which keeps its user online. */
  present: boolean;
  deliveries: boolean;
  /** undefined: there are no tokens. */
  token: string | (() => string | Promise<string>) | undefined;
  /** How long ago the person last touched the device, in milliseconds. */
  idle: () => number;
  firstWait: number;
  maxWait: number;
  socket: typeof WebSocket;
  fetch: typeof fetch;
  onMessage: (message: Message) => void;
  onStatus: (status: Status, detail: Detail) => void;
  onProblem: (problem: Problem) => void;
  /** Once in each heartbeat interval of the policy. */
  onBeat: () => void;
}

/** A connection has to bring a hello, and an answer to a question, within this time. */
const patient = 10_000;
/** A connection that has lasted so long was no failure. */
const lasting = 10_000;
/** A connection with more unsent bytes than this is broken. */
const maxUnsent = 1 << 20;
/** A token is renewed so long before it ends, or when a quarter of it is left; and after a day at the latest. */
const ahead = 60_000;
const day = 86_400_000;
/** The server keeps no longer idle times: 30 days. */
const maxIdle = 2_592_000_000;

const idleNow = (idle: () => number) => Math.min(maxIdle, Math.max(0, Math.round(idle())));
/** So many refused tokens in a row are refused for good. */
const maxTokens = 5;
/** The close code of the server for a token that has ended. */
const tokenEnded = 4401;
/** With this code the server sees no bye: the device comes back, by this or another tab. */
const handOver = 4000;

/** A page is not told whether a server is away or refuses its origin. */
function unreachable(origin: string): string {
  const own = globalThis.location?.origin;
  return `the server cannot be reached${own && own !== origin ? `, or lacks --allowed-origins ${own}` : ""}`;
}

/** Whether a close code means that the same thing would happen again. */
function isFinal(code: number): boolean {
  return [1002, 1003, 1007, 1009, 1010].includes(code) || (code >= 4400 && code < 4500 && code !== tokenEnded);
}

/** One connection, which is opened again whenever it is lost. */
export class Link {
  readonly #terms: Terms;
  #socket: WebSocket | undefined;
  #status: Status = "closed";
  #cancelWait = () => {}; // of an attempt, a pause or an answer
  #cancelBeat = () => {};
  #cancelRenewal = () => {};
  #interval = 0;
  #jitter = 0;
  #opened = 0; // when the hello came
  #heard = 0; // when anything came
  #asking = false; // the server owes an answer
  #reconnectIn: number | undefined; // what the server asked for
  #failures = 0;
  #refusedTokens = 0;
  #used: boolean | undefined; // as last reported; undefined: to be reported
  #touched = 0;
  #run = 0; // of the attempts; what belongs to an earlier one is ignored

  constructor(terms: Terms) {
    this.#terms = terms;
  }

  get status() {
    return this.#status;
  }

  /** Connects, if it is not connected, connecting or waiting. */
  start() {
    if (this.#status !== "closed" && this.#status !== "refused") return;
    this.#failures = this.#refusedTokens = 0;
    void this.#connect();
  }

  /** Connects at once if it waits for the next attempt, and looks whether an open connection is still one. */
  wake() {
    if (this.#status === "waiting" && this.#reconnectIn === undefined) void this.#connect();
    else if (this.#status === "open") this.#ask();
  }

  /** Ends the connection; with a bye the device leaves at once. Returns when the server knows, or after a moment. */
  stop(bye: boolean): Promise<void> {
    const socket = this.#socket;
    const closed = new Promise<void>((resolve) => {
      if (!socket || socket.readyState === 3) return resolve();
      socket.addEventListener("close", () => resolve());
      setTimeout(resolve, 2000);
    });
    if (bye && this.#status === "open" && this.#terms.present) this.send({ type: "bye" });
    this.#end(bye ? 1000 : handOver);
    this.#set("closed");
    return closed;
  }

  /** Sends a message, or nothing if there is no connection. */
  send(message: object | string) {
    const socket = this.#socket;
    if (socket?.readyState !== 1) return;
    if (socket.bufferedAmount > maxUnsent)
      return this.#lost(new Problem("unreachable", "the network does not take what is sent"));
    socket.send(typeof message === "string" ? message : JSON.stringify(message));
  }

  /** Says at once that the person has touched the device. */
  active() {
    if (this.#status === "open" && this.#terms.present) this.#beat();
  }

  /** The browser has no network: what is open is lost, though no close arrives. */
  offline() {
    if (this.#status === "open" || this.#status === "connecting")
      this.#lost(new Problem("unreachable", "the browser is offline"));
  }

  /** Drops the connection and opens another. */
  restart(problem: Problem) {
    this.#lost(problem);
  }

  #set(status: Status, detail: Detail = {}) {
    if (status === this.#status && status === "closed") return;
    this.#status = status;
    this.#terms.onStatus(status, detail);
  }

  /** Ends what belongs to the current attempt or connection. */
  #end(code: number) {
    this.#run++;
    this.#cancelWait();
    this.#cancelBeat();
    this.#cancelRenewal();
    const socket = this.#socket;
    this.#socket = undefined;
    this.#asking = false;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.onerror = () => {}; // Node reports a close during the handshake here
    socket.close(code);
  }

  async #connect() {
    this.#end(handOver);
    const run = this.#run;
    this.#reconnectIn = undefined;
    this.#set("connecting");
    const { address, token, present, idle } = this.#terms;
    const url = new URL(address);
    try {
      const text = await tokenNow(token);
      if (text !== undefined) url.searchParams.set("access_token", text);
    } catch (error) {
      if (run !== this.#run) return;
      if (error instanceof Problem) this.#refuse(error);
      else this.#lost(new Problem("token", `the token callback failed: ${error}`));
      return;
    }
    if (run !== this.#run) return;
    if (present) {
      this.#used = undefined;
      url.searchParams.set("idle_ms", String(idleNow(idle)));
    }
    const probe = String(url);
    url.protocol = url.protocol.replace("http", "ws");
    let socket: WebSocket;
    try {
      socket = new this.#terms.socket(url);
    } catch (error) {
      // Such as ws:// from a page of https://.
      return this.#refuse(new Problem("unreachable", String(error)));
    }
    this.#socket = socket;
    this.#opened = 0;
    this.#cancelWait = after(patient, () => this.#lost(new Problem("unanswered", "the server sent no hello in time")));
    socket.onmessage = ({ data }) => this.#receive(data);
    const closed = (code: number, reason: string) => {
      if (this.#socket !== socket) return;
      this.#socket = undefined;
      this.#closed(code, reason, probe);
    };
    socket.onclose = ({ code, reason }) => closed(code, reason);
    // A close follows, except in Node before 22.
    socket.onerror = () => setTimeout(closed, 100, 1006, "");
  }

  #receive(data: unknown) {
    this.#heard = Date.now();
    const message = parse(data);
    if (!message) return this.#terms.onProblem(new Problem("malformed", "the server sent what is no message"));
    if (this.#asking) {
      this.#asking = false;
      this.#cancelWait();
      if (message.type === "error" && /^(no_deliveries|unknown_viewer|unknown_type)$/.test(message.error!.code)) return;
    }
    if (message.type === "token") return this.#planRenewal(message.ends_in_ms ?? 0);
    // Of a renewal: the connection ends with the token that it has, unless another connection would take this one.
    if (message.type === "error" && message.error!.field === "token") {
      const problem = new Problem(message.error!.code, message.error!.message, { field: "token" });
      return problem.code === "another_token" ? this.#lost(problem, 0) : this.#terms.onProblem(problem);
    }
    if (message.type === "error") this.#used = undefined; // it may have been the report
    if (message.type === "reconnect") this.#reconnectIn = Math.max(0, Number(message.after_ms) || 0);
    if (message.type === "hello") {
      this.#interval = message.heartbeat_interval_ms!;
      this.#jitter = Math.min(this.#interval, message.heartbeat_jitter_ms ?? 0);
      // Clients that connect together shall not send together.
      this.#plan(Math.random());
      if (!this.#opened) {
        this.#cancelWait();
        this.#opened = Date.now();
        this.#refusedTokens = 0;
        this.#set("open");
      }
    }
    this.#terms.onMessage(message);
  }

  /** Asks for another token before this one ends, and gives it to the open connection. */
  #planRenewal(endsIn: number) {
    const { token } = this.#terms;
    this.#cancelRenewal();
    if (typeof token !== "function" || !(endsIn >= 1000)) return;
    const wait = Math.min(day, Math.max(endsIn * 0.75, endsIn - ahead * (1 + Math.random())));
    const run = this.#run;
    this.#cancelRenewal = after(wait, async () => {
      try {
        const text = await tokenNow(token);
        if (run === this.#run) this.send({ type: "token", token: text });
      } catch {
        // The connection ends with its token, and the next attempt asks again.
      }
    });
  }

  #plan(part: number) {
    this.#cancelBeat();
    this.#cancelBeat = after((this.#interval - Math.random() * this.#jitter) * part, () => this.#beat());
  }

  /** Says whether the person uses the device, and since when not, where that has changed. */
  #beat() {
    this.#plan(1);
    this.#terms.onBeat();
    if (this.#terms.present) {
      const idle = idleNow(this.#terms.idle);
      const touched = performance.now() - idle;
      const used = idle <= this.#interval;
      if (used !== this.#used || (!used && Math.abs(touched - this.#touched) > 500))
        this.send({ type: "activity", idle_ms: idle });
      this.#used = used;
      this.#touched = touched;
    }
    // Pages do not see the server's pings.
    if (Date.now() - this.#heard > 2 * this.#interval) this.#ask();
  }

  /** Asks what changes nothing and has an answer, so that a broken connection is found. */
  #ask() {
    if (this.#asking || this.#status !== "open") return;
    this.#asking = true;
    this.#cancelWait = after(patient, () => this.#lost(new Problem("unanswered", "the server does not answer")));
    this.send({ type: "deliveries", enabled: this.#terms.deliveries });
  }

  #closed(code: number, reason: string, probe: string) {
    const text = `closed with ${code}${reason ? ` (${reason})` : ""}`;
    const problem = new Problem(code === tokenEnded ? "token_ended" : "closed", text, { status: code });
    if (!this.#opened && code === 1006) return void this.#diagnose(probe);
    if (code === tokenEnded && typeof this.#terms.token !== "function") return this.#refuse(problem);
    if (isFinal(code)) return this.#refuse(problem);
    // The next token is asked for at once, unless this one has ended as soon as it came.
    const retryIn = code === tokenEnded && Date.now() - this.#opened > 1000 ? 0 : this.#reconnectIn;
    this.#lost(problem, retryIn);
  }

  /** A failed handshake has no reason in a page, so the reason is asked for. Not each time: it costs a request. */
  async #diagnose(probe: string) {
    const run = this.#run;
    let problem = new Problem("unreachable", unreachable(new URL(probe).origin));
    if (this.#failures % 4 === 0 || this.#refusedTokens) {
      try {
        const answer = await this.#terms.fetch(probe, { cache: "no-store", signal: AbortSignal.timeout(patient) });
        // 426: it takes WebSockets here.
        if (answer.status !== 426 && !answer.ok) problem = await problemOf(answer);
      } catch {
        // Nobody answers, or the page's origin is not allowed.
      }
      if (run !== this.#run) return;
    }
    const { status = 0, code } = problem;
    const ours = code !== "http"; // what a proxy says may pass
    if (status === 401 && typeof this.#terms.token === "function" && ++this.#refusedTokens < maxTokens)
      return this.#lost(problem);
    if (ours && status >= 400 && status < 500 && status !== 408 && status !== 429) return this.#refuse(problem);
    this.#lost(problem, problem.retryAfter);
  }

  #refuse(problem: Problem) {
    this.#end(1000);
    this.#set("refused", { problem });
  }

  /** Plans the next attempt: in retryIn milliseconds, or after a pause that grows. */
  #lost(problem: Problem, retryIn?: number) {
    this.#failures = this.#opened && Date.now() - this.#opened > lasting ? 1 : this.#failures + 1;
    const wait = retryIn ?? backoff(this.#failures, this.#terms.firstWait, this.#terms.maxWait);
    this.#end(handOver);
    this.#reconnectIn = retryIn;
    this.#set("waiting", { problem, retryIn: wait });
    this.#cancelWait = after(wait, () => void this.#connect());
  }
}
