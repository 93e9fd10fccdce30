// Measures the console against the program with 100,000 users present and some 1,000 changes a second: npm run load.
// STILLHERE_URL names a server that runs already; without it, stillhere dev is started. Users and their pace may
// be given: npm run load -- 150000 4. Times depend on the machine: this prints them, with its load, and judges nothing.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { loadavg } from "node:os";
import { frames, launch, painted, visit } from "./drive.mjs";
import { program, Real } from "./real.mjs";

// Two of three simulated users are present, and each changes every few minutes.
const [people, pace] = [Number(process.argv[2] ?? 150_000), process.argv[3] ?? "4"];
const present = people * 0.6;
const ticks = 100; // of a second, in /proc

const say = (name, text) => console.log(`${name.padEnd(46)} ${text}`);
const ms = (n) => `${n < 10 ? n.toFixed(1) : Math.round(n)} ms`;
const MB = (bytes) => `${Math.round(bytes / 1e6)} MB`;

const real = process.env.STILLHERE_URL ? undefined : await Real.start([], []);
const url = real?.url ?? process.env.STILLHERE_URL;
const server = real?.process.pid;
const crowd = spawn(
  program(),
  ["load", `--url=${url}`, `--users=${people}`, `--pace=${pace}`, "--gateways=8", "--crashes=0", "--log-level=warn"],
  { stdio: ["ignore", "ignore", "inherit"] },
);

/** Resident memory of the server, and the seconds of processor that it has used. */
function used() {
  if (!server) return { memory: Number.NaN, seconds: Number.NaN };
  const pages = Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${server}/status`, "utf8"))[1]);
  const fields = readFileSync(`/proc/${server}/stat`, "utf8").split(") ")[1].split(" ");
  return { memory: pages * 1024, seconds: (Number(fields[11]) + Number(fields[12])) / ticks };
}

/** Prints the memory of the server and its share of one processor while act runs. */
async function share(name, act) {
  const [before, began] = [used(), performance.now()];
  const value = await act();
  const now = used();
  const part = (now.seconds - before.seconds) / ((performance.now() - began) / 1000);
  if (server) say(name, `${MB(now.memory)}, ${part.toFixed(2)} processors`);
  return value;
}

async function ask(path, body) {
  const answer = await fetch(`${url}/${path}`, {
    ...(body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`);
  return { size: text.length, text };
}

/** Prints how long requests take, one after the other. */
async function time(name, times, path, body) {
  const all = [];
  let last;
  for (let i = 0; i < times; i++) {
    const began = performance.now();
    last = await ask(typeof path === "function" ? path(i) : path, body);
    all.push(performance.now() - began);
  }
  all.sort((a, b) => a - b);
  const spread = times > 1 ? `${ms(all[Math.floor(times / 2)])} median, ${ms(all.at(-1))} at most` : ms(all[0]);
  say(name, `${spread}, ${(last.size / 1000).toFixed(1)} kB`);
  return last.text;
}

/** Events of a stream until found returns something. */
async function stream(path, found) {
  const stop = new AbortController();
  const { body } = await fetch(`${url}/${path}`, { signal: stop.signal });
  let text = "";
  for await (const part of body.pipeThrough(new TextDecoderStream())) {
    const events = (text + part).split("\n\n");
    text = events.pop();
    for (const event of events) {
      const [, name] = /^event: (.*)$/m.exec(event) ?? [];
      const value = name && found(name, JSON.parse(/^data: (.*)$/m.exec(event)[1]));
      if (value) {
        stop.abort();
        return value;
      }
    }
  }
  throw new Error(`${path} has ended`);
}

const browser = await launch();
try {
  const settled = await share("the server, while users come", () =>
    stream("console/api/overview/stream", (_, o) => {
      const { counts, rates } = o;
      return counts && counts.online + counts.away > present && rates.changes > 0 && rates.changes < 2500 && o;
    }),
  );
  const { counts, rates } = settled;
  const load = () => loadavg()[0].toFixed(1);
  say("users present", String(counts.online + counts.away));
  say("beats, changes a second", `${Math.round(rates.beats)}, ${Math.round(rates.changes)}`);
  say("load of the machine", load());
  const minute = () => new Promise((done) => setTimeout(done, 60_000));
  await share("the server, nobody looks", minute);

  await time("overview, first", 1, "console/api/overview");
  await time("overview", 20, "console/api/overview");
  await time("users, first", 1, "console/api/users?limit=100");
  await time("users, a window", 50, (i) => `console/api/users?limit=100&offset=${(i * 7919) % 90_000}`);
  await time("users, another order", 5, (i) => `console/api/users?limit=100&sort=since&q=${i + 1}`);
  await time("users, all that are away", 5, "console/api/users?limit=100&state=away&sort=since");
  const began = performance.now();
  const change = await stream("console/api/feed", (name, row) => name === "change" && row.to === "offline" && row);
  say("feed, until somebody leaves", ms(performance.now() - began));
  const seen = { count: 0, dropped: 0, from: 0 };
  await stream("console/api/feed", (name, row) => {
    if (name === "open") seen.from = performance.now();
    if (name === "change") seen.count++;
    if (name === "dropped") seen.dropped += row.count;
    return performance.now() - seen.from > 10_000 && seen.from > 0;
  });
  say("feed", `${Math.round(seen.count / 10)} changes a second, ${seen.dropped} left out`);
  await time("explain", 5, `console/api/explain?event_id=${change.event_id}`);
  await time("a user", 20, `presence/${change.user_id}?devices=true`);
  await time("history of a user", 20, `presence/${change.user_id}/history`);
  await time("what if, 10 minutes", 1, "console/api/whatif", { policy: { "offline-debounce": "60s" }, minutes: 10 });

  const shown = {
    now: ["#/now", (page) => page.locator(".tile.online .value").waitFor()],
    users: ["#/users", (page) => page.locator(".row .state").first().waitFor()],
    feed: ["#/feed", (page) => page.waitForFunction(() => document.querySelectorAll(".feed .rows .row").length > 20)],
  };
  for (const [name, [hash, ready]] of Object.entries(shown))
    await visit(browser, `${url}/console/${hash}`, async (page, context) => {
      const paint = await painted(page);
      await ready(page);
      const whole = await page.evaluate(() => performance.now());
      const requests = await page.evaluate(() =>
        performance
          .getEntriesByType("resource")
          .map(({ name, startTime, responseStart, duration }) => ({ name, startTime, responseStart, duration })),
      );
      const { rate, most } = await share(`${name}: the server`, () => frames(page, 600));
      if (name === "users") await page.locator(".users .grid .scroll").focus();
      const cdp = await context.newCDPSession(page);
      await cdp.send("Performance.enable");
      const heap = async () => {
        await cdp.send("HeapProfiler.collectGarbage");
        const { metrics } = await cdp.send("Performance.getMetrics");
        return metrics.find((m) => m.name === "JSHeapUsedSize").value;
      };
      const early = await heap();
      await minute();
      for (const r of requests)
        say(`  ${new URL(r.name).pathname}`, `asked at ${ms(r.startTime)}, answered in ${ms(r.duration)}`);
      say(`${name}: first paint, first figures`, `${ms(paint)}, ${ms(whole)}`);
      say(`${name}: frames a second, 99 % within`, `${rate.toFixed(1)}, ${ms(most)}`);
      say(`${name}: heap, and a minute later`, `${MB(early)}, ${MB(await heap())}`);
    });
  say("load of the machine", load());
} finally {
  crowd.kill("SIGKILL");
  await browser.close();
  await real?.end();
}
