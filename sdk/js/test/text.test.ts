import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { User } from "../src/index.js";
import { both } from "./pipelines.js";
import { is, join, note } from "./rig.js";
import { Server } from "./server.js";

both("text", (n) => [`ann ${n}`, `böb, ${n}/?&@b.c`, `${n}\u2603 "quoted" __proto__`]);

describe("tenants", () => {
  let server: Server;
  before(async () => {
    server = await Server.start("--ids=text");
  });
  after(() => server.end());

  test("users of one name in two tenants are two users", async () => {
    const acme = join({ url: server.url, user: "ann", tenant: "acme", present: false });
    const other = join({ url: server.url, user: "ann", tenant: "other", present: false });
    const [seen, unseen] = [acme, other].map(({ presence }) => note(presence.watch(["bob"])));
    await Promise.all([seen, unseen].map((each) => each!.first(is("bob", "offline"), "the snapshot")));
    join({ url: server.url, user: "bob", tenant: "acme", device: "a phone" });
    const bob = await seen!.first(is("bob", "online"), "bob of acme is online");
    assert.equal((bob as User).tenant, "acme");
    assert.equal((await acme.presence.read(["bob"])).get("bob"), "online");
    assert.equal((await other.presence.read(["bob"])).get("bob"), "offline");
    join({ url: server.url, user: "bob", tenant: "other", device: "a phone" });
    await unseen!.first(is("bob", "online"), "bob of the other tenant is online");
    assert.equal(seen!.all.length, 2);
  });
});
