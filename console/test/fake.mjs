// A server of the console's API without a pipeline behind it: any number of users, and every failure at will. It serves
// dist as the program does. For tests and pictures only.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";

const dist = fileURLToPath(new URL("../dist/", import.meta.url));
const types = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};
const kinds = ["mobile", "desktop", "web", "bot", "other"];
const policy = {
  heartbeat_interval_seconds: 15,
  heartbeat_jitter_seconds: 0,
  online_ttl_seconds: 30,
  offline_debounce_seconds: 15,
  away_ttl_seconds: 300,
  idle_after_seconds: 300,
  bye_debounce_seconds: 0,
  allowed_lateness_seconds: 0.25,
  gateway_silence_seconds: 10,
  reconnect_window_seconds: 30,
  cohort_rate: 2000,
  cohort_total_rate: 100000,
  announce_devices: true,
  max_devices: 32,
  flap_burst: 20,
  flap_interval_seconds: 2,
  breaker_percent: 30,
  breaker_limit_seconds: 600,
};
// As the program answers.
const policyOfContent =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const iso = (ms) => new Date(ms).toISOString();

/** A generator of numbers from 0 to 1 that is the same in every run. */
function random(seed) {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const first =
  "ann bob carol dave erin frank grace heidi ivan judy mallory niaj olivia peggy rupert sybil trent victor walter zoe".split(
    " ",
  );

/** The fake. Fields may be set at any time: they say how the next answers are. */
export class Fake {
  users = 50;
  ids = "int";
  /** Changes a second of the feed. */
  rate = 0;
  /** The token that requests need; empty: none. */
  token = "";
  /** Answers of the API: 403, 503, or 0 for the right ones. */
  status = 0;
  /** Whether the overview goes silent without closing the connection. */
  silent = false;
  missing = [];
  stale = new Set();
  unsure = new Set();
  hidden = new Set();
  /** What users show of last seen, unless all. */
  lastSeen = new Map();
  overrides = new Map();
  /** Whom users deny. */
  denied = new Map();
  erased = new Set();
  dropped = 0;
  /** The tenant of the token; null: none. */
  own = null;
  acts = true;
  /** Until when the feed looks for the end of its log after it has answered; unset: not at all. */
  ready;
  /** The history of every user, newest first; undefined: one that is made up. */
  changes = undefined;
  /** What was sent to change something. */
  writes = [];
  requests = [];
  #open = new Set();
  #sent = 0;
  #random = random(7);

  static async start(options = {}) {
    const fake = new Fake();
    Object.assign(fake, options);
    fake.began = Date.now();
    fake.server = createServer((request, answer) => fake.#answer(request, answer));
    await new Promise((resolve) => fake.server.listen(options.port ?? 0, "127.0.0.1", resolve));
    fake.url = `http://127.0.0.1:${fake.server.address().port}`;
    return fake;
  }

  /** How many streams are open. */
  get streams() {
    return this.#open.size;
  }

  /** Ends every connection and answers no more, as a server that was killed. */
  async down() {
    this.port = this.server.address().port;
    for (const answer of this.#open) answer.destroy();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  async up() {
    await new Promise((resolve) => this.server.listen(this.port, "127.0.0.1", resolve));
  }

  end() {
    return this.server.listening ? this.down() : undefined;
  }

  nameOf(i) {
    if (this.ids === "int") return String(1000 + i * 7);
    const name = first[i % first.length];
    return i < first.length ? name : `${name}.${Math.floor(i / first.length)}@example.org`;
  }

  row(i) {
    const user_id = this.nameOf(i);
    const state = i % 11 === 3 ? "away" : "online";
    // Who is away has been silent for online_ttl and offline_debounce, and not yet for away_ttl.
    const away = state === "away";
    const since = this.began - 1000 * (away ? 40 + ((i * 37) % 200) : 40 + ((i * 137) % 9000));
    const mobile = { [kinds[(i % 7) % 3]]: 1, ...(i % 5 === 0 && { web: 2 }) };
    return {
      user_id,
      state: this.erased.has(user_id) ? "offline" : state,
      since: iso(since),
      last_seen_at: iso(away ? since - 45_000 : Date.now() - 1000 * ((i * 13) % 28)),
      visibility: this.hidden.has(user_id) ? "nobody" : "everyone",
      devices: away ? {} : mobile,
      ...this.withheld(user_id, state),
    };
  }

  /** What takes the place of times to whom does not see all. */
  withheld(user, state) {
    const chosen = this.lastSeen.get(user) ?? "exact";
    if (this.acts || chosen === "exact") return {};
    const last_seen = chosen === "never" ? "hidden" : "recently";
    return { last_seen_at: null, ...(state !== "online" && { since: null }), last_seen };
  }

  #all = [];
  get list() {
    if (this.#all.length !== this.users || this.#all.ids !== this.ids) {
      this.#all = Array.from({ length: this.users }, (_, i) => this.nameOf(i));
      this.#all.ids = this.ids;
    }
    return this.#all;
  }

  index(id) {
    return this.list.indexOf(id);
  }

  #json(answer, value, status = 200) {
    answer.writeHead(status, { "Content-Type": "application/json" });
    answer.end(JSON.stringify(value));
  }

  #error(answer, status, code, message) {
    this.#json(answer, { error: { code, message } }, status);
  }

  #stream(answer, start, ready) {
    answer.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    answer.write(": connected\n\n");
    this.#open.add(answer);
    let stop = () => {};
    const begin = () => {
      stop = start((event, data) => answer.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`));
    };
    if (ready) ready.then(() => answer.closed || begin());
    else begin();
    answer.on("close", () => {
      this.#open.delete(answer);
      stop();
    });
  }

  async #answer(request, answer) {
    const url = new URL(request.url, this.url);
    const path = url.pathname;
    if (path === "/console") return answer.writeHead(301, { Location: "/console/" }).end();
    if (path.startsWith("/console/") && !path.startsWith("/console/api/")) {
      const name = path.slice(9) || "index.html";
      try {
        const body = readFileSync(dist + name);
        answer.writeHead(200, {
          "Content-Type": types[extname(name)],
          "Content-Security-Policy": policyOfContent,
        });
        return answer.end(body);
      } catch {
        return this.#error(answer, 404, "not_found", "nothing is here");
      }
    }
    this.requests.push(`${request.method} ${path}${url.search}`);
    if (this.token && request.headers.authorization !== `Bearer ${this.token}`)
      return this.#error(answer, 401, "unauthenticated", "a token with scope presence:observe is needed");
    if (this.status === 403) return this.#error(answer, 403, "forbidden", "the token lacks the scope presence:observe");
    if (this.status) return this.#error(answer, this.status, "not_ready", "the pipeline is starting");
    let body = "";
    for await (const part of request) body += part;
    if (path.startsWith("/console/api/")) return this.#console(path.slice(13), url.searchParams, body, answer);
    return this.#presence(request.method, path, url.searchParams, body, answer);
  }

  overview() {
    const online = Array.from({ length: Math.min(this.users, 11) }, (_, i) => i).filter((i) => i % 11 !== 3).length;
    const present = this.users === 0 ? 0 : Math.round((this.users * online) / Math.min(this.users, 11));
    const away = this.users - present;
    const r = this.#random;
    const share = [0.52, 0.21, 0.31, 0.02, 0.01];
    const busy = this.users > 0;
    const wave = (i, n) => (busy ? Math.round(n * (1 + 0.06 * Math.sin(i / 9) + 0.03 * r())) : 0);
    const now = Date.now();
    const gateways = busy
      ? Array.from({ length: 8 }, (_, i) => ({
          gateway: `gw-eu-${i + 1}`,
          state: i === 4 ? "lost" : i === 6 ? "draining" : "alive",
          users: Math.round(this.users / 8) + i,
          last_seen_at: iso(now - (i === 4 ? 21_000 : 300 + i * 90)),
          epoch: String(this.began - 86_400_000 - i * 7000),
        })).sort(
          (a, b) => ["lost", "draining", "alive"].indexOf(a.state) - ["lost", "draining", "alive"].indexOf(b.state),
        )
      : [];
    return {
      at: iso(now),
      problems: [
        "postgres is not ready: dial tcp 10.0.0.20:5432: connect: connection refused",
        ...(busy
          ? ["partition 5 is 6.4 s behind", `gateway gw-eu-5 is lost since ${iso(now - 21_000).slice(11, 19)}`]
          : []),
      ],
      counts: {
        online: present,
        away,
        by_kind: Object.fromEntries(kinds.map((k, i) => [k, Math.round(this.users * share[i])])),
        missing_partitions: this.missing,
      },
      rates: {
        beats: wave(170, this.users / 13.5),
        changes: this.rate || wave(170, this.users / 900),
        deliveries: wave(170, this.users / 400),
      },
      policy: { id: "4f0c9a17be22", settings: policy, since: iso(this.began - 3_600_000 * 26) },
      partitions: Array.from({ length: 16 }, (_, i) => ({
        partition: i,
        owner: `detector-${i % 3}`,
        phase: "running",
        lag_records: busy ? (i === 5 ? 1840 : (i * 7) % 4) : 0,
        lag_seconds: busy ? (i === 5 ? 6.4 : 0.1) : 0,
        watermark_age_seconds: i === 5 && busy ? 7.1 : 0.3 + (i % 4) / 10,
      })),
      groups: [
        {
          group: "stillhere.detector",
          role: "detector",
          state: "stable",
          lag_records: busy ? 1862 : 0,
          members: [0, 1, 2].map((n) => ({
            instance: `detector-${n}`,
            host: `10.0.0.${n + 4}`,
            partitions: Array.from({ length: 16 }, (_, i) => i).filter((i) => i % 3 === n),
          })),
        },
        {
          group: "stillhere.fanout",
          role: "fanout",
          state: "stable",
          lag_records: 0,
          members: [{ instance: "fanout-0", host: "10.0.0.9", partitions: [0, 1, 2] }],
        },
      ],
      instances: [
        ...[0, 1, 2].map((n) => ({
          role: "detector",
          instance: `detector-${n}`,
          version: "0.9.0",
          host: `10.0.0.${n + 4}`,
          started_at: iso(this.began - 8e7),
          ready: true,
        })),
        {
          role: "fanout",
          instance: "fanout-0",
          version: "0.9.0",
          host: "10.0.0.9",
          started_at: iso(this.began - 7e7),
          ready: true,
        },
        {
          role: "lastseen",
          instance: "lastseen-0",
          version: "0.9.0",
          host: "10.0.0.10",
          started_at: iso(this.began - 7e7),
          ready: false,
        },
        {
          role: "api",
          instance: "api-0",
          version: "0.9.0",
          host: "10.0.0.11",
          started_at: iso(this.began - 6e7),
          ready: true,
        },
      ],
      gateways,
      dependencies: [
        { name: "kafka", ready: true, error: null },
        { name: "redis", ready: true, error: null },
        { name: "postgres", ready: false, error: "dial tcp 10.0.0.20:5432: connect: connection refused" },
      ],
    };
  }

  change(i, n) {
    const state = ["online", "offline", "away"][n % 3];
    const from = { online: "offline", offline: "away", away: "online" }[state];
    return {
      event_id: `2wPz${String(n).padStart(23, "0")}`,
      user_id: this.nameOf(i),
      from,
      to: state,
      at: iso(Date.now()),
      last_seen_at: iso(Date.now() - 45_000),
      last_active_at: null,
      cause: { online: "first_beat", offline: n % 9 === 1 ? "gateway_lost" : "silent", away: "silent" }[state],
      device_id: 7,
      devices: state === "online" ? [kinds[n % 3]] : [],
      kinds: state === "online" ? { [kinds[n % 3]]: state } : {},
      version: String(9_000_000 + n),
      policy_id: "4f0c9a17be22",
      left_out: 0,
    };
  }

  #console(path, query, body, answer) {
    if (path === "me")
      return this.#json(answer, {
        ids: this.ids,
        authenticated: this.token !== "",
        acts: this.acts,
        user: this.token ? "operator" : null,
        tenant: this.own,
        version: "0.9.0",
        commit: "743c2dc",
        partitions: 16,
        mode: "dev",
      });
    if (path === "overview") return this.#json(answer, this.overview());
    if (path === "overview/stream")
      return this.#stream(answer, (write) => {
        write("overview", this.overview(false));
        const timer = setInterval(() => this.silent || write("overview", this.overview(false)), 1000);
        return () => clearInterval(timer);
      });
    if (path === "users") return this.#users(query, answer);
    if (path === "feed")
      return this.#stream(
        answer,
        (write) => {
          write("open", {});
          if (query.get("user_id")) return () => {};
          const state = query.get("state");
          const began = performance.now();
          let own = 0;
          const timer = setInterval(() => {
            const due = Math.floor(((performance.now() - began) / 1000) * this.rate);
            for (; own < due; own++) {
              const change = this.change(Math.floor(this.#random() * Math.max(1, this.users)), this.#sent++);
              if (!state || change.to === state) write("change", change);
            }
            if (this.dropped) {
              write("dropped", { count: this.dropped });
              this.dropped = 0;
            }
          }, 20);
          return () => clearInterval(timer);
        },
        this.ready,
      );
    if (path === "explain") return this.#explain(query, answer);
    if (path === "whatif") return this.#whatif(JSON.parse(body), answer);
    this.#error(answer, 404, "not_found", "nothing is here");
  }

  #users(query, answer) {
    const q = query.get("q") ?? "";
    const states = (query.get("state") ?? "").split(",").filter(Boolean);
    const offset = Number(query.get("offset") ?? 0);
    const limit = Number(query.get("limit") ?? 100);
    let chosen = this.list.map((_, i) => i);
    if (q) chosen = chosen.filter((i) => this.list[i].startsWith(q));
    if (states.length)
      chosen = chosen.filter((i) => {
        const row = this.row(i);
        return states.includes(row.state) || (states.includes("hidden") && row.visibility === "nobody");
      });
    const sort = query.get("sort") ?? "user_id";
    if (sort !== "user_id") {
      const keys = new Map(chosen.map((i) => [i, this.row(i)[sort]]));
      chosen.sort((a, b) => (keys.get(a) < keys.get(b) ? -1 : 1));
    }
    if (query.get("order") === "desc") chosen.reverse();
    const users = chosen.slice(offset, offset + limit).map((i) => this.row(i));
    this.#json(answer, { users, total: chosen.length, as_of: iso(Date.now()), truncated: false });
  }

  history(id) {
    if (this.changes) return this.changes;
    if (this.erased.has(id) || this.index(id) < 0) return [];
    const changes = [];
    const day = 86_400_000;
    const midnight = Math.floor(this.began / day) * day;
    let n = 0;
    let from = "offline";
    const push = (at, to, cause) => {
      if (at > this.began) return;
      changes.push({
        event_id: `2wPy${String(n).padStart(23, "0")}`,
        from,
        to,
        at: iso(at),
        last_seen_at: iso(at - 45_000),
        last_active_at: null,
        cause,
        device_id: 7,
        devices: to === "offline" ? [] : ["mobile"],
        kinds: to === "offline" ? {} : { mobile: to },
        version: String(1000 + n),
        policy_id: "4f0c9a17be22",
        left_out: 0,
      });
      from = to;
      n++;
    };
    const seed = random(Number(this.index(id)) + 3);
    for (let d = 8; d >= 0; d--) {
      const begin = midnight - d * day;
      for (const [hour, length] of [
        [7.2, 1.4],
        [9.1, 3.3],
        [13.2, 4.1],
        [19.5, 3],
      ]) {
        const at = begin + (hour + seed()) * 3_600_000;
        if (seed() < 0.15) continue;
        push(at, "online", "first_beat");
        push(at + length * 2_000_000 * seed(), "away", "idle");
        push(at + length * 2_400_000, "online", "active_again");
        push(at + length * 3_000_000, "away", "silent");
        push(at + length * 3_000_000 + 255_000, "offline", "silent");
      }
    }
    const { state, since } = this.row(this.index(id));
    if (from === "offline")
      push(Math.min(Date.parse(since) - 60_000, this.began - 47 * 60_000), "online", "first_beat");
    if (state === "away" && from !== "away") push(Date.parse(since), "away", "silent");
    return changes.reverse();
  }

  #explain(query, answer) {
    const id = query.get("event_id");
    if (!id) return this.#error(answer, 400, "invalid_event_id", "event_id: is needed");
    const at = Date.parse(this.row(3).since);
    this.#json(answer, {
      text: `user 1021 went from online to away at ${iso(at)}: silent\n\nWhy: nothing was heard of any of the user's devices for online_ttl, nor within offline_debounce after that.\n\nWhere: record 118204 of presence.heartbeats partition 5 (log epoch 1), the first that it caused for this user\n  appended ${iso(at + 251)}: a tick of the detector\n\nThe detector, run again from its snapshot at offset 118020:\n  before the record: online since ${iso(at - 600_000)}, seen by everyone, last seen ${iso(at - 45_000)}, last active ${iso(at - 45_000)}\n    device 7 (web): seen ${iso(at - 45_000)}, touched ${iso(at - 45_000)}, silent at ${iso(at)}\n  It gives the published change.\n`,
      event_id: id,
      change: { event_id: id, user_id: "1021", from: "online", to: "away", at: iso(at), cause: "silent" },
      place: { topic: "presence.heartbeats", partition: 5, log_epoch: 1, offset: 118204, ordinal: 0 },
      record: { time: iso(at + 251), kind: "tick", beats: 0 },
      rule: "nothing was heard of any of the user's devices for online_ttl, nor within offline_debounce after that",
      replay: {
        from_offset: 118020,
        agrees: true,
        before: {
          state: "online",
          visibility: "everyone",
          devices: [{ device_id: 7, device_kind: "web", seen_at: iso(at - 45_000), until: iso(at) }],
          next_limit: iso(at),
        },
        after: { state: "away", visibility: "everyone" },
      },
      policy: { id: "4f0c9a17be22" },
      before: [],
      after: [],
    });
  }

  #whatif({ policy: wanted, minutes }, answer) {
    if (wanted["online-ttl"] === "1ms")
      return this.#error(answer, 400, "invalid_policy", "online-ttl: must be at least 1s");
    const outcome = (policy, [transitions, to_online, to_away, to_offline, flaps], [p50, p99]) => ({
      policy,
      policy_id: "4f0c9a17be22",
      transitions,
      to_online,
      to_away,
      to_offline,
      flaps,
      time_to_offline_ms: { count: to_offline, p50, p99 },
    });
    const was = [1204, 402, 410, 392, 88];
    this.#json(answer, {
      from: iso(this.began - minutes * 60_000),
      to: iso(this.began),
      policies: [
        outcome("as published", was, [300_000, 301_000]),
        outcome("in force", was, [300_000, 301_000]),
        outcome("asked", [1031, 349, 352, 330, 21], [345_000, 347_200]),
      ],
    });
  }

  #presence(method, path, query, body, answer) {
    if (path === "/presence/heartbeats") {
      this.writes.push(["beat", body]);
      return this.#json(answer, { accepted: JSON.parse(body).beats.length }, 202);
    }
    if (path === "/presence/stream")
      return this.#stream(answer, (write) => {
        write("hello", {
          type: "hello",
          heartbeat_interval_ms: 15000,
          heartbeat_jitter_ms: 1500,
          max_subscriptions: 500,
        });
        write("snapshot", { type: "snapshot", users: query.getAll("user_ids").map((id) => this.user(id)) });
        return () => {};
      });
    const [, id, rest = ""] = /^\/presence\/users\/([^/]+)(\/.*)?$/.exec(path) ?? [];
    if (!id) return this.#error(answer, 404, "not_found", "nothing is here");
    const user = decodeURIComponent(id);
    if (rest === "/audience") {
      if (method === "PUT") {
        const { base, last_seen } = JSON.parse(body);
        this.writes.push([base ?? last_seen, user]);
        if (base === "nobody") this.hidden.add(user);
        if (base === "everyone") this.hidden.delete(user);
        if (last_seen) this.lastSeen.set(user, last_seen);
      }
      const base = this.hidden.has(user) ? "nobody" : "everyone";
      return this.#json(answer, { user_id: user, base, last_seen: this.lastSeen.get(user) ?? "exact" });
    }
    if (rest === "/audience/deny") {
      const denied = this.denied.get(user) ?? new Set();
      if (method === "POST") {
        const { add = [], remove = [] } = JSON.parse(body);
        this.writes.push([{ add, remove }, user]);
        for (const viewer of add) denied.add(viewer);
        for (const viewer of remove) denied.delete(viewer);
        this.denied.set(user, denied);
        return this.#json(answer, { user_id: user, add, remove });
      }
      const [all, limit] = [[...denied].sort(), Number(query.get("limit"))];
      return this.#json(answer, {
        user_id: user,
        deny: all.slice(0, limit).map((user_id) => ({ user_id, since: iso(this.began) })),
        next: all.length > limit ? all[limit - 1] : null,
      });
    }
    if (rest === "/override") {
      if (method !== "GET") this.writes.push([method === "PUT" ? JSON.parse(body) : "override over", user]);
      if (method === "PUT") this.overrides.set(user, JSON.parse(body));
      if (method === "DELETE") this.overrides.delete(user);
      const override = this.overrides.get(user) ?? null;
      return this.#json(answer, {
        user_id: user,
        override,
        ...(override?.state === "away" && { automatic: "online" }),
      });
    }
    if (rest === "/history") {
      const [from, to] = ["from", "to"].map((name) => Date.parse(query.get(name) ?? "") || 0);
      const limit = Number(query.get("limit") ?? 100);
      const skip = Number((query.get("cursor") ?? "0.0").split(".")[0]);
      const all = (this.withheld(user).last_seen ? [] : this.history(user)).filter(
        (c) => Date.parse(c.at) >= from && (!to || Date.parse(c.at) < to),
      );
      const next = skip + limit < all.length ? `${skip + limit}.1` : null;
      return this.#json(answer, { changes: all.slice(skip, skip + limit), next_cursor: next });
    }
    if (rest === "/followers")
      return this.#json(answer, {
        followers: this.index(user) < 0 ? [] : Array.from({ length: 14 }, (_, i) => this.nameOf(i + 1)),
        next_cursor: null,
      });
    if (rest === "/export") {
      this.writes.push(["export", user]);
      answer.writeHead(200, { "Content-Type": "application/x-ndjson" });
      const lines = this.erased.has(user)
        ? [{ type: "erasure", user_id: user, erased_at: iso(this.began), last_copy_gone_on: "2026-12-01" }]
        : [{ type: "presence", ...this.user(user) }, ...this.history(user).map((c) => ({ type: "change", ...c }))];
      return answer.end(`${lines.map((line) => JSON.stringify(line)).join("\n")}\n`);
    }
    if (method === "DELETE") {
      this.writes.push(["erase", user]);
      this.erased.add(user);
      return this.#json(answer, {
        user_id: user,
        erased_at: iso(Date.now()),
        last_copy_gone_on: "2026-12-01",
        topics: { "presence.heartbeats": "2026-11-26", "presence.transitions": "2026-12-01" },
      });
    }
    this.#json(answer, this.user(user));
  }

  user(id) {
    const i = this.index(id);
    const none = {
      user_id: id,
      state: "offline",
      last_seen_at: null,
      last_active_at: null,
      devices: [],
      kinds: {},
      since: null,
      version: "0",
      stale_since: null,
      device_list: [],
    };
    if (this.erased.has(id)) return none; // as the server answers
    if (i < 0) return none;
    const row = this.row(i);
    const devices = Object.keys(row.devices);
    return {
      user_id: id,
      state: row.state,
      last_seen_at: row.last_seen_at,
      last_active_at: row.last_seen_at && iso(Date.parse(row.last_seen_at) - 95_000),
      last_seen: row.last_seen,
      devices,
      kinds: Object.fromEntries(devices.map((kind) => [kind, row.state])),
      since: row.since,
      version: String(7_340_000 + i),
      stale_since: this.stale.has(id) ? iso(this.began - 9000) : null,
      ...(this.unsure.has(id) && { unsure_since: iso(this.began - 6000) }),
      device_list: devices.map((kind, n) => ({
        device_id: 7 + n,
        device_kind: kind,
        state: "online",
        since: row.since,
        last_seen_at: row.last_seen_at,
      })),
    };
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const fake = await Fake.start({
    users: Number(process.argv[2] ?? 50),
    rate: Number(process.argv[3] ?? 5),
    port: Number(process.argv[4] ?? 0),
  });
  console.log(`${fake.url}/console/`);
}
