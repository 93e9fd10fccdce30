// What one user's page and its address show while reads overlap, fail, and new changes come.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, seen, visit } from "./drive.mjs";
import { Fake } from "./fake.mjs";

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

async function withFake(options, hash, act, more) {
  const fake = await Fake.start({ users: 50, ...options });
  try {
    await visit(browser, `${fake.url}/console/${hash}`, (page) => act(page, fake), more);
  } finally {
    await fake.end();
  }
}

const change = (n, at) => ({
  event_id: `2wPx${String(n).padStart(23, "0")}`,
  from: n % 2 ? "offline" : "online",
  to: n % 2 ? "online" : "offline",
  at: new Date(at).toISOString(),
  cause: n % 2 ? "first_beat" : "bye",
  version: String(n),
  left_out: 0,
});
/** Changes, newest first, a second apart. */
const changes = (count) => Array.from({ length: count }, (_, i) => change(count - i, Date.now() - i * 1000));
const rows = (page, count) =>
  page.waitForFunction((count) => document.querySelectorAll("table.history tbody tr").length === count, count);

/** Waits until so many streams are open. */
const open = async (page, fake, wanted) => {
  while (fake.streams !== wanted) await page.evaluate(() => new Promise((done) => requestIdleCallback(done)));
};

test("the way back goes back to the tenant too", () =>
  withFake({ ids: "text" }, "#/users/ann", async (page) => {
    const tenant = (name) =>
      page.waitForFunction((name) => document.querySelector(".tenant input")?.value === name, name);
    await tenant("");
    await page.evaluate(() => {
      location.hash = "#/users/ann?tenant=acme";
    });
    await tenant("acme");
    await page.goBack();
    await tenant("");
    assert.equal(new URL(page.url()).hash, "#/users/ann");
  }));

test("an observer is offered no acts, and asks for nothing that needs more", () =>
  withFake({ acts: false }, "#/users/1007?event=e1", async (page, fake) => {
    await page.locator(".history tbody tr").first().waitFor();
    for (const name of [/^(Hide|Show|Set last seen|Set denied viewers|Override|Export|Erase)$/, /^Why/])
      assert.equal(await page.getByRole("button", { name }).count(), 0, String(name));
    assert.deepEqual(await page.locator("nav li a").allInnerTexts(), ["Now\n1", "Users\n2", "Feed\n3", "What if\n4"]);
    assert.deepEqual(
      fake.requests.filter((r) => /audience|override|export|followers|explain|devices=true/.test(r)),
      [],
    );
  }));

test("an override is set, shown, changed and ended", () =>
  withFake({}, "", async (page, fake) => {
    const user = fake.nameOf(0);
    await page.goto(`${fake.url}/console/#/users/${user}`);
    const give = async (state, until = "", note = "") => {
      await page.getByRole("button", { name: "Override", exact: true }).click();
      await page.locator("dialog select").selectOption(state);
      await page.getByLabel("Until").fill(until);
      await page.getByLabel("Note").fill(note);
      await page.getByRole("button", { name: `Override ${user}` }).click();
      await page.locator("dialog").waitFor({ state: "detached" });
    };
    await give("dnd", "2100-01-01T10:00:00", "exam");
    await seen(page, /do not disturb until .*: exam/);
    assert.deepEqual(fake.writes.at(-1)[0], { state: "dnd", note: "exam", until: "2100-01-01T10:00:00.000Z" });
    await give("away");
    await seen(page, "away (online without it)");
    await give("invisible");
    await page.locator(".says.hidden").waitFor();
    assert.equal(await page.getByRole("button", { name: "Hide", exact: true }).count(), 1);
    await give("");
    await page.locator(".says.hidden").waitFor({ state: "detached" });
    assert.deepEqual(fake.writes.at(-1), ["override over", user]);
  }));

test("last seen is set, and an observer sees words in place of times", () =>
  withFake({}, "", async (page, fake) => {
    const user = fake.nameOf(3);
    await page.goto(`${fake.url}/console/#/users/${user}`);
    for (const [word, name] of [
      ["never", "never"],
      ["coarse", "coarsely"],
    ]) {
      await page.getByRole("button", { name: "Set last seen", exact: true }).click();
      await page.locator("dialog select").selectOption(word);
      await page.getByRole("button", { name: `Set last seen ${user}` }).click();
      await page.locator("dialog").waitFor({ state: "detached" });
      await page.locator(".facts div", { hasText: "Shows last seen" }).getByText(name).waitFor();
      assert.deepEqual(fake.writes.at(-1), [word, user]);
    }
    await page
      .locator(".facts div", { hasText: /^Last seen/ })
      .getByText("UTC")
      .waitFor();
    fake.acts = false;
    await page.reload();
    await page
      .locator(".facts div", { hasText: /^Last seen/ })
      .getByText("recently", { exact: true })
      .waitFor();
    await page.locator(".facts div", { hasText: "Since" }).getByText("not shown").waitFor();
    await page.locator("[role=gridcell].n", { hasText: "recently" }).waitFor();
    assert.equal(await page.locator(".facts div", { hasText: "Shows last seen" }).count(), 0);
  }));

test("viewers are denied and allowed again, and listed", () =>
  withFake({}, "", async (page, fake) => {
    const user = fake.nameOf(3);
    fake.denied.set(user, new Set(Array.from({ length: 100 }, (_, i) => String(5000 + i))));
    await page.goto(`${fake.url}/console/#/users/${user}`);
    const facts = page.locator(".facts div", { hasText: "Denied viewers" });
    const names = page.locator(".panel", { has: facts }).locator(".followers").last().locator("a");
    await facts.getByText("100", { exact: true }).waitFor();
    assert.equal(await names.count(), 20);
    for (const [change, writes, count] of [
      ["add", { add: ["4999"], remove: [] }, "more than 100"],
      ["remove", { add: [], remove: ["4999"] }, "100"],
    ]) {
      await page.getByRole("button", { name: "Set denied viewers", exact: true }).click();
      await page.getByLabel("Viewer", { exact: true }).fill("4999");
      await page.locator("dialog select").selectOption(change);
      await page.getByRole("button", { name: `Set denied viewers ${user}` }).click();
      await page.locator("dialog").waitFor({ state: "detached" });
      await facts.getByText(count, { exact: true }).waitFor();
      assert.deepEqual(fake.writes.at(-1), [writes, user]);
      assert.equal(await names.first().innerText(), change === "add" ? "4999" : "5000");
    }
  }));

test("every link keeps the tenant", () =>
  withFake({ ids: "text" }, "#/users/ann?tenant=acme", async (page) => {
    await page.locator(".followers a").first().waitFor();
    const hrefs = await page.locator("nav a[href^='#/'], .followers a").evaluateAll((all) => all.map((a) => a.href));
    assert.ok(hrefs.length > 10);
    assert.deepEqual(
      hrefs.filter((href) => !href.endsWith("tenant=acme")),
      [],
    );
    await page.locator("main").click({ position: { x: 1, y: 1 } });
    await page.keyboard.press("3");
    await page.waitForURL(/#\/feed\?tenant=acme$/);
    await page.getByRole("button", { name: "Online", exact: true }).click();
    await page.waitForURL(/state=online&tenant=acme$/);
  }));

test("a read that another one replaces is no fault", () =>
  withFake({}, "", async (page, fake) => {
    const user = fake.nameOf(0);
    // Each read of the history waits for the next one.
    let release = () => {};
    await page.route(/\/history\?/, async (route) => {
      release();
      await new Promise((done) => {
        release = done;
      });
      await route.continue().catch(() => {}); // given up
    });
    await page.evaluate((user) => {
      location.hash = `#/users/${user}`;
    }, user);
    await page.getByRole("button", { name: "Hide", exact: true }).click();
    await page.locator("dialog button.main").click();
    await seen(page, "Hidden.");
    await page.unroute(/\/history\?/);
    release();
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await page.locator("dialog button.main").click();
    await page.locator(".days .day").first().waitFor();
    await page.locator("table.history").waitFor();
    assert.equal(await page.getByText("AbortError").count(), 0);
  }));

for (const screen of ["feed", "users"])
  test(`what was typed into the search of ${screen} does not bring back who has left`, () =>
    withFake({}, `#/${screen}`, async (page, fake) => {
      // The timers of the page stand still until all has been done.
      await page.locator("input[type=search]").waitFor();
      const now = Date.now();
      await page.clock.install({ time: now });
      await page.clock.pauseAt(now + 60_000);
      await page.locator("input[type=search]").fill(fake.nameOf(0));
      await page.getByRole("navigation").getByRole("link", { name: "Now" }).click();
      await page.waitForURL(/#\/now$/);
      await page.locator(".screen-now").waitFor();
      await page.clock.runFor(1000);
      assert.match(page.url(), /#\/now$/);
    }));

test("older changes stay complete while new ones come", () =>
  withFake({}, "", async (page, fake) => {
    const user = fake.nameOf(0);
    fake.changes = changes(100);
    await page.goto(`${fake.url}/console/#/users/${user}`);
    await rows(page, 50);
    await page.getByRole("button", { name: "Older changes" }).click();
    await rows(page, 100);
    fake.changes = [...Array.from({ length: 10 }, (_, i) => change(110 - i, Date.now() + 10 - i)), ...fake.changes];
    await page.getByRole("button", { name: "Hide", exact: true }).click();
    await page.locator("dialog button.main").click(); // it reads again
    await rows(page, 110);
    // More than a page has come: nothing in between may be left out in silence.
    fake.changes = [...Array.from({ length: 60 }, (_, i) => change(170 - i, Date.now() + 60 - i)), ...fake.changes];
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await page.locator("dialog button.main").click();
    await rows(page, 50);
    await page.getByRole("button", { name: "Older changes" }).click();
    await rows(page, 150);
  }));

test("older changes that cannot be read say why, and a later try works", () =>
  withFake(
    {},
    "",
    async (page, fake) => {
      fake.changes = changes(60);
      await page.goto(`${fake.url}/console/#/users/${fake.nameOf(0)}`);
      await rows(page, 50);
      fake.status = 503;
      await page.getByRole("button", { name: "Older changes" }).click();
      await seen(page.locator(".drawer .panel", { hasText: "History" }), "the pipeline is starting");
      fake.status = 0;
      await page.getByRole("button", { name: "Older changes" }).click();
      await rows(page, 60);
    },
    { allowed: [/Failed to load resource/] },
  ));

test("a history that cannot be read again stays", () =>
  withFake(
    {},
    "",
    async (page, fake) => {
      fake.changes = changes(40);
      await page.goto(`${fake.url}/console/#/users/${fake.nameOf(0)}`);
      await rows(page, 40);
      await page.locator(".days rect").first().waitFor({ state: "attached" });
      await page.getByRole("button", { name: "Hide", exact: true }).click();
      await page.route("**/history?*", (route) => route.fulfill({ status: 503, body: "" }));
      await page.locator("dialog button.main").click(); // it reads again
      await page.locator(".drawer .panel", { hasText: "History" }).locator(".problem").first().waitFor();
      await rows(page, 40);
    },
    { allowed: [/Failed to load resource/] },
  ));

test("a user who is online since longer than the days has full days", () =>
  withFake({ changes: [], began: 0 }, "", async (page, fake) => {
    fake.began = Date.now() - 30 * 86_400_000;
    await page.goto(`${fake.url}/console/#/users/${fake.nameOf(0)}`);
    await page.locator(".days .day .sum", { hasText: "24 h" }).nth(5).waitFor();
  }));

test("a token whose end is no date breaks nothing", () =>
  withFake({}, "#/try", async (page) => {
    const claims = Buffer.from('{"exp":1e300}').toString("base64url");
    await page.getByRole("textbox", { name: "Token" }).fill(`a.${claims}.c`);
    await seen(page, "1e+300 is no date");
  }));

test("a user whom no address can name is told apart", () =>
  withFake({ ids: "text" }, "#/users/..", async (page) => {
    await seen(page, "A browser cannot name a user");
  }));

test("after a lost connection the days and the history are read again", () =>
  withFake(
    { changes: changes(2) },
    "",
    async (page, fake) => {
      await page.goto(`${fake.url}/console/#/users/${fake.nameOf(0)}`);
      await rows(page, 2);
      await fake.down();
      await page.locator(".bar.lost").waitFor();
      fake.changes = changes(3);
      await fake.up();
      await page.locator(".bar.lost").waitFor({ state: "detached" });
      await rows(page, 3);
      assert.equal(await page.locator(".drawer .problem").count(), 0);
    },
    { allowed: [/Failed to load resource/, /net::ERR/] },
  ));

test("the feed says from when to when changes are missing after a lost connection", () =>
  withFake(
    { rate: 20 },
    "#/feed",
    async (page, fake) => {
      await page.locator(".feed .rows .row").nth(5).waitFor();
      await fake.down();
      await page.locator(".bar.lost").waitFor();
      await fake.up();
      await page.locator(".bar.lost").waitFor({ state: "detached" });
      await page.locator(".feed .row.gap", { hasText: /from \d\d:\d\d:\d\d until/ }).waitFor();
    },
    { allowed: [/Failed to load resource/, /net::ERR/] },
  ));

test("the feed says that it connects until the server has found the end of the log", () =>
  withFake({ rate: 0, ready: new Promise(() => {}) }, "#/feed", async (page, fake) => {
    await seen(page, "The server looks for the end of the log");
    assert.equal(await page.getByText("No change yet").count(), 0);
    delete fake.ready;
    await page.reload();
    await seen(page, "No change yet");
  }));

test("what passed until a user's feed began is read again", () => {
  let begin;
  const ready = new Promise((done) => {
    begin = done;
  });
  return withFake({ ready }, "", async (page, fake) => {
    const histories = () => fake.requests.filter((r) => r.includes("/history")).length;
    await page.goto(`${fake.url}/console/#/users/${fake.nameOf(0)}`);
    await page.locator(".history tbody tr").first().waitFor();
    await page.locator(".days rect").first().waitFor({ state: "attached" });
    const before = histories();
    begin();
    while (histories() === before) await page.evaluate(() => new Promise((done) => requestIdleCallback(done)));
  });
});

test("Escape in a field leaves the user open", () =>
  withFake({}, "", async (page, fake) => {
    await page.goto(`${fake.url}/console/#/users/${fake.nameOf(0)}`);
    await page.locator("#search").press("Escape");
    await page.locator("#search").blur();
    await page.locator(".drawer h2").first().waitFor();
    await page.keyboard.press("Escape");
    await page.locator(".drawer").waitFor({ state: "detached" });
  }));

test("ages are those of the server's clock", () =>
  withFake({ rate: 0 }, "", async (page, fake) => {
    await page.clock.install({ time: Date.now() - 300_000 }); // this machine is five minutes behind
    await page.goto(`${fake.url}/console/#/users`);
    await page
      .locator(".row:not(.head) .n", { hasText: /^2\d s ago$/ })
      .first()
      .waitFor();
  }));

test("a token that cannot be sent is refused in words, and the dialog comes once", () =>
  withFake(
    { token: "right" },
    "#/users",
    async (page) => {
      await page.getByRole("textbox", { name: "Token" }).fill("wr\u00f6ng\u20ac");
      await page.getByRole("button", { name: "Use token" }).click();
      await page.locator("#token-refused", { hasText: "printable characters of ASCII" }).waitFor();
      await page.getByRole("button", { name: "Cancel" }).click();
      await page.locator("dialog").waitFor({ state: "detached" });
      await page.getByRole("link", { name: "Feed" }).click(); // refused as well
      await page.getByRole("button", { name: "Sign in", exact: true }).first().waitFor();
      assert.equal(await page.locator("dialog").count(), 0);
    },
    { allowed: [/Failed to load resource/] },
  ));

test("a duration without its unit is told before the server is asked", () =>
  withFake({}, "#/whatif", async (page) => {
    await page.getByLabel("offline-debounce").fill("30");
    await seen(page, "needs a unit, such as 30s");
    assert.ok(await page.getByRole("button", { name: "Run the backtest" }).isDisabled());
  }));

test("the administrator of a tenant is told what is not shown", () =>
  withFake({ ids: "text", own: "acme" }, "", async (page) => {
    await seen(page, "What is of all tenants");
    await page.getByRole("link", { name: "What if" }).click();
    await seen(page, "A policy is tried on the users of all tenants");
  }));

const shows = (page, hidden) =>
  page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);

test("a page that nobody sees holds no connection, and goes on when it is seen", () =>
  withFake({ rate: 5 }, "", async (page, fake) => {
    await page.clock.install();
    await page.goto(`${fake.url}/console/#/users/${fake.nameOf(0)}`);
    await page.locator(".drawer h2").first().waitFor();
    await open(page, fake, 2);
    await shows(page, true);
    await page.clock.fastForward(6_000);
    await open(page, fake, 0);
    await shows(page, false);
    await open(page, fake, 2);
    assert.deepEqual(await page.locator(".bar").allTextContents(), []);
  }));

test("a feed that never was live misses nothing", () =>
  withFake({ rate: 0, ready: new Promise(() => {}) }, "#/feed", async (page, fake) => {
    await page.clock.install();
    await seen(page, "The server looks for the end of the log");
    await shows(page, true);
    await page.clock.fastForward(6_000);
    await open(page, fake, 0);
    delete fake.ready;
    await shows(page, false);
    await seen(page, "No change yet");
    assert.equal(await page.locator(".feed .row.gap").count(), 0);
  }));

test("a page that was opened in the background holds no connection until it is seen", () =>
  withFake({ rate: 5 }, "", async (page, fake) => {
    await page.addInitScript(() => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => !globalThis.isSeen });
    });
    await page.clock.install();
    await page.goto(`${fake.url}/console/#/users/${fake.nameOf(0)}`);
    await page.reload(); // the address alone does not load the page again
    await page.locator(".drawer h2").first().waitFor();
    await page.clock.fastForward(6_000);
    await open(page, fake, 0);
    await page.evaluate(() => {
      globalThis.isSeen = true;
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await open(page, fake, 2);
  }));

test("a network that comes back opens no second stream beside one that lives", () =>
  withFake(
    { rate: 20 },
    "#/feed",
    async (page, fake) => {
      await page.locator(".feed .rows .row").nth(5).waitFor();
      await fake.down();
      await page.locator(".bar.lost").waitFor();
      await fake.up();
      await page.locator(".bar.lost").waitFor({ state: "detached" });
      await open(page, fake, 2);
      const asked = () => fake.requests.filter((r) => /console\/api\/(feed|overview)/.test(r)).length;
      const before = asked();
      await page.evaluate(() => window.dispatchEvent(new Event("online")));
      // The page asks for this behind what it asks for by then.
      await page.evaluate(() => fetch("console/api/me"));
      assert.equal(asked(), before);
    },
    { allowed: [/Failed to load resource/, /net::ERR/] },
  ));

test("a feed that stands still keeps what is read, however much comes", () =>
  withFake({ rate: 5000 }, "#/feed", async (page) => {
    await page.locator(".feed .rows .row").nth(5).waitFor();
    await page.keyboard.press("p");
    await page.locator(".more").waitFor();
    const top = await page.locator(".feed .rows .row").first().textContent();
    await page.waitForFunction(
      () => Number.parseInt(document.querySelector(".more").textContent.replace(/\D/g, ""), 10) > 25_000,
    );
    assert.equal(await page.locator(".feed .rows .row").first().textContent(), top);
    await page.locator(".more").click();
    await page.waitForFunction((top) => document.querySelector(".feed .rows .row").textContent !== top, top);
  }));

test("an erased user is told from an unknown one, also after a reload", () =>
  withFake({}, "", async (page, fake) => {
    fake.erased.add(fake.nameOf(0));
    await page.goto(`${fake.url}/console/#/users/${fake.nameOf(0)}`);
    await page.locator(".says.erased", { hasText: "The last copy in a topic is gone on 2026-12-01" }).waitFor();
    assert.equal(await page.getByText("Nothing is known of this user").count(), 0);
  }));

test("invisible characters of a name are shown, but those of an emoji", () =>
  withFake({ ids: "text" }, "", async (page, fake) => {
    const look = async (name, text) => {
      await page.goto(`${fake.url}/console/#/users/${encodeURIComponent(name)}`);
      await page.locator(".drawer h2", { hasText: new RegExp(`^${text}$`) }).waitFor();
    };
    await look("ann\u200b", "ann‹U\\+200B›");
    await look("\u202eabc", "‹U\\+202E›abc");
    await look("👩‍👩‍👧", "👩‍👩‍👧");
  }));
