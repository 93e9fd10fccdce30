import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Between } from "./between.js";
import type { Note } from "./chromium.js";
import { through } from "./rig.js";
import { Visits } from "./visits.js";

const shows =
  (...states: (string | null)[]) =>
  (note: Note) =>
    JSON.stringify(note.shows) === JSON.stringify(states);
/** The subscribes and unsubscribes that a page has sent, each with its users. */
const asked = (proxy: Between, type: string): string[][] =>
  proxy.sent.all.filter(({ text }) => text.includes(`"type":"${type}"`)).map(({ text }) => JSON.parse(text).user_ids);

describe("the hook for React in Chromium, in StrictMode", () => {
  const world = new Visits();
  const { next } = world;
  before(() => world.start());
  after(() => world.end());

  /** A page that shows nobody yet, behind a proxy. */
  async function page(options: object) {
    const proxy = await through(world.server);
    const tab = await world.visit({ url: proxy.url, ...options }, "/react");
    await tab.notes.first(({ status }) => status !== undefined, "the page runs");
    const show = (...lists: string[][]) => tab.run(`show(...${JSON.stringify(lists)})`);
    return { proxy, tab, show };
  }

  test("shows the users of a list, each change of them, and those of another list", async () => {
    const [[me, b], [c]] = [next(), next()];
    const { proxy, tab, show } = await page({ user: me });
    const { notes } = tab;
    await show([b]);
    await notes.first(shows("offline"), "b");
    assert.deepEqual(asked(proxy, "subscribe"), [[b]], "a second mount asks for nothing");
    for (const bye of [false, true, false]) {
      const from = notes.all.length;
      await world.server.beat({ user_id: b, bye });
      await notes.first(shows(bye ? "offline" : "online"), `b after a beat, bye: ${bye}`, { from });
    }
    let from = notes.all.length;
    await show([b, c]);
    await notes.first(shows("online", "offline"), "b and c", { from });
    assert.ok(!notes.all.slice(from).some(({ shows: [first] = ["online"] }) => first !== "online"), "b stays");
    await world.server.beat({ user_id: c });
    await notes.first(shows("online", "online"), "c is online");
    await show([c]);
    await proxy.sent.until(() => asked(proxy, "unsubscribe").length === 1, "b is watched no more");
    assert.deepEqual([asked(proxy, "subscribe"), asked(proxy, "unsubscribe")], [[[b], [c]], [[b]]]);
    from = notes.all.length;
    await world.server.beat({ user_id: b, bye: true }, { user_id: c, bye: true });
    await notes.first(shows("offline"), "c is offline", { from });
    assert.equal(proxy.handshakes.length, 1);
    assert.deepEqual(
      notes.all.filter(({ thrown }) => thrown),
      [],
    );
  });

  test("shows every change that came while the connection was lost, and says that it was", async () => {
    const [me, b] = next();
    const { proxy, tab, show } = await page({ user: me });
    const { notes } = tab;
    await show([b]);
    await notes.first((note) => shows("offline")(note) && note.status === "open", "b");
    proxy.refuse(true);
    proxy.drop();
    await notes.first(({ shows, status }) => shows !== undefined && status === "waiting", "the connection is lost");
    const changes = await world.server.changes(b);
    await world.server.beat({ user_id: b });
    await changes.first(({ to }) => to === "online", "b has come");
    const from = notes.all.length;
    proxy.refuse(false);
    await notes.first((note) => shows("online")(note) && note.status === "open", "b is online", { from });
  });

  test("two lists share a connection, which ends with the last one, and comes back with the next", async () => {
    const [[me, b], [c]] = [next(), next()];
    const { proxy, tab, show } = await page({ user: me, present: false });
    const { notes } = tab;
    await show([b], [b]);
    await notes.until(() => notes.all.filter(shows("offline")).length >= 2, "b, twice");
    await show([b]);
    await world.server.beat({ user_id: b });
    await notes.first(shows("online"), "b is online in the list that stays");
    assert.deepEqual(asked(proxy, "unsubscribe"), []);
    let from = notes.all.length;
    await show([c]);
    await notes.first(shows("offline"), "c", { from });
    from = notes.all.length;
    await show([b]);
    await notes.first(shows("online"), "b again", { from });
    assert.equal(proxy.handshakes.length, 1, "nobody has closed the connection meanwhile");
    await show();
    await proxy.sent.until(() => proxy.open === 0, "nobody watches: no connection is left");
    const changes = await world.server.changes(b);
    await world.server.beat({ user_id: b, bye: true });
    await changes.first(({ to }) => to === "offline", "b has left");
    from = notes.all.length;
    await show([b]);
    await notes.first(shows("offline"), "b is offline", { from });
    await proxy.sent.until(() => proxy.open === 1, "one connection");
    assert.deepEqual(
      notes.all.filter(({ thrown }) => thrown),
      [],
    );
  });
});
