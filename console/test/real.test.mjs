// The console against the program itself: every screen, and five tasks of people who run a pipeline. The clicks and
// seconds of each task are reported.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { launch, visit } from "./drive.mjs";
import { Real } from "./real.mjs";

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

for (const ids of ["int", "text"])
  describe(`with --ids ${ids}`, () => {
    const names = ids === "int" ? ["101", "102", "103", "104"] : ["ann", "bob@example.org", "carol/1", "dave"];
    const [silent, hides, stays, lost] = names;
    const device = (user) => ({ user_id: user, device_id: 7, device_kind: "mobile" });
    let real;
    let heard;
    before(async () => {
      real = await Real.start([`--ids=${ids}`]);
      heard = await real.keep("gw-1", [device(silent)]);
      await real.keep("gw-2", [device(hides), device(stays)]);
      const ends = await real.keep("gw-3", [device(lost)]);
      ends(); // gw-3 falls silent: after gateway_silence it is lost
    });
    after(() => real?.end());

    /** A task from the first screen on: what is clicked counts, and how long it took. */
    const task = (name, act) =>
      test(name, (t) =>
        visit(browser, `${real.url}/console/`, async (page) => {
          await page.locator(".tile.online .value").waitFor();
          let clicks = 0;
          const click = async (locator) => {
            clicks++;
            await locator.click();
          };
          const began = performance.now();
          await act(page, click);
          t.diagnostic(`${clicks} clicks, ${((performance.now() - began) / 1000).toFixed(1)} s`);
        }),
      );
    const screen = (page, name) => page.getByRole("navigation").getByRole("link", { name });
    const row = (page, name) =>
      page.getByRole("row").filter({ has: page.getByRole("gridcell", { name, exact: true }) });

    task("who is online now", async (page, click) => {
      await click(page.locator(".tile.online"));
      await row(page, stays).locator(".state.online").waitFor();
      await page.locator(".tools .total", { hasText: /users?/ }).waitFor();
    });

    task("what the feed shows of a user who falls silent, and why", async (page, click) => {
      await click(screen(page, "Feed"));
      await page.locator(".feed .tools").waitFor();
      await page.getByText("No change yet").or(page.locator(".feed .rows .row").first()).first().waitFor();
      heard();
      const change = page.locator(".feed .rows .row", { hasText: silent }).filter({ has: page.locator(".state.away") });
      await click(change.getByRole("link"));
      await page.locator(".why .verdict", { hasText: "silent" }).waitFor();
      await page.locator(".why-axis", { hasText: "is present for" }).waitFor();
      await page.locator(".why .facts", { hasText: "presence.heartbeats" }).waitFor();
    });

    task("why user X went away, from the history", async (page, click) => {
      await click(screen(page, "Users"));
      await page.locator("#search").fill(silent);
      await page.keyboard.press("Enter");
      const change = page.locator(".history tbody tr").filter({ has: page.locator(".state.away") });
      await click(change.first().getByRole("button"));
      await page.locator(".why-axis", { hasText: "is present for" }).waitFor();
      assert.match(await page.locator(".why pre").textContent(), /Why: nothing was heard/);
      await page.locator(".days rect.online").first().waitFor({ state: "attached" });
    });

    task("which gateway was lost", async (page) => {
      await page.locator("tr.lost", { hasText: "gw-3" }).waitFor();
      await page.locator("tr.alive", { hasText: "gw-2" }).waitFor();
    });

    task("hide user Y", async (page, click) => {
      await click(screen(page, "Users"));
      await click(row(page, hides));
      await click(page.getByRole("button", { name: "Hide", exact: true }));
      await click(page.getByRole("button", { name: `Hide ${hides}` }));
      await page.locator(".says.hidden").waitFor();
      await click(page.getByRole("button", { name: "Hidden", exact: true }));
      await row(page, hides).waitFor();
      await page.getByRole("button", { name: "Show", exact: true }).click();
      await page.getByRole("button", { name: `Show ${hides}` }).click();
      await page.locator(".says.hidden").waitFor({ state: "detached" });
    });

    task("what a debounce of 60 s would change", async (page, click) => {
      await click(screen(page, "What if"));
      await page.getByLabel("offline-debounce").fill("60s");
      await click(page.getByRole("button", { name: "Run the backtest" }));
      await page.locator(".result tr", { hasText: "Changes" }).waitFor();
      await page.locator(".result", { hasText: "as published" }).waitFor();
    });

    task("a beat and a watch from the page", async (page, click) => {
      await click(screen(page, "Try"));
      await page.getByLabel(ids === "int" ? "User id" : "User name").fill("4711");
      await click(page.getByRole("button", { name: "Watch", exact: true }));
      await page
        .getByText(/"type":"snapshot"/)
        .first()
        .waitFor();
      await click(page.getByRole("button", { name: "Beat", exact: true }));
      await page.getByText(/202 /).first().waitFor();
      await page.locator(".said .state.online").waitFor();
      await click(page.getByRole("button", { name: "Connect a socket" }));
      await page.getByText("connecting is the first beat").waitFor();
    });

    task("erase a user", async (page, click) => {
      await page.goto(`${real.url}/console/#/users/${encodeURIComponent(lost)}`);
      await click(page.getByRole("button", { name: "Erase", exact: true }));
      await page.getByLabel(`Type ${lost} to confirm`).fill(lost);
      await click(page.getByRole("button", { name: `Erase ${lost}` }));
      await page.locator(".says.erased", { hasText: "The last copy in a topic is gone on" }).waitFor();
      await page.getByText("No change is kept").waitFor();
      await page.reload();
      await page.locator(".says.erased", { hasText: "The last copy in a topic is gone on" }).waitFor();
    });
  });

test("the feed says that changes are missing after the server and its Redis were killed, and goes on", () =>
  withReal(async (real) => {
    const row = (page, user, state) =>
      page.locator(".feed .rows .row").filter({ hasText: user }).locator(`.state.${state}`).first().waitFor();
    await visit(
      browser,
      `${real.url}/console/#/feed`,
      async (page) => {
        await page.getByText("No change yet").waitFor();
        await real.send({ beats: [{ user_id: "7701", device_id: 7 }] });
        await row(page, "7701", "online");
        await real.restart();
        await page.locator(".feed .row.gap", { hasText: "are missing" }).waitFor();
        await real.send({ beats: [{ user_id: "7702", device_id: 7 }] });
        await row(page, "7702", "online");
      },
      { allowed: [/Failed to load resource/, /net::ERR/] },
    );
  }));

async function withReal(act) {
  const real = await Real.start();
  try {
    await act(real);
  } finally {
    await real.end();
  }
}
