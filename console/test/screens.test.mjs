// Every screen with nobody, 50 and 100,000 users, in both themes.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { accessible, launch, seen, visit } from "./drive.mjs";
import { Fake } from "./fake.mjs";

let browser;
const fakes = {};
before(async () => {
  browser = await launch();
  for (const users of [0, 50, 100_000]) fakes[users] = await Fake.start({ users, rate: users ? 20 : 0 });
});
after(async () => {
  await browser?.close();
  for (const fake of Object.values(fakes)) await fake.end();
});

const format = (n) => n.toLocaleString("en-US");

for (const users of [0, 50, 100_000])
  describe(`with ${users} users`, () => {
    const colorScheme = users === 50 ? "light" : "dark";
    const open = (hash, act, options) =>
      visit(browser, `${fakes[users].url}/console/${hash}`, (page, context) => act(page, fakes[users], context), {
        colorScheme,
        ...options,
      });

    test("Now has counts, kinds, gateways, partitions, the policy and health", () =>
      open("", async (page, fake) => {
        const { counts } = fake.overview(false);
        await page.locator(".tile.online .value", { hasText: format(counts.online) }).waitFor();
        await page.locator(".tile.away .value", { hasText: format(counts.away) }).waitFor();
        await page.locator(".numbers svg.spark").nth(4).waitFor(); // it takes two overviews, 5 s apart
        assert.equal(await page.locator(".partitions tbody tr").count(), 16);
        await page.locator(".health", { hasText: "connection refused" }).waitFor();
        const verdict = page.locator(".now > :first-child");
        assert.match(await verdict.textContent(), /^Not well: postgres is not ready: .*connection refused/);
        if (users > 0) {
          await verdict.locator("summary").click();
          await seen(page, /gateway gw-eu-5 is lost since/);
        }
        await page.locator(".settings", { hasText: "online-ttl" }).waitFor();
        if (users === 0) await seen(page, "No gateway has named itself");
        else assert.match(await page.locator("tr.lost").textContent(), /gw-eu-5lost/);
        await accessible(page, "Now");
      }));

    test("Users lists all of them, and draws only those in view", () =>
      open("#/users", async (page, fake) => {
        if (users === 0) {
          await seen(page, "Nobody is online");
          return accessible(page, "Users");
        }
        await page.locator(".tools .total", { hasText: `${format(users)} users` }).waitFor();
        await page.getByRole("gridcell", { name: fake.nameOf(0), exact: true }).waitFor();
        assert.ok((await page.locator(".row").count()) < 60);
        // To the end by keyboard.
        await page.locator(".users .grid .scroll").focus();
        await page.keyboard.press("End");
        await page.getByRole("gridcell", { name: fake.nameOf(users - 1), exact: true }).waitFor();
        assert.ok((await page.locator(".row").count()) < 60);
        await page.keyboard.press("Enter");
        await page.locator(".drawer h2", { hasText: fake.nameOf(users - 1) }).waitFor();
        await page.keyboard.press("Escape");
        await page.locator(".drawer").waitFor({ state: "detached" });
        await accessible(page, "Users");
      }));

    test("Users are found by the beginning of the id, filtered and sorted", () =>
      open("#/users", async (page, fake) => {
        await page.locator("#search").waitFor();
        await page.keyboard.press("/");
        await page.keyboard.type("1021");
        if (users === 0) {
          await seen(page, "No user in this list begins with “1021”");
          await page.getByRole("link", { name: "Open 1021 anyway" }).click();
          await seen(page, "Nothing is known of this user");
          return;
        }
        await page.locator(".tools .total", { hasText: users === 50 ? "1 user" : "users" }).waitFor();
        await page.getByRole("gridcell", { name: fake.nameOf(3), exact: true }).waitFor();
        await page.locator("#search").fill("");
        await page.getByRole("button", { name: "Away", exact: true }).click();
        await page.locator(".row:not(.head) .state.away").first().waitFor();
        await page.waitForFunction(() => document.querySelectorAll(".row:not(.head) .state.online").length === 0);
        await page.getByRole("button", { name: "For" }).click();
        await page.waitForURL(/sort=since/);
        await page.locator("[aria-sort=ascending]", { hasText: "For" }).waitFor();
      }));

    test("the feed shows changes with their cause, pauses, and counts what is missed", () =>
      open("#/feed", async (page) => {
        if (users === 0) {
          await seen(page, "No change yet");
          return accessible(page, "Feed");
        }
        await page.locator(".feed .row .cause", { hasText: "first beat" }).first().waitFor();
        await accessible(page, "Feed");
        await page.keyboard.press("p");
        const more = page.getByRole("button", { name: /^\d+ more$/ });
        await more.waitFor();
        const top = await page.locator(".feed .rows .row").first().textContent();
        await page.waitForFunction(() => Number.parseInt(document.querySelector(".more")?.textContent ?? "0", 10) > 10);
        assert.equal(await page.locator(".feed .rows .row").first().textContent(), top);
        await more.click();
        await more.waitFor({ state: "detached" });
        await page.getByRole("button", { name: "Offline", exact: true }).click();
        await page.waitForURL(/state=offline/);
        await page.locator(".feed .rows .state.offline").first().waitFor();
        // The rows of before are gone with the next picture.
        await page.waitForFunction(() => document.querySelectorAll(".feed .rows .state.online").length === 0);
        assert.ok((await page.locator(".feed .rows .state.offline").count()) > 0);
      }));

    test("What if draws another policy and runs the backtest", () =>
      open("#/whatif", async (page) => {
        await page.getByLabel("offline-debounce").fill("60s");
        await page.waitForURL(/offline-debounce=60s/);
        assert.match(await page.locator(".last-beat svg").nth(1).getAttribute("aria-label"), /after 1m30s away/);
        assert.match(await page.locator(".last-beat svg").nth(0).getAttribute("aria-label"), /after 45s away/);
        await page.getByRole("button", { name: "Run the backtest" }).click();
        await page.locator(".result", { hasText: "1,031" }).waitFor();
        await accessible(page, "What if");
        await page.getByLabel("online-ttl").fill("soon");
        await seen(page, "must be a duration");
        assert.ok(await page.getByRole("button", { name: "Run the backtest" }).isDisabled());
      }));

    test("Try sends a beat, watches, and has the same in four languages", () =>
      open("#/try", async (page, fake) => {
        await page.getByLabel("User id").fill("42");
        await page.getByRole("button", { name: "Beat", exact: true }).click();
        await seen(page, /202 \{"accepted":1\}/);
        assert.deepEqual(JSON.parse(fake.writes.at(-1)[1]).beats, [
          { user_id: "42", device_id: 7, device_kind: "web" },
        ]);
        await page.getByRole("button", { name: "Watch", exact: true }).click();
        await seen(page, /"type":"snapshot"/);
        for (const [language, part] of [
          ["Go", "package main"],
          ["JavaScript", "@stillhere/client"],
          ["Python", "urllib.request"],
          ["curl", "curl -d"],
        ]) {
          await page.getByRole("button", { name: language, exact: true }).click();
          await page.locator("pre.code", { hasText: part }).waitFor();
        }
        await accessible(page, "Try");
      }));
  });

describe("on a phone", () => {
  const viewport = { width: 390, height: 844 };
  const open = (hash, act) =>
    visit(browser, `${fakes[50].url}/console/${hash}`, act, { viewport, colorScheme: "light" });
  /** That the page scrolls inside its frame alone, and that an element is in view from side to side. */
  const fits = async (page, what) => {
    const { x, width } = await page.locator(what).first().boundingBox();
    assert.ok(x >= 0 && x + width <= viewport.width, `${what} is from ${x} to ${x + width}`);
    const document = () => globalThis.document.scrollingElement;
    const size = await page.evaluate(`(${document})().scrollWidth + " x " + (${document})().scrollHeight`);
    assert.equal(size, "390 x 844");
  };

  test("Now does not scroll into blank", () =>
    open("#/now", async (page) => {
      await page.locator("tr.lost").waitFor();
      await fits(page, ".tile.online");
    }));

  test("Users and the feed keep what one looks for", () =>
    open("#/users", async (page) => {
      await page.locator(".row:not(.head) .state").first().waitFor();
      await fits(page, ".row:not(.head) .n >> nth=1");
      await page.goto(`${fakes[50].url}/console/#/feed`);
      await page.locator(".feed .row .cause", { hasText: "first beat" }).first().waitFor();
      await fits(page, ".feed .rows .row .cause");
    }));

  test("Why is in reach, and its answer in view", () =>
    open("#/users/1021", async (page) => {
      await page.getByRole("button", { name: /^Why / }).first().waitFor();
      await fits(page, ".history button");
      await page.getByRole("button", { name: /^Why / }).first().click();
      await page.locator(".why-axis", { hasText: "is present for 45" }).waitFor();
      await fits(page, ".why-axis");
      const size = await page
        .locator(".why-axis text")
        .first()
        .evaluate((text) => text.getBoundingClientRect().height);
      assert.ok(size > 10, `its text is ${size} high`);
    }));
});

describe("a user", () => {
  const open = (hash, act, options) =>
    visit(browser, `${fakes[50].url}/console/${hash}`, (page) => act(page, fakes[50]), options);

  test("has state, devices, days, history, why and followers", () =>
    open("#/users/1021", async (page) => {
      await page.locator(".drawer .state.away").first().waitFor();
      assert.equal(await page.locator(".days svg").count(), 7);
      assert.ok((await page.locator(".days rect.online").count()) > 5);
      await page.getByRole("button", { name: /^Why / }).first().click();
      await page.locator(".why .verdict", { hasText: "silent" }).waitFor();
      await page.locator(".why-axis", { hasText: "is present for 45" }).waitFor();
      await page.locator(".why .facts", { hasText: "presence.heartbeats 5:118204" }).waitFor();
      await page.waitForURL(/event=/);
      await accessible(page, "a user");
      await page.getByRole("button", { name: "Older changes" }).click();
      await page.waitForFunction(() => document.querySelectorAll(".history tbody tr").length > 60);
    }));

  test("hides and shows after a confirmation that says what will happen", () =>
    open("#/users/1007", async (page, fake) => {
      await page.getByRole("button", { name: "Hide", exact: true }).click();
      await seen(page, "Others see no state, no times and no devices within a second");
      await accessible(page, "a confirmation");
      await page.keyboard.press("Escape");
      await page.locator("dialog").waitFor({ state: "detached" });
      assert.deepEqual(
        fake.writes.filter(([what]) => what === "nobody"),
        [],
      );
      await page.getByRole("button", { name: "Hide", exact: true }).click();
      await page.getByRole("button", { name: "Hide 1007" }).click();
      await page.locator(".says.hidden").waitFor();
      assert.deepEqual(fake.writes.at(-1), ["nobody", "1007"]);
      await page.getByRole("button", { name: "Show", exact: true }).click();
      await page.getByRole("button", { name: "Show 1007" }).click();
      await page.locator(".says.hidden").waitFor({ state: "detached" });
    }));

  test("is exported as a file, and erased only after its id was typed", () =>
    open("#/users/1028", async (page, fake) => {
      await page.getByRole("button", { name: "Export", exact: true }).click();
      const download = page.waitForEvent("download");
      await page.getByRole("button", { name: "Export 1028" }).click();
      assert.equal((await download).suggestedFilename(), "1028.jsonl");
      await seen(page, /Exported \d+ lines/);
      await page.getByRole("button", { name: "Erase", exact: true }).click();
      const erase = page.getByRole("button", { name: "Erase 1028" });
      assert.ok(await erase.isDisabled());
      await page.getByLabel("Type 1028 to confirm").fill("1028");
      await erase.click();
      await page.locator(".says.erased", { hasText: "2026-12-01" }).waitFor();
      assert.deepEqual(fake.writes.at(-1), ["erase", "1028"]);
      // Later the receipt is gone, and the export says what is left.
      await page.reload();
      await page.locator(".says.erased", { hasText: "The last copy in a topic is gone on 2026-12-01" }).waitFor();
      await accessible(page, "an erased user");
    }));

  test("says when the answer is stale, unsure, or of a hidden user", () =>
    open("#/users/1035", async (page, fake) => {
      fake.stale.add("1035");
      fake.unsure.add("1035");
      fake.hidden.add("1035");
      await page.reload();
      await seen(page, "the partition of this user is behind");
      await seen(page, "connected to a gateway that was lost");
      await seen(page, "Others see no state");
      await accessible(page, "a stale user");
    }));

  test("is addressed by name in text mode, whatever the name is", async () => {
    const fake = await Fake.start({ users: 60, ids: "text" });
    try {
      await visit(browser, `${fake.url}/console/#/users/${encodeURIComponent("bob.1@example.org")}`, async (page) => {
        await page.locator(".drawer h2", { hasText: "bob.1@example.org" }).waitFor();
        await page.locator(".drawer .state").first().waitFor();
        await page.getByLabel("Tenant").fill("acme");
        await page.keyboard.press("Enter");
        await page.waitForURL(/tenant=acme/);
        await page.locator(".row:not(.head) .state").first().waitFor();
        assert.ok(fake.requests.some((r) => /console\/api\/users\?.*tenant=acme/.test(r)));
      });
    } finally {
      await fake.end();
    }
  });
});
