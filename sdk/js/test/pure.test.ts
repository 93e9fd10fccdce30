import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { connect, type Problem } from "../src/index.js";
import { newer, parse, type User } from "../src/messages.js";
import { bearerOf, settle } from "../src/options.js";
import { Touches } from "../src/page.js";
import { Replica } from "../src/replica.js";
import { backoff } from "../src/timers.js";
import { Watch } from "../src/watch.js";

const user = (id: string, version: string, more: Partial<User> = {}): User => ({
  user_id: id,
  state: "online",
  version,
  ...more,
});

test("versions are compared as 64-bit numbers", () => {
  assert.ok(newer("9223372036854775807", "9223372036854775806"));
  assert.ok(newer("10000000000000000", "9999999999999999"));
  assert.ok(!newer("7", "7"));
  assert.ok(!newer(undefined, "1"));
  assert.ok(newer("1", undefined));
});

test("what is no message of the server is told apart", () => {
  for (const text of [
    "",
    "{",
    "null",
    "[]",
    "7",
    '"hello"',
    "{}",
    '{"type":7}',
    '{"type":"change"}',
    '{"type":"change","user":null}',
    '{"type":"change","user":{"user_id":7}}',
    '{"type":"snapshot"}',
    '{"type":"snapshot","users":{}}',
    '{"type":"resync","users":[null]}',
    '{"type":"error"}',
    '{"type":"error","error":"no"}',
    '{"type":"hello"}',
    '{"type":"hello","heartbeat_interval_ms":0}',
    new ArrayBuffer(3),
    undefined,
  ])
    assert.equal(parse(text), undefined, String(text));
  for (const text of ['{"type":"later"}', '{"type":"change","user":{"user_id":"1"}}', '{"type":"snapshot","users":[]}'])
    assert.ok(parse(text), text);
});

test("a replica takes each version once and never an older one", () => {
  const replica = new Replica();
  assert.equal(replica.apply({ type: "snapshot", users: [user("1", "10")] }).changed.length, 1);
  assert.equal(replica.apply({ type: "change", user: user("1", "10") }).changed.length, 0);
  assert.equal(replica.apply({ type: "change", user: user("1", "9") }).changed.length, 0);
  const { changed } = replica.apply({ type: "change", user: user("1", "11", { state: "away" }) });
  assert.deepEqual(changed, [[user("1", "11", { state: "away" }), user("1", "10")]]);
  assert.equal(replica.apply({ type: "resync", users: [user("1", "11", { state: null })] }).changed.length, 1);
});

test("a snapshot after a lost connection says that changes were skipped, and a resumed one does not", () => {
  const replica = new Replica();
  assert.ok(!replica.apply({ type: "snapshot", users: [user("1", "1")] }).skipped);
  replica.lost();
  assert.ok(replica.apply({ type: "snapshot", users: [user("1", "1")] }).skipped);
  replica.lost();
  assert.ok(!replica.apply({ type: "change", user: user("1", "2") }).skipped);
  assert.ok(!replica.apply({ type: "resumed" }).skipped);
  assert.ok(replica.apply({ type: "collapsed" }).skipped);
});

test("who was unsure and does not come again before resumed is sure", () => {
  const replica = new Replica();
  const unsure = { unsure_since: "2026-11-23T12:00:00.000Z" };
  replica.apply({ type: "snapshot", users: [user("1", "1", unsure), user("2", "1", unsure)] });
  replica.lost();
  replica.apply({ type: "resync", users: [user("2", "1", unsure)] });
  const { changed } = replica.apply({ type: "resumed" });
  assert.deepEqual(changed, [[user("1", "1"), user("1", "1", unsure)]]);
});

test("a cursor belongs to the users of its message, also when some are forgotten", () => {
  const replica = new Replica();
  replica.apply({ type: "snapshot", users: [user("1", "1"), user("2", "1")], cursor: "a" });
  replica.forget(["2"]);
  assert.deepEqual([replica.cursor, replica.covered], ["a", ["1", "2"]]);
  replica.apply({ type: "change", user: user("1", "2"), cursor: "b" });
  assert.deepEqual([replica.cursor, replica.covered], ["b", ["1"]]);
});

test("a tab that adopts another one's replica has its users, cursor and changes", () => {
  const [a, b] = [new Replica(), new Replica()];
  a.apply({ type: "snapshot", users: [user("1", "2"), user("2", "1")], cursor: "x" });
  b.apply({ type: "snapshot", users: [user("1", "1"), user("3", "1")], cursor: "y" });
  const { changed } = b.adopt(structuredClone(a.copy()));
  assert.deepEqual(
    changed.map(([now]) => [now.user_id, now.version]),
    [
      ["1", "2"],
      ["2", "1"],
    ],
  );
  assert.deepEqual([[...b.users.keys()], b.cursor, b.covered], [["1", "2"], "x", ["1", "2"]]);
});

test("pauses double up to the greatest one, each at least half of that", () => {
  for (let failures = 1; failures < 20; failures++) {
    const whole = Math.min(15_000, 250 * 2 ** (failures - 1));
    for (let i = 0; i < 100; i++) {
      const pause = backoff(failures, 250, 15_000);
      assert.ok(pause >= whole / 2 && pause <= whole, `${failures}: ${pause}`);
    }
  }
});

test("a wrong option is an error that names it", () => {
  assert.throws(() => settle({ url: "ftp://a" }), /^TypeError: url:/);
  assert.throws(() => settle({ url: "http://a", user: 1 as never }), /^TypeError: user:/);
  for (const device of ["", "a\0", "é".repeat(65), 7 as never])
    assert.throws(() => settle({ url: "http://a", device }), /^TypeError: device:/);
  assert.throws(() => settle({ url: "http://a", user: "1", firstWait: 9, maxWait: 1 }), /^TypeError: maxWait:/);
  assert.equal(settle({ url: "http://a/behind/a/path" }).url.href, "http://a/behind/a/path/");
});

test("on a server that renders a page, connect does nothing and throws nothing", async () => {
  const presence = connect({ token: () => assert.fail("nobody needs a token") });
  presence.watch(["1"]);
  assert.equal(presence.status, "closed");
  await presence.close();
  const { WebSocket } = globalThis;
  Reflect.deleteProperty(globalThis, "WebSocket"); // Node 20
  try {
    const problem = await new Promise<Problem>((resolve) => connect({ url: "http://a" }).on("error", resolve));
    assert.equal(problem.message, "WebSocket: must be given here");
  } finally {
    Object.assign(globalThis, { WebSocket });
  }
});

test("a token says whose it is, in any alphabet, and other texts do not", () => {
  const token = (claims: object) => `x.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.y`;
  assert.deepEqual(bearerOf(token({ sub: "Zoë ☃", tenant: "acme" })), ["acme", "Zoë ☃"]);
  assert.deepEqual(bearerOf(token({ sub: "7" })), ["", "7"]);
  for (const text of ["", "opaque", "a.b.c", token({}), token({ sub: 7 })]) assert.equal(bearerOf(text), undefined);
});

test("a loop over changes keeps the newest of each user when it is slow, and ends when the watch closes", async () => {
  const users = new Map<string, User>();
  const watch = new Watch({ get: (id) => users.get(id), changed() {}, closed() {} }).add("1", "2");
  const loop = watch.changes({ limit: 10 });
  const first = loop.next();
  for (let version = 1; version <= 100; version++)
    for (const id of ["1", "2"]) watch.deliver([[user(id, String(version)), undefined]], false);
  const seen = [(await first).value as User];
  while (seen.length < 50) {
    const { value } = await loop.next();
    seen.push(value as User);
    if (seen.filter(({ version }) => version === "100").length === 2) break;
  }
  assert.ok(seen.length <= 12, `${seen.length} changes were kept`);
  const last = loop.next();
  watch.close();
  assert.equal((await last).done, true);
});

test("ids are texts", () => {
  const watch = new Watch({ get: () => undefined, changed() {}, closed() {} });
  assert.throws(() => watch.add("1", 2 as never), /^TypeError: ids\[1]: must be a string/);
  assert.throws(() => watch.add(""), /^TypeError: ids\[0]/);
});

test("who sets the wall clock makes nobody idle or active", () => {
  let [now, wall] = [1000, 1e12];
  const listeners = new Map<string, () => void>();
  const add = (name: string, run: () => void) => listeners.set(name, run);
  const page = { visibilityState: "visible", addEventListener: add };
  Object.assign(globalThis, { document: page, addEventListener: add });
  const clocks = [mock.method(performance, "now", () => now), mock.method(Date, "now", () => wall)];
  try {
    const told: number[] = [];
    const touches = new Touches((idle) => told.push(idle));
    wall += 3_600_000;
    assert.equal(touches.idle, 0);
    wall -= 7_200_000;
    now += 1_800_000;
    assert.equal(touches.idle, 1_800_000);
    listeners.get("keydown")!();
    assert.deepEqual([told, touches.idle], [[1_800_000], 0]);
    now += 5000;
    touches.touched(); // in another tab
    assert.equal(touches.idle, 0);
    touches.close();
  } finally {
    for (const clock of clocks) clock.mock.restore();
    Reflect.deleteProperty(globalThis, "document");
    Reflect.deleteProperty(globalThis, "addEventListener");
  }
});
