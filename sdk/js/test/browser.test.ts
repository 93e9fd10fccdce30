import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { frame, shown } from "./between.js";
import { ends, through } from "./rig.js";
import { Server } from "./server.js";
import { is, open, Visits } from "./visits.js";

describe("in Chromium", () => {
  const world = new Visits();
  const { next, visit, observe } = world;
  before(() => world.start());
  after(() => world.end());

  test("a page that is left is offline at once, and online again when it comes back out of the cache", async () => {
    const [me] = next();
    const seen = await observe(me);
    const tab = await visit({ url: world.server.url, user: me });
    await seen.first(is(me, "online"), "online");
    const born = await tab.run("window.born");
    const changes = await world.server.changes(me);
    let from = seen.all.length;
    await tab.goTo(`${world.origin}/other`);
    await seen.first(is(me, "offline"), "offline", { from });
    const { cause } = await changes.first(({ to }) => to === "offline", "the change");
    assert.equal(cause, "bye", "nothing had to time out");
    from = seen.all.length;
    await tab.run("history.back()");
    await seen.first(is(me, "online"), "online again", { from });
    assert.equal(await tab.run("window.born"), born, "the page comes from the cache");
  });

  test("closing the tab is a bye", async () => {
    const [me] = next();
    const seen = await observe(me);
    const tab = await visit({ url: world.server.url, user: me });
    await seen.first(is(me, "online"), "online");
    const changes = await world.server.changes(me);
    const from = seen.all.length;
    await tab.close();
    await seen.first(is(me, "offline"), "offline", { from });
    const { cause } = await changes.first(({ to }) => to === "offline", "the change");
    assert.equal(cause, "bye", "nothing had to time out");
  });

  test("a hidden page stays here and turns away, and is online when it is shown", async () => {
    const [me] = next();
    const proxy = await through(world.server);
    const seen = await observe(me);
    const tab = await visit({ url: proxy.url, user: me });
    await seen.first(is(me, "online"), "online");
    const front = await world.chromium.open("about:blank"); // covers it
    ends.push(() => front.close());
    assert.equal(await tab.run("document.visibilityState"), "hidden");
    await seen.first(is(me, "away"), "away, because nobody touches it");
    const before = shown(proxy);
    await proxy.sent.until(() => shown(proxy) >= before + 5, "five pongs of a hidden page", 15_000);
    assert.deepEqual(
      seen.all.filter(({ user }) => user === me).map(({ state }) => state),
      ["offline", "online", "away"],
    );
    const from = seen.all.length;
    await tab.toFront();
    await seen.first(is(me, "online"), "online", { from });
  });

  test("a key makes an idle user online at once", async () => {
    const [me] = next();
    const seen = await observe(me);
    const tab = await visit({ url: world.server.url, user: me });
    await seen.first(is(me, "away"), "away");
    const from = seen.all.length;
    await tab.toFront();
    await tab.press();
    await seen.first(is(me, "online"), "online", { from });
  });

  test("a lost connection resumes from its cursor, and garbage changes nothing", async () => {
    const [me, b] = next();
    const proxy = await through(world.server);
    const seen = await observe(b);
    const tab = await visit({ url: proxy.url, user: me, ids: [b] });
    await tab.notes.first(is(b, "offline"), "the snapshot");
    for (const text of ["{", "null", '{"type":"snapshot","users":[{}]}']) proxy.inject(frame(1, text));
    proxy.inject(frame(2, Buffer.from([1, 2, 3])));
    await tab.notes.until(() => tab.notes.all.filter(({ code }) => code === "malformed").length === 4, "four problems");
    proxy.refuse(true);
    proxy.drop();
    await tab.notes.first(({ status }) => status === "waiting", "the connection is lost");
    for (const bye of [false, true, false]) {
      const from = seen.all.length;
      await world.server.beat({ user_id: b, bye });
      await seen.first(is(b, bye ? "offline" : "online"), `bye ${bye}`, { from });
    }
    proxy.refuse(false);
    await tab.notes.until(() => tab.notes.all.filter(is(b, "online")).length === 2, "what was missed");
    const states = tab.notes.all.filter(({ user }) => user === b).map(({ state }) => state);
    assert.deepEqual(states, ["offline", "online", "offline", "online"]);
    assert.ok(!tab.notes.all.some(({ skipped }) => skipped));
  });

  test("a browser that loses its network says so at once, and connects again when it has one", async () => {
    const [me] = next();
    const tab = await visit({ url: world.server.url, user: me });
    await tab.notes.first(open, "open");
    const network = (offline: boolean) =>
      tab.send("Network.emulateNetworkConditions", {
        offline,
        latency: 0,
        downloadThroughput: -1,
        uploadThroughput: -1,
      });
    await tab.send("Network.enable");
    const from = tab.notes.all.length;
    await network(true);
    await tab.notes.first(({ status }) => status === "waiting", "the connection is lost", { from, ms: 8000 });
    await network(false);
    await tab.notes.first(open, "open again", { from });
  });

  test("a server that restarts is found again", async () => {
    const own = await Server.start(`--allowed-origins=${world.origin}`);
    ends.push(() => own.end());
    const tab = await visit({ url: own.url, user: "1", ids: ["2"] });
    await tab.notes.first(is("2", "offline"), "the snapshot");
    await own.stop();
    await tab.notes.first(({ status }) => status === "waiting", "the connection is lost");
    await own.start();
    const from = tab.notes.all.findIndex(({ status }) => status === "waiting");
    await tab.notes.first(open, "open again", { from });
    await own.beat({ user_id: "2" });
    await tab.notes.first(is("2", "online"), "the next change");
  });

  test("a refusal is reported with the server's reason, although a page cannot see it", async () => {
    const tab = await visit({ url: world.tokens.url, user: "1" });
    await tab.notes.first(({ status }) => status === "refused", "refused");
    await tab.notes.first(({ code }) => code === "no_token", "the reason");
  });
});
