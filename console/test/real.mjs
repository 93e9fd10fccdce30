// stillhere dev, with a data directory of its own and a port that is free.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL("../", import.meta.url));

/** Times that make states change within seconds. A silent user is away after 4 s and offline after 8. */
const quick = ["--policy=heartbeat_interval=1s,online_ttl=3s,offline_debounce=1s,away_ttl=8s,gateway_silence=3s"];

/** The program that STILLHERE names; without it, one that is built. */
export function program() {
  if (process.env.STILLHERE) return resolve(process.env.STILLHERE);
  const built = `${here}.build/stillhere`;
  mkdirSync(`${here}.build`, { recursive: true });
  execFileSync("go", ["build", "-o", built, "./cmd/stillhere"], { cwd: `${here}..`, stdio: "inherit" });
  return built;
}

export class Real {
  /** Starts the program with flags; timing are those of its policy. */
  static async start(args = [], timing = quick) {
    const real = new Real();
    real.program = program();
    real.dir = mkdtempSync(join(tmpdir(), "stillhere-console-"));
    real.options = [`--data-dir=${real.dir}`, ...timing, ...args];
    await real.up("127.0.0.1:0");
    return real;
  }

  async up(listen) {
    this.process = spawn(this.program, ["dev", `--listen=${listen}`, ...this.options], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let said = "";
    this.url = await new Promise((done, fail) => {
      for (const stream of [this.process.stdout, this.process.stderr])
        stream.on("data", (data) => {
          said += data;
          const ready = /^ready (http:\S+)/m.exec(said);
          if (ready) done(ready[1]);
        });
      this.process.on("exit", (code) => fail(new Error(`exited with ${code}: ${said}`)));
    });
  }

  /** Kills the program and starts it again at the same address. */
  async restart() {
    await this.killed();
    await this.up(new URL(this.url).host);
  }

  /**
   * Sends beats of a gateway as often as a person would not, until the test ends or what this resolves to is called.
   * The first ones are in the log when it resolves.
   */
  async keep(gateway, beats, every = 700) {
    const body = { gateway_id: gateway, gateway_epoch: String(Date.now()), beats };
    await this.send(body);
    const timer = setInterval(() => this.send(body).catch(() => {}), every);
    this.timers ??= [];
    this.timers.push(timer);
    return () => clearInterval(timer);
  }

  async send(body) {
    const answer = await fetch(`${this.url}/presence/heartbeats`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    if (answer.status !== 202) throw new Error(`${answer.status} ${await answer.text()}`);
  }

  async killed() {
    this.process.removeAllListeners("exit");
    const exited = new Promise((done) => this.process.once("exit", done));
    this.process.kill("SIGKILL");
    await exited;
  }

  async end() {
    for (const timer of this.timers ?? []) clearInterval(timer);
    await this.killed();
    rmSync(this.dir, { recursive: true, force: true });
  }
}
