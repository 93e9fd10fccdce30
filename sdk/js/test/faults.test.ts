import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { frame } from "./between.js";
import { ends, is, join, note, through } from "./rig.js";
import { authentication, Server, tokenOf } from "./server.js";

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
    await problems.first(({ code }) => code === "unanswered", "the silence is noticed");
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
    assert.match(problem.message, /^device_id: must be between 1 and 4294967295$/);
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
    server = await Server.start(authentication(), "--auth-leeway=0s");
  });
  after(() => server.end());

  test("a token is renewed on the open connection, and a renewal that fails is a lost connection", async () => {
    const proxy = await through(server);
    let asked = 0;
    const { presence, statuses, problems } = join({
      url: proxy.url,
      token: async () => {
        if (++asked === 3) throw new Error("the backend is away");
        return tokenOf({ sub: "1" }, asked < 3 ? 3 : 600);
      },
    });
    await statuses.first((status) => status === "waiting", "the second token has ended");
    assert.equal(proxy.sent.all.filter(({ text }) => text.includes('"type":"token"')).length, 1);
    assert.equal(proxy.handshakes.length, 1);
    await statuses.first((status) => status === "open", "open again", { from: statuses.all.indexOf("waiting") });
    assert.equal(asked, 4);
    assert.deepEqual(problems.all, []);
    assert.equal((await presence.read(["1"])).get("1"), "online");
  });

  test("a token with other scopes is for another connection", async () => {
    const proxy = await through(server);
    let scope = "presence:beat presence:read";
    const { statuses, problems } = join({ url: proxy.url, token: () => tokenOf({ sub: "5", scope }, 3) });
    await statuses.first((status) => status === "open", "open");
    scope += " presence:admin";
    await proxy.sent.until(() => proxy.handshakes.length === 2, "another connection");
    assert.deepEqual(problems.all, []);
  });

  test("a token of another user begins again as that user, who sees nothing of the one before", async () => {
    const proxy = await through(server);
    const observer = join({ url: server.url, token: tokenOf({ sub: "9" }, 600), present: false, device: "9" }).presence;
    const observed = note(observer.watch(["6", "7"]));
    let sub = "6";
    const { presence } = join({ url: proxy.url, token: () => tokenOf({ sub }, sub === "6" ? 3 : 600) });
    const watch = presence.watch(["8"]);
    const seen = note(watch);
    await seen.first(is("8", "offline"), "the snapshot");
    await observed.first(is("6", "online"), "6 is online");
    sub = "7";
    await observed.first(is("7", "online"), "7 is online");
    await observed.first(is("6", "offline"), "6 has left", { from: observed.all.findIndex(is("6", "online")) });
    await seen.until(() => seen.all.filter(is("8", "offline")).length === 2, "the snapshot of 7");
    assert.ok(!proxy.sent.all.some(({ text }) => /"since":"[^"]+"/.test(text)), "nothing is resumed");
  });

  test("a fixed token that ends is reported", async () => {
    const { problems, presence } = join({ url: server.url, token: tokenOf({ sub: "2" }, 5) });
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

  test("a callback that returns no token is called once, and that is said", async () => {
    for (const nothing of [undefined, null, "", 7] as unknown as string[]) {
      let asked = 0;
      const { problems, presence } = join({
        url: server.url,
        token: () => {
          asked++;
          return nothing;
        },
      });
      const problem = await problems.first(() => true, "the refusal");
      assert.match(problem.message, /^the token callback must return a token, but returned (undefined|null|""|7)$/);
      assert.deepEqual([problem.code, presence.status, asked, problems.all.length], ["token", "refused", 1, 1]);
      await assert.rejects(presence.read(["1"]), { name: "Problem", code: "token" });
    }
  });

  test("a state that is not certain is marked if asked", async () => {
    const asked: string[] = [];
    const answer = async (url: URL | RequestInfo) => {
      asked.push(String(url));
      return Response.json({ 1: asked.length === 1 ? "unsure" : "online" });
    };
    const { presence } = join({ url: server.url, user: "5", fetch: answer });
    assert.equal((await presence.read(["1"], { unsure: "mark" })).get("1"), "unsure");
    assert.equal((await presence.read(["1"])).get("1"), "online");
    const query = (url: string | undefined) => new URL(url ?? "").searchParams.get("unsure");
    assert.deepEqual([query(asked[0]), query(asked[1])], ["mark", null]);
  });

  test("a token of another user is refused for good", async () => {
    const { problems } = join({ url: server.url, user: "5", token: () => tokenOf({ sub: "4" }, 600) });
    assert.equal((await problems.first(() => true, "the refusal")).status, 403);
  });
});
