// What the page shows when the server refuses, is away, or is silent; keys, themes, and what is kept.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, launch, seen, visit } from "./drive.mjs";
import { Fake } from "./fake.mjs";

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

// The browser itself reports each of these answers.
const allowed = [/Failed to load resource/, /net::ERR/];

async function withFake(options, act, more) {
  const fake = await Fake.start({ users: 50, rate: 10, ...options });
  try {
    await visit(browser, `${fake.url}/console/`, (page, context) => act(page, fake, context), { allowed, ...more });
  } finally {
    await fake.end();
  }
}

test("401 asks for a token, which this tab alone keeps", () =>
  withFake({ token: "right" }, async (page, fake, context) => {
    await seen(page, "Sign in with a token");
    await accessible(page, "the dialog of the token");
    assert.equal(await page.getByRole("alert").count(), 0, "nobody has done anything wrong yet");
    await seen(page, "Not signed in");
    await page.getByRole("textbox", { name: "Token" }).fill("wrong");
    await page.getByRole("button", { name: "Use token" }).click();
    await page.locator("#token-refused", { hasText: "a token with scope presence:observe is needed" }).waitFor();
    await page.getByRole("textbox", { name: "Token" }).fill("Bearer right");
    await page.getByRole("button", { name: "Use token" }).click();
    await page.locator(".tile.online .value").waitFor();
    await page.reload();
    await page.locator(".tile.online .value").waitFor();
    assert.ok(!JSON.stringify(await context.storageState()).includes("right"));
    assert.ok(
      fake.requests.every((r) => !r.includes("right")),
      "the token is in no URL",
    );
    const other = await context.newPage();
    await other.goto(`${fake.url}/console/`);
    await other.getByText("Sign in with a token").waitFor();
    // A token that ends while the page is open asks again.
    fake.token = "other";
    await page.goto(`${fake.url}/console/#/users`);
    await seen(page, "Use another token");
  }));

test("403 says which scope is needed", () =>
  withFake({ status: 403 }, async (page) => {
    await seen(page, "This token may not do that");
    await seen(page, "the token lacks the scope presence:observe");
    await accessible(page, "403");
  }));

test("503 shows the message of the server, and a later try works", () =>
  withFake({ status: 503 }, async (page, fake) => {
    await seen(page, "the pipeline is starting");
    fake.status = 0;
    await page.getByRole("button", { name: "Try again" }).click();
    await page.locator(".tile.online .value").waitFor();
  }));

test("a lost connection is said, what is shown is dated, and it comes back by itself", () =>
  withFake({}, async (page, fake) => {
    await page.locator(".tile.online .value").waitFor();
    await fake.down();
    await page.locator(".bar.lost", { hasText: "What you see is of" }).waitFor();
    await page.locator(".now.old").waitFor();
    await accessible(page, "a lost connection");
    await fake.up();
    await page.locator(".bar.lost").waitFor({ state: "detached" });
    await page.locator(".now:not(.old)").waitFor();
  }));

test("a silent server makes the page stale, then lost", () =>
  withFake({}, async (page, fake) => {
    await page.locator(".tile.online .value").waitFor();
    fake.silent = true;
    await page.locator(".bar.stale", { hasText: "Nothing has come for" }).waitFor();
    await page.locator(".bar.lost", { hasText: "The server is silent" }).waitFor();
    fake.silent = false;
    await page.locator(".bar").waitFor({ state: "detached" });
  }));

test("missing partitions are named, since the sums lack their users", () =>
  withFake({ missing: [3, 9] }, async (page) => {
    await page.locator(".bar.stale", { hasText: "No counts are known of partitions 3, 9" }).waitFor();
  }));

test("the feed says how many changes the server left out", () =>
  withFake({ dropped: 417 }, async (page, fake) => {
    await page.goto(`${fake.url}/console/#/feed`);
    await seen(page, "417 left out by the server");
  }));

test("a refused backtest shows why", () =>
  withFake({}, async (page, fake) => {
    await page.goto(`${fake.url}/console/#/whatif`);
    await page.getByLabel("online-ttl").fill("1ms");
    await page.getByRole("button", { name: "Run the backtest" }).click();
    await seen(page, "online-ttl: must be at least 1s");
  }));

test("keys go to every screen, and ? lists them", () =>
  withFake({}, async (page) => {
    await page.locator(".tile").first().waitFor();
    for (const [key, screen] of [
      ["2", "users"],
      ["3", "feed"],
      ["4", "whatif"],
      ["5", "try"],
      ["1", "now"],
    ]) {
      await page.keyboard.press(key);
      await page.locator(`main.screen-${screen}`).waitFor();
    }
    await page.keyboard.press("?");
    await page.locator("dialog", { hasText: "Search users" }).waitFor();
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({ state: "detached" });
    // The first Tab reaches the link that skips the navigation.
    await page.keyboard.press("Tab");
    await page.locator(".skip:focus").waitFor();
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "content");
  }));

test("colors follow the system until a theme is chosen, which is kept", () =>
  withFake({}, async (page) => {
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.locator(".tile").first().waitFor();
    await page.emulateMedia({ colorScheme: "light" });
    const light = await background();
    await page.emulateMedia({ colorScheme: "dark" });
    const dark = await background();
    assert.notEqual(light, dark);
    await page.getByRole("button", { name: "Light" }).click();
    assert.equal(await background(), light);
    await page.reload();
    await page.locator(".tile").first().waitFor();
    assert.equal(await background(), light);
  }));

test("a narrow window shows one thing at a time", () =>
  withFake(
    {},
    async (page, fake) => {
      await page.goto(`${fake.url}/console/#/users/1021`);
      await page.locator(".drawer .state").first().waitFor();
      assert.ok(await page.locator(".users .list").isHidden());
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `the page is ${wide} px wider than the window`);
      await accessible(page, "a narrow window");
    },
    { viewport: { width: 600, height: 800 } },
  ));
