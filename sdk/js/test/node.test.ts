import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import {
  connect,
  type Options,
  type Presence,
  type Problem,
  type Status,
  type User,
  type Watch,
} from "../src/index.js";
import { Between, frame } from "./between.js";
import { Seen } from "./seen.js";
import { Server, secret, tokenOf } from "./server.js";

/** What ends after each test. */
const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

function join(options: Options): { presence: Presence; statuses: Seen<Status>; problems: Seen<Problem> } {
  const presence = connect({ device: "7", firstWait: 50, maxWait: 500, ...options });
  ends.push(() => presence.close());
  const [statuses, problems] = [new Seen<Status>(), new Seen<Problem>()];
  presence.on("status", statuses.push);
  presence.on("error", problems.push);
  return { presence, statuses, problems };
}

/** Every change that a watch delivers, and "skipped". */
function note(watch: Watch): Seen<User | "skipped"> {
  const seen = new Seen<User | "skipped">();
  watch.on("change", seen.push);
  watch.on("skipped", () => seen.push("skipped"));
  return seen;
}

const is = (id: string, state: User["state"]) => (user: User | "skipped") =>
  user !== "skipped" && user.user_id === id && user.state === state;

async function through(server: Server): Promise<Between> {
  const proxy = await Between.before(server.port);
  ends.push(() => proxy.end());
  return proxy;
}

/** The same in both kinds of pipelines. names are the users of a test. */
function both(ids: "int" | "text", names: (test: number) => [string, string, string]) {
  describe(`with --ids ${ids}`, () => {
    let server: Server;
    let tests = 0;
    const next = () => names(++tests);
    before(async () => {
      server = await Server.start(`--ids=${ids}`);
    });
    after(() => server.end());

    test("connecting makes the user online, and a close makes it offline at once", async () => {
      const [a, b] = next();
      const watcher = join({ url: server.url, user: a, present: false }).presence;
      const seen = note(watcher.watch([b]));
      await seen.first(is(b, "offline"), "the snapshot");
      const { presence } = join({ url: server.url, user: b, kind: "mobile" });
      const online = (await seen.first(is(b, "online"), "b is online")) as User;
      assert.deepEqual(online.devices, ["mobile"]);
      const closed = Date.now();
      await presence.close();
      await seen.first(is(b, "offline"), "b is offline again", { from: seen.all.indexOf(online) });
      assert.ok(Date.now() - closed < 2000, "a bye needs no time to live");
      assert.equal(presence.status, "closed");
    });

    test("heartbeats keep the user online beyond the time to live, and end when the process does", async () => {
      const [a, b] = next();
      const proxy = await through(server);
      const seen = note(join({ url: server.url, user: a, present: false }).presence.watch([b]));
      join({ url: proxy.url, user: b });
      await seen.first(is(b, "online"), "b is online");
      const beats = () => proxy.sent.all.filter(({ text }) => text === "." || text.includes('"activity"')).length;
      await proxy.sent.until(() => beats() >= 5, "five heartbeats");
      assert.ok(!seen.all.some(is(b, "away")), "b was away");
      proxy.hang(); // as if the machine had lost its network: no bye, no close
      await seen.first(is(b, "away"), "b is away");
      await seen.first(is(b, "offline"), "b is offline", { from: 2 });
    });

    test("a device that nobody touches is away, and active makes it online at once", async () => {
      const [a, b] = next();
      let idle = 3_600_000;
      const seen = note(join({ url: server.url, user: a, present: false }).presence.watch([b]));
      const { presence } = join({ url: server.url, user: b, idle: () => idle });
      await seen.first(is(b, "away"), "b is away");
      idle = 0;
      presence.active();
      await seen.first(is(b, "online"), "b is online");
    });

    test("after a lost connection every change that was missed comes, in order", async () => {
      const [a, b, c] = next();
      const proxy = await through(server);
      const { presence, statuses } = join({ url: proxy.url, user: a });
      const seen = note(presence.watch([b, c]));
      const control = note(join({ url: server.url, user: a, device: "8" }).presence.watch([b]));
      await seen.until(() => seen.all.length >= 2, "the snapshot");
      await control.first(is(b, "offline"), "the control's snapshot");
      proxy.refuse(true);
      proxy.drop();
      await statuses.first((status) => status === "waiting", "the connection is lost");
      for (const bye of [false, true, false]) {
        const from = control.all.length;
        await server.beat({ user_id: b, bye });
        await control.first(is(b, bye ? "offline" : "online"), `bye ${bye}`, { from });
      }
      proxy.refuse(false);
      await seen.until(() => seen.all.filter(is(b, "online")).length === 2, "what was missed");
      const states = seen.all.map((user) => user !== "skipped" && user.user_id === b && user.state).filter(Boolean);
      assert.deepEqual(states, ["offline", "online", "offline", "online"]);
      assert.ok(!seen.all.includes("skipped"));
      const since = proxy.sent.all.filter(({ text }) => /"since":"[^"]+"/.test(text));
      assert.equal(since.length, 1, "one subscribe has resumed");
    });

    test("without resume the newest states come, and that changes were skipped", async () => {
      const [a, b] = next();
      const proxy = await through(server);
      const { presence, statuses } = join({ url: proxy.url, user: a, resume: false });
      const seen = note(presence.watch([b]));
      await seen.first(is(b, "offline"), "the snapshot");
      proxy.refuse(true);
      proxy.drop();
      await statuses.first((status) => status === "waiting", "the connection is lost");
      await server.beat({ user_id: b });
      proxy.refuse(false);
      await seen.first(is(b, "online"), "b is online");
      assert.equal(seen.all[1], "skipped");
      assert.ok(!proxy.sent.all.some(({ text }) => text.includes("since")));
    });

    test("users are added and removed while the connection is open", async () => {
      const [a, b, c] = next();
      const proxy = await through(server);
      const { presence } = join({ url: proxy.url, user: a });
      const watch = presence.watch([b]);
      const seen = note(watch);
      await seen.first(is(b, "offline"), "b");
      watch.add(c);
      await seen.first(is(c, "offline"), "c");
      assert.deepEqual(
        watch.users.map((user) => user.user_id),
        [b, c],
      );
      const second = note(presence.watch([c])); // known already: no request is needed
      await second.first(is(c, "offline"), "c, for the second watch");
      watch.remove(b);
      await proxy.sent.first(({ text }) => text.includes('"unsubscribe"'), "the unsubscribe");
      await server.beat({ user_id: b }, { user_id: c });
      await seen.first(is(c, "online"), "c is online");
      await second.first(is(c, "online"), "c is online, for the second watch");
      assert.ok(!seen.all.some(is(b, "online")));
      assert.equal(watch.get(b), undefined);
      const asked = proxy.sent.all.filter(({ text }) => text.includes('"subscribe"'));
      assert.equal(asked.length, 2, JSON.stringify(asked));
    });

    test("one user of a list that has no valid name is refused, and all others are watched", async () => {
      const [a, b, c] = next();
      const bad = ids === "int" ? "nobody" : "x".repeat(200);
      const { presence, problems } = join({ url: server.url, user: a });
      const watch = presence.watch([b, bad, c]);
      const seen = note(watch);
      const refused = await problems.first(({ code }) => code === "invalid_user_id", "the refusal");
      assert.equal(refused.user, bad);
      await seen.until(() => seen.all.length >= 2, "the others");
      assert.deepEqual([...watch.ids], [b, c]);
    });

    test("states are read in batches, without a connection", async () => {
      const [a, b, c] = next();
      await server.beat({ user_id: b });
      const { presence } = join({ url: server.url, user: a, present: false });
      const seen = note(presence.watch([b]));
      await seen.first(is(b, "online"), "b is online");
      const many = Array.from({ length: 1500 }, (_, i) => (ids === "int" ? String(10_000_000 + i) : `user-${i}`));
      const states = await presence.read([b, c, ...many]);
      assert.deepEqual([states.get(b), states.get(c), states.size], ["online", "offline", 1502]);
      const users = await presence.readUsers([c, b, c]);
      assert.deepEqual(
        users.map((user) => [user.user_id, user.state]),
        [
          [c, "offline"],
          [b, "online"],
        ],
      );
    });
  });
}

both("int", (n) => [
  String(900719925474099300n + BigInt(n) * 10n),
  String(9007199254740993n + BigInt(n) * 10n),
  `${n}03`,
]);

describe("faults", () => {
  let server: Server;
  before(async () => {
    server = await Server.start();
  });
  after(() => server.end());

  test("garbage is reported and changes nothing", async () => {
    const proxy = await through(server);
    const { presence, problems } = join({ url: proxy.url, user: "1" });
    const seen = note(presence.watch(["2"]));
    await seen.first(is("2", "offline"), "the snapshot");
    for (const text of [
      "{",
      "null",
      "[[[",
      '{"type":"change","user":{"user_id":3}}',
      '{"type":"snapshot","users":[7]}',
    ])
      proxy.inject(frame(1, text));
    proxy.inject(frame(2, Buffer.from([0, 1, 2, 255])));
    proxy.inject(frame(1, '{"type":"of another version"}'));
    await problems.until(() => problems.all.length >= 6, "six problems");
    assert.ok(problems.all.every(({ code }) => code === "malformed"));
    await server.beat({ user_id: "2" });
    await seen.first(is("2", "online"), "the next change");
    assert.equal(proxy.handshakes.length, 1);
  });

  test("a frame that is against the protocol ends the connection, and the next one goes on", async () => {
    const proxy = await through(server);
    const { presence, statuses } = join({ url: proxy.url, user: "1" });
    const seen = note(presence.watch(["3"]));
    await seen.first(is("3", "offline"), "the snapshot");
    proxy.inject(Buffer.from([0xff, 0xff, 0xff, 0xff]));
    await statuses.first((status) => status === "waiting", "the connection is lost");
    await statuses.first((status) => status === "open", "and open again", {
      from: statuses.all.lastIndexOf("waiting"),
    });
    await server.beat({ user_id: "3" });
    await seen.first(is("3", "online"), "the next change");
  });

  test("a connection that is dead without a close is found and replaced", async () => {
    const proxy = await through(server);
    const { presence, statuses, problems } = join({ url: proxy.url, user: "1" });
    presence.on("status", (_, { problem }) => problem && problems.push(problem));
    await statuses.first((status) => status === "open", "open");
    proxy.hang();
    await problems.first(({ code }) => code === "unanswered", "the silence is noticed", { ms: 20_000 });
    await statuses.first((status) => status === "open", "open again", { from: statuses.all.lastIndexOf("waiting") });
  });

  test("a close code that means no is reported and not tried again, until the program says so", async () => {
    const proxy = await through(server);
    const { presence, statuses, problems } = join({ url: proxy.url, user: "1" });
    await statuses.first((status) => status === "open", "open");
    proxy.inject(frame(8, Buffer.concat([Buffer.from([4403 >> 8, 4403 & 255]), Buffer.from("not you")])));
    const problem = await problems.first(({ code }) => code === "closed", "the refusal");
    assert.deepEqual(
      [problem.status, problem.message, presence.status],
      [4403, "closed with 4403 (not you)", "refused"],
    );
    assert.equal(proxy.handshakes.length, 1);
    presence.reconnect();
    await statuses.until(() => statuses.all.filter((status) => status === "open").length === 2, "open again");
  });

  test("a request that the server refuses for good is reported with its reason", async () => {
    const { presence, problems } = join({ url: server.url, user: "1", device: "0" });
    const problem = await problems.first(() => true, "the refusal");
    assert.deepEqual([problem.code, problem.field, problem.status], ["invalid_device_id", "device_id", 400]);
    assert.equal(presence.status, "refused");
  });

  test("more users than a connection may watch: the first ones are watched, and that is said", async () => {
    const { presence, problems } = join({ url: server.url, user: "1" });
    const watch = presence.watch(Array.from({ length: 501 }, (_, i) => String(i + 1000)));
    const seen = note(watch);
    await problems.first(({ code }) => code === "too_many_subscriptions", "it is said");
    await seen.until(() => seen.all.length === 500, "the first 500");
    watch.remove("1000");
    await seen.first(is("1500", "offline"), "the last one, when there is space");
  });

  test("a server that restarts is found again when it has said, and its next changes come", async () => {
    const own = await Server.start();
    ends.push(() => own.end());
    const { presence, statuses } = join({ url: own.url, user: "1" });
    const seen = note(presence.watch(["2"]));
    await seen.first(is("2", "offline"), "the snapshot");
    let [wait, lost] = [0, 0];
    presence.on("status", (_, { retryIn }) => {
      if (!lost) [wait, lost] = [retryIn ?? 0, Date.now()];
    });
    await own.stop();
    await statuses.first((status) => status === "waiting", "the connection is lost");
    await own.start();
    await statuses.first((status) => status === "open", "open again", { from: statuses.all.indexOf("waiting") });
    assert.ok(Date.now() - lost >= wait - 50, `the server asked for a pause of ${wait} ms`);
    await own.beat({ user_id: "2" });
    await seen.first(is("2", "online"), "2 is online");
    assert.equal((await presence.read(["1"])).get("1"), "online");
  });
});

describe("tokens", () => {
  let server: Server;
  before(async () => {
    server = await Server.start(`--auth-secret=${secret}`, "--auth-leeway=0s");
  });
  after(() => server.end());

  test("a token that ends is replaced, and the user stays online", async () => {
    const seen = note(
      join({ url: server.url, token: tokenOf({ sub: "9" }, 600), present: false }).presence.watch(["1"]),
    );
    let asked = 0;
    const { presence, statuses, problems } = join({
      url: server.url,
      token: async () => tokenOf({ sub: "1" }, ++asked < 3 ? 2 : 600),
    });
    await seen.first(is("1", "online"), "1 is online");
    await statuses.until(() => statuses.all.filter((status) => status === "open").length === 3, "two other tokens");
    assert.equal(asked, 3);
    assert.equal(presence.status, "open");
    assert.deepEqual(
      seen.all.filter((user) => user !== "skipped" && user.state !== "online" && user.version !== "0").slice(1),
      [],
    );
    assert.deepEqual(problems.all, []);
    assert.equal((await presence.read(["1"])).get("1"), "online");
  });

  test("a fixed token that ends is reported", async () => {
    const { problems, presence } = join({ url: server.url, token: tokenOf({ sub: "2" }, 2) });
    const problem = await problems.first(() => true, "the refusal");
    assert.deepEqual([problem.code, problem.status, presence.status], ["token_ended", 4401, "refused"]);
  });

  test("a token that the server refuses is asked for some times, and then reported", async () => {
    let asked = 0;
    const { problems, presence } = join({ url: server.url, token: () => `wrong ${++asked}` });
    const problem = await problems.first(() => true, "the refusal");
    assert.deepEqual([problem.status, presence.status, asked], [401, "refused", 5]);
    await assert.rejects(presence.read(["1"]), { name: "Problem", status: 401 });
  });

  test("a callback that fails is called again", async () => {
    let asked = 0;
    const { statuses } = join({
      url: server.url,
      token: () => {
        if (++asked < 3) throw new Error("no network");
        return tokenOf({ sub: "3" }, 600);
      },
    });
    await statuses.first((status) => status === "open", "open");
    assert.equal(asked, 3);
  });

  test("a token of another user is refused for good", async () => {
    const { problems } = join({ url: server.url, user: "5", token: () => tokenOf({ sub: "4" }, 600) });
    assert.equal((await problems.first(() => true, "the refusal")).status, 403);
  });
});
