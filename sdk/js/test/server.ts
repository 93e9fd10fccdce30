import { type ChildProcess, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Seen } from "./seen.js";

/**
 * Times that make states change within seconds, and forgive a busy machine some of them. A silent user is away
 * after 8 s and offline after 12; one who touches nothing is away after 4.
 */
const quick = ["--policy=heartbeat_interval=1s,online_ttl=6s,offline_debounce=2s,away_ttl=12s,idle_after=4s"];

export const secret = "a secret of the tests that has more than 32 bytes";

/** The flag of a file with the secret. */
export function authentication(): string {
  const file = join(mkdtempSync(join(tmpdir(), "stillhere-js-")), "secret");
  writeFileSync(file, secret, { mode: 0o600 });
  return `--auth-secret-file=${file}`;
}

/** A change of a user as the console's feed has it. */
export interface Change {
  to: string;
  /** Such as bye or silent. */
  cause: string;
}

/** A port that nobody listens at. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

/** stillhere dev, with a data directory and a port of its own. */
export class Server {
  readonly port: number;
  readonly url: string;
  readonly #args: string[];
  readonly #dir = mkdtempSync(join(tmpdir(), "stillhere-js-"));
  readonly #ends = new AbortController();
  #process: ChildProcess | undefined;

  private constructor(port: number, args: string[]) {
    this.port = port;
    this.url = `http://127.0.0.1:${port}`;
    const policy = args.some((arg) => arg.startsWith("--policy=")) ? [] : quick;
    this.#args = ["dev", `--data-dir=${this.#dir}`, `--listen=127.0.0.1:${port}`, ...policy, ...args];
  }

  static async start(...args: string[]): Promise<Server> {
    const server = new Server(await freePort(), args);
    await server.start();
    return server;
  }

  async start() {
    const lines = new Seen<string>();
    const started = spawn(process.env.STILLHERE!, this.#args, { stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [started.stdout, started.stderr])
      stream.on("data", (data: Buffer) => {
        for (const line of data.toString().split("\n")) lines.push(line);
      });
    started.on("exit", (code) => lines.push(`exited with ${code}`));
    this.#process = started;
    const line = await lines.first((text) => /^(ready|exited)/.test(text), "the server is ready");
    if (!line.startsWith("ready")) throw new Error(lines.all.join("\n"));
  }

  async stop(signal: NodeJS.Signals = "SIGTERM") {
    const running = this.#process;
    this.#process = undefined;
    if (!running || running.exitCode !== null) return;
    const exited = new Promise((resolve) => running.on("exit", resolve));
    running.kill(signal);
    await exited;
  }

  async end() {
    this.#ends.abort();
    await this.stop("SIGKILL");
    rmSync(this.#dir, { recursive: true, force: true });
  }

  /** The changes of a user from now on, with their causes, until the server ends. */
  async changes(user: string): Promise<Seen<Change>> {
    const seen = new Seen<Change>();
    const address = `${this.url}/console/api/feed?user_id=${encodeURIComponent(user)}`;
    const { body } = await fetch(address, { signal: this.#ends.signal });
    const read = async (open: () => void) => {
      let text = "";
      for await (const part of body!.pipeThrough(new TextDecoderStream())) {
        const events = (text + part).split("\n\n");
        text = events.pop()!;
        for (const event of events) {
          if (event.startsWith("event: open")) open();
          else if (event.startsWith("event: change")) seen.push(JSON.parse(event.slice(event.indexOf("data: ") + 6)));
        }
      }
    };
    await new Promise<void>((open) => {
      read(open).catch(() => {}); // the server has ended
    });
    return seen;
  }

  /** Sends heartbeats as a gateway without a name does. */
  async beat(...beats: { user_id: string; device_id?: number; bye?: boolean; tenant?: string }[]) {
    const body = JSON.stringify({ beats: beats.map((beat) => ({ device_id: 77, ...beat })) });
    const answer = await fetch(`${this.url}/presence/heartbeats`, { method: "POST", body });
    if (answer.status !== 202) throw new Error(`${answer.status} ${await answer.text()}`);
  }
}

/** A token, signed as the server's --auth-secret-file says. */
export function tokenOf(claims: object, seconds: number): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const scope = "presence:beat presence:read";
  const exp = Math.floor(Date.now() / 1000) + seconds;
  const text = `${encode({ alg: "HS256", typ: "JWT" })}.${encode({ scope, exp, ...claims })}`;
  return `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
}
