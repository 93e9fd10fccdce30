// The size is a limit. Times depend on the machine: they are reported.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { frames, launch, painted, visit } from "./drive.mjs";
import { Fake } from "./fake.mjs";

const dist = new URL("../dist/", import.meta.url);

test("the whole console is under 60 kB compressed", (t) => {
  const sizes = readdirSync(dist).map((name) => [
    name,
    gzipSync(readFileSync(new URL(name, dist)), { level: 9 }).length,
  ]);
  const sum = sizes.reduce((all, [, size]) => all + size, 0);
  t.diagnostic(`${sum} bytes: ${sizes.map(([name, size]) => `${name} ${size}`).join(", ")}`);
  assert.ok(sum < 60_000, `${sum} bytes`);
});

test("nothing of the console comes from elsewhere", () => {
  for (const name of readdirSync(dist)) {
    const text = readFileSync(new URL(name, dist), "utf8").replaceAll("http://www.w3.org/", "");
    assert.doesNotMatch(text, /https?:\/\/[a-z]/i, name);
    assert.doesNotMatch(text, /\beval\(|new Function\(/, name);
  }
});

test("the feed shows 1,000 changes a second and goes on moving", async (t) => {
  const browser = await launch();
  const fake = await Fake.start({ users: 100_000, rate: 1000 });
  try {
    await visit(browser, `${fake.url}/console/#/feed`, async (page) => {
      const paint = await painted(page);
      t.diagnostic(`first paint after ${Math.round(paint)} ms`);
      await page.waitForFunction(() => {
        const rate = Number(document.querySelector(".feed .total b")?.textContent.replaceAll(",", ""));
        return rate > 900;
      });
      const { rate, most } = await frames(page, 180);
      t.diagnostic(`${rate.toFixed(1)} frames a second; 99 % of the frames within ${most.toFixed(1)} ms`);
      assert.ok((await page.locator(".feed .row").count()) < 60);
    });
  } finally {
    await browser.close();
    await fake.end();
  }
});
