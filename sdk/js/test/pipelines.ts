import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { User } from "../src/index.js";
import { shown } from "./between.js";
import { is, join, note, through } from "./rig.js";
import { Server } from "./server.js";

/** The same in both kinds of pipelines. names are the users of a test. */
export function both(ids: "int" | "text", names: (test: number) => [string, string, string]) {
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
      const changes = await server.changes(b);
      await presence.close();
      await seen.first(is(b, "offline"), "b is offline again", { from: seen.all.indexOf(online) });
      const { cause } = await changes.first(({ to }) => to === "offline", "the change");
      assert.equal(cause, "bye", "nothing had to time out");
      assert.equal(presence.status, "closed");
    });

    test("an open connection keeps the user online beyond the time to live, until the process ends", async () => {
      const [a, b] = next();
      const proxy = await through(server);
      const seen = note(join({ url: server.url, user: a, present: false }).presence.watch([b]));
      join({ url: proxy.url, user: b });
      await seen.first(is(b, "online"), "b is online");
      await proxy.sent.until(() => shown(proxy) >= 5, "five pongs", 15_000);
      assert.ok(!seen.all.some(is(b, "away")), "b was away");
      proxy.refuse(true);
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
      const refused = await problems.first(
        ({ code }) => code === (ids === "int" ? "invalid_user_id" : "invalid_name"),
        "the refusal",
      );
      assert.equal(refused.user, bad);
      await seen.until(() => seen.all.length >= 2, "the others");
      assert.deepEqual([...watch.ids], [b, c]);
    });

    test("a user hides from all others, sees itself as it is, and shows itself again", async () => {
      const [a, b] = next();
      const watcher = join({ url: server.url, user: a, present: false }).presence;
      const seen = note(watcher.watch([b]));
      const { presence } = join({ url: server.url, user: b });
      await seen.first(is(b, "online"), "b is online");
      const me = async (visibility: string) => {
        for (;;) {
          const now = await presence.me(); // it follows within a second
          if (now.visibility === visibility) return [now.user_id, now.state];
        }
      };
      await presence.hide();
      await seen.first(is(b, null), "b is hidden");
      assert.deepEqual(await me("nobody"), [b, "online"]);
      assert.deepEqual([...(await watcher.read([b]))], [[b, null]]);
      const from = seen.all.length;
      await presence.show();
      await seen.first(is(b, "online"), "b is online again", { from });
      assert.deepEqual(await me("everyone"), [b, "online"]);
    });

    test("a user looks hidden to the viewers whom it denies, until it allows them", async () => {
      const [a, b, c] = next();
      const watcher = join({ url: server.url, user: a }).presence; // present once, so that its name is known
      const other = join({ url: server.url, user: c, present: false }).presence;
      const seen = note(watcher.watch([b]));
      const { presence } = join({ url: server.url, user: b });
      await seen.first(is(b, "online"), "b is online");
      await presence.deny([a, a]);
      await seen.first(is(b, null), "b looks hidden");
      for (let states = await watcher.read([b]); states.get(b) !== null;) states = await watcher.read([b]);
      assert.deepEqual([...(await other.read([b]))], [[b, "online"]]);
      let list = await presence.denied(); // it follows within a second
      while (list.length === 0) list = await presence.denied();
      assert.deepEqual(
        list.map((viewer) => viewer.user_id),
        [a],
      );
      const from = seen.all.length;
      await presence.allow([a]);
      await seen.first(is(b, "online"), "b is online again", { from });
      while (list.length > 0) list = await presence.denied();
      await assert.rejects(presence.deny([a, b]), { field: "add[1]" });
    });

    test("others learn of when a user was last here what the user chooses", async () => {
      const [a, b] = next();
      const watcher = join({ url: server.url, user: a, present: false }).presence;
      const seen = note(watcher.watch([b]));
      const { presence } = join({ url: server.url, user: b });
      await seen.first(is(b, "online"), "b is online");
      for (const [last_seen, word] of [
        ["coarse", "recently"],
        ["never", "hidden"],
      ] as const) {
        await presence.setAudience({ last_seen });
        const user = await seen.first((user) => user !== "skipped" && user.last_seen === word, `b is ${word}`);
        assert.ok(user !== "skipped" && user.state === "online" && user.last_seen_at === null);
        let now = await presence.audience(); // it follows within a second
        while (now.last_seen !== last_seen) now = await presence.audience();
        assert.deepEqual(now, { user_id: b, base: "everyone", last_seen });
      }
      assert.deepEqual(
        (await watcher.readUsers([b])).map((user) => [user.last_seen_at, user.last_seen]),
        [[null, "hidden"]],
      );
      assert.equal((await presence.me()).last_seen, undefined);
      await assert.rejects(presence.setAudience({}), { field: "body" });
    });

    test("a user is shown as the override says, until it ends", async () => {
      const [a, b] = next();
      const seen = note(join({ url: server.url, user: a, present: false }).presence.watch([b]));
      const { presence } = join({ url: server.url, user: b });
      await seen.first(is(b, "online"), "b is online");
      await presence.setOverride({ state: "dnd", until: new Date(Date.now() + 3_600_000).toISOString(), note: "exam" });
      const dnd = await seen.first((user) => user !== "skipped" && user.dnd === true, "b is not to be disturbed");
      assert.ok(is(b, "online")(dnd));
      await presence.setOverride({ state: "away" });
      await seen.first(is(b, "away"), "b is away");
      let now = await presence.override(); // it follows within a second
      while (now.override?.state !== "away") now = await presence.override();
      assert.deepEqual(now, { user_id: b, override: { state: "away" }, automatic: "online" });
      const from = seen.all.length;
      await presence.endOverride();
      await seen.first(is(b, "online"), "b is online again", { from });
      while (now.override) now = await presence.override();
      await assert.rejects(presence.setOverride({ state: "dnd", until: "2001-01-01T00:00:00Z" }), { field: "until" });
    });

    test("states are read in batches, without a connection", async () => {
      const [a, b, c] = next();
      await server.beat({ user_id: b });
      const { presence } = join({ url: server.url, user: a, present: false });
      const seen = note(presence.watch([b]));
      await seen.first(is(b, "online"), "b is online");
      const many = Array.from({ length: 1500 }, (_, i) => (ids === "int" ? String(10_000_000 + i) : `user-${i}`));
      let states = await presence.read([b, c, ...many]);
      // The stream is up to a second ahead of what batches read.
      while (states.get(b) !== "online") states = await presence.read([b, c, ...many]);
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
