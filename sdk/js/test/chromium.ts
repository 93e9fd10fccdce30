import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Seen } from "./seen.js";

// The DevTools protocol itself: drivers make every page believe that it is visible, and keep pages out of
// the back-forward cache.

type Params = Record<string, unknown>;
type Answer = {
  id?: number;
  method?: string;
  params?: Params;
  sessionId?: string;
  result?: Params;
  error?: { message: string };
};

const programs = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** A Chromium without a window, with a profile of its own. */
export class Chromium {
  readonly #process: ChildProcess;
  readonly #dir: string;
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, [(result: Params) => void, (error: Error) => void]>();
  readonly #tabs = new Map<string, Tab>();
  #last = 0;

  private constructor(process: ChildProcess, dir: string, socket: WebSocket) {
    this.#process = process;
    this.#dir = dir;
    this.#socket = socket;
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    socket.onclose = () => {
      for (const [, reject] of this.#waiting.values()) reject(new Error("Chromium has ended"));
      this.#waiting.clear();
    };
  }

  static async start(): Promise<Chromium> {
    const program = process.env.CHROMIUM ?? programs.find((path) => existsSync(path));
    if (!program) throw new Error("no Chromium here: set CHROMIUM to its program");
    const dir = mkdtempSync(join(tmpdir(), "stillhere-chromium-"));
    // The timers of hidden pages slow down after a second rather than after some minutes.
    const slow = "--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/1";
    const plain = ["--headless=new", "--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage"];
    const started = spawn(
      program,
      [...plain, slow, "--remote-debugging-port=0", `--user-data-dir=${dir}`, "about:blank"],
      {
        stdio: ["ignore", "ignore", "pipe"],
        detached: true, // a group of its own, which end kills
      },
    );
    const lines = new Seen<string>();
    started.stderr.on("data", (data: Buffer) => lines.push(data.toString()));
    const url = await lines.until(() => /ws:\/\/127\S+/.exec(lines.all.join(""))?.[0], "Chromium listens");
    const socket = new WebSocket(url);
    await new Promise((resolve) => socket.addEventListener("open", resolve));
    return new Chromium(started, dir, socket);
  }

  #receive({ id, method, params, sessionId, result, error }: Answer) {
    if (id !== undefined) {
      const [resolve, reject] = this.#waiting.get(id)!;
      this.#waiting.delete(id);
      if (error) reject(new Error(error.message));
      else resolve(result ?? {});
    }
    const notes = this.#tabs.get(sessionId ?? "")?.notes;
    if (method === "Runtime.bindingCalled") notes?.push(JSON.parse(params!.payload as string));
    if (method === "Runtime.exceptionThrown") notes?.push({ thrown: JSON.stringify(params) });
  }

  send(method: string, params: Params = {}, sessionId?: string): Promise<Params> {
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      if (this.#socket.readyState !== 1) return reject(new Error("Chromium has ended"));
      this.#waiting.set(id, [resolve, reject]);
      this.#socket.send(JSON.stringify({ id, method, params, sessionId }));
    });
  }

  /** Opens a tab in front of all others. What its page passes to note(text) comes as notes. */
  async open(url: string): Promise<Tab> {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const tab = new Tab(this, targetId as string, sessionId as string);
    this.#tabs.set(sessionId as string, tab);
    await tab.send("Runtime.enable");
    await tab.send("Runtime.addBinding", { name: "note" });
    await tab.goTo(url);
    return tab;
  }

  async end() {
    const { exitCode, signalCode } = this.#process;
    const exited = new Promise((resolve) => this.#process.on("exit", resolve));
    this.#socket.close();
    if (exitCode === null && signalCode === null) {
      // All of its processes: those that it leaves behind write to the folder.
      process.kill(-this.#process.pid!, "SIGKILL");
      await exited;
    }
    rmSync(this.#dir, { recursive: true, force: true, maxRetries: 20 });
  }
}

/** What a page says: see visits.ts and react.page.tsx. */
export interface Note {
  status?: string;
  user?: string;
  state?: string | null;
  code?: string;
  skipped?: boolean;
  /** Of the page with React: what it shows of each user, in order. */
  shows?: (string | null)[];
  /** An error that nothing in the page has caught, or that React reports. */
  thrown?: string;
}

export class Tab {
  readonly notes = new Seen<Note>();
  readonly #chromium: Chromium;
  readonly #target: string;
  readonly #session: string;

  constructor(chromium: Chromium, target: string, session: string) {
    this.#chromium = chromium;
    this.#target = target;
    this.#session = session;
  }

  send(method: string, params: Params = {}) {
    return this.#chromium.send(method, params, this.#session);
  }

  /** The value of an expression, also of a promise. */
  async run(expression: string): Promise<unknown> {
    const options = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", options);
    if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails));
    return (result as { value: unknown }).value;
  }

  async goTo(url: string) {
    await this.send("Page.navigate", { url });
  }

  async toFront() {
    await this.#chromium.send("Target.activateTarget", { targetId: this.#target });
  }

  /** Closes the tab as a person does. */
  async close() {
    await this.#chromium.send("Target.closeTarget", { targetId: this.#target });
  }

  /** Kills the process of the page. It cannot answer any more. */
  crash() {
    this.send("Page.crash").catch(() => {});
  }

  /** The person presses a key. */
  async press() {
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", key: "a" });
  }
}
