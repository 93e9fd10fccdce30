import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { bearerOf } from "../src/options.js";
import { shown } from "./between.js";
import { through } from "./rig.js";
import { is, open, Visits } from "./visits.js";

describe("tabs in Chromium", () => {
  const world = new Visits();
  const { next, visit, observe } = world;
  before(() => world.start());
  after(() => world.end());

  test("two tabs share one connection, and one takes over from the other without anybody seeing it", async () => {
    const [[me, b], [c]] = [next(), next()];
    const proxy = await through(world.server);
    const seen = await observe(me);
    const one = await visit({ url: proxy.url, user: me, ids: [b], busy: true });
    await one.notes.first(is(b, "offline"), "the first tab's snapshot");
    const two = await visit({ url: proxy.url, user: me, ids: [b, c], busy: true });
    await two.notes.first(is(c, "offline"), "the second tab's user");
    await two.notes.first(is(b, "offline"), "the first tab's user");
    assert.equal(proxy.handshakes.length, 1);
    await world.server.beat({ user_id: b });
    await Promise.all([one, two].map((tab) => tab.notes.first(is(b, "online"), "a change in both tabs")));
    await one.run(`watch.add("${c}")`);
    await one.notes.first(is(c, "offline"), "a user whom the other tab watches");

    await one.close(); // it has the connection
    await proxy.sent.until(() => proxy.handshakes.length === 2, "the second tab connects");
    await proxy.sent.first(({ connection, text }) => connection === 2 && /"since":"[^"]+"/.test(text), "it resumes");
    await world.server.beat({ user_id: c });
    await two.notes.first(is(c, "online"), "a change in the second tab");
    assert.ok(!two.notes.all.some(({ skipped }) => skipped), "nothing was skipped");
    assert.deepEqual(
      seen.all.filter(({ user }) => user === me).map(({ state }) => state),
      ["offline", "online"],
      "nobody saw the user leave",
    );
    assert.equal(proxy.open, 1);

    const from = seen.all.length;
    await two.close(); // the last one
    await seen.first(is(me, "offline"), "offline", { from });
  });

  test("activity in a tab without the connection counts", async () => {
    const [me] = next();
    const seen = await observe(me);
    const one = await visit({ url: world.server.url, user: me });
    await one.notes.first(open, "the first tab is open");
    const two = await visit({ url: world.server.url, user: me });
    await two.notes.first(open, "the second tab is open");
    await seen.first(is(me, "away"), "away");
    const from = seen.all.length;
    await two.toFront();
    await two.press();
    await seen.first(is(me, "online"), "online", { from });
  });

  test("a tab that crashes leaves its connection to another one, which still says bye at the end", async () => {
    const [me, b] = next();
    const proxy = await through(world.server);
    const seen = await observe(me);
    const one = await visit({ url: proxy.url, user: me, ids: [b] });
    await one.notes.first(is(b, "offline"), "the first tab");
    const two = await visit({ url: proxy.url, user: me, ids: [b] });
    await two.notes.first(is(b, "offline"), "the second tab");
    one.crash();
    await proxy.sent.until(() => proxy.handshakes.length === 2, "the second tab connects");
    const before = shown(proxy);
    await proxy.sent.until(() => shown(proxy) > before + 1, "it lives, and sees that it is the only one");
    const from = seen.all.length;
    await two.close();
    await seen.first(is(me, "offline"), "offline", { from });
    assert.ok(proxy.sent.all.some(({ text }) => text.includes('"bye"')));
  });

  test("a tab that hangs loses the connection to another one, and follows when it lives again", async () => {
    const [me, b] = next();
    const proxy = await through(world.server);
    const one = await visit({ url: proxy.url, user: me, ids: [b] });
    await one.notes.first(is(b, "offline"), "the first tab");
    const two = await visit({ url: proxy.url, user: me, ids: [b] });
    await two.notes.first(is(b, "offline"), "the second tab");
    await proxy.sent.until(() => shown(proxy) > 1, "pongs, in whose time the second tab hears of the interval");
    const hang = world.hang(one);
    await proxy.sent.until(() => proxy.handshakes.length === 2, "the second tab connects");
    world.release();
    await hang;
    await proxy.sent.first(({ connection, text }) => connection === 1 && text === "end", "the first connection ends");
    assert.equal(proxy.open, 1);
    await world.server.beat({ user_id: b });
    await one.notes.first(is(b, "online"), "the first tab follows");
  });

  test("a frozen tab leaves its connection to another one without a bye", async () => {
    const [me, b] = next();
    const proxy = await through(world.server);
    const one = await visit({ url: proxy.url, user: me, ids: [b] });
    await one.notes.first(is(b, "offline"), "the first tab");
    const two = await visit({ url: proxy.url, user: me, ids: [b] });
    await two.notes.first(is(b, "offline"), "the second tab");
    await one.send("Page.setWebLifecycleState", { state: "frozen" });
    await proxy.sent.until(() => proxy.handshakes.length === 2, "the second tab connects");
    assert.ok(!proxy.sent.all.some(({ text }) => text.includes('"bye"')));
    await one.send("Page.setWebLifecycleState", { state: "active" });
    await world.server.beat({ user_id: b });
    await one.notes.first(is(b, "online"), "the first tab follows");
    assert.equal(proxy.handshakes.length, 2);
  });

  test("tabs of two users, and tabs that do not share, have connections of their own", async () => {
    const [me, other] = next();
    const proxy = await through(world.server);
    const seen = await observe(me);
    for (const user of [me, other]) {
      const tab = await visit({ url: proxy.url, user, busy: true });
      await tab.notes.first(open, "open");
    }
    const own = await visit({ url: proxy.url, user: me, share: false, busy: true });
    await own.notes.first(open, "open");
    assert.equal(proxy.handshakes.length, 3);
    const devices = proxy.handshakes.map(({ text }) => /device_id=(\d+)/.exec(text)?.[1]);
    assert.equal(new Set(devices).size, 1, "a browser is one device");
    await own.close();
    await proxy.sent.first(({ connection, text }) => connection === 3 && text === "end", "the connection ends");
    assert.deepEqual(
      seen.all.filter(({ user }) => user === me).map(({ state }) => state),
      ["offline", "online"],
      "another tab of the device is open",
    );
  });

  test("a tab whose token becomes another user's leaves the others, who go on as before", async () => {
    const proxy = await through(world.tokens);
    const subjects = () =>
      proxy.handshakes.map(({ text }) => bearerOf(/access_token=([^& ]+)/.exec(text)?.[1] ?? "")?.[1]);
    const ids = ["1", "2"];
    world.tokenSeconds = 4;
    const one = await visit({ url: proxy.url, token: "/token?of=one", ids });
    await one.notes.first(is("1", "online"), "the first tab");
    const two = await visit({ url: proxy.url, token: "/token?of=two", ids });
    await two.notes.first(is("1", "online"), "the second tab");
    assert.deepEqual(subjects(), ["1"], "they share a connection");
    world.tokenSeconds = 600;
    world.subjects.set("one", "2"); // somebody else signs in
    await two.notes.first(is("2", "online"), "the other user comes");
    await proxy.sent.until(() => proxy.open === 2, "each tab has a connection");
    assert.deepEqual(subjects().sort(), ["1", "1", "2"]);
    const from = one.notes.all.findLastIndex(({ status }) => status === "open");
    await one.notes.first(is("1", "online"), "what the other user may see", { from });
  });

  test("a token is renewed before it ends, for both tabs that share it, on the same connection", async () => {
    const proxy = await through(world.tokens);
    world.tokenSeconds = 4;
    const one = await visit({ url: proxy.url, token: "/token", ids: ["1"], busy: true });
    await one.notes.first(is("1", "online"), "online");
    const begin = one.notes.all.findIndex(is("1", "online"));
    const two = await visit({ url: proxy.url, token: "/token", ids: ["1"], busy: true });
    await two.notes.first(is("1", "online"), "online, in the second tab");
    world.tokenSeconds = 600;
    await proxy.sent.first(({ text }) => text.includes('"type":"token"'), "another token");
    const before = shown(proxy);
    await proxy.sent.until(() => shown(proxy) > before + 3, "pongs, beyond the end of the first token");
    assert.equal(proxy.handshakes.length, 1);
    const notes = [...one.notes.all.slice(begin), ...two.notes.all];
    assert.deepEqual(
      notes.filter(({ code, status, state }) => code || status === "waiting" || (state && state !== "online")),
      [],
    );
  });
});
