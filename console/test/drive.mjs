// Chromium, with one page for each test. What a page logs as an error, throws, or is refused by the policy of its
// content fails the test.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const programs = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** How long a condition may take on a busy machine. */
export const within = 60_000;

export function launch() {
  const executablePath = process.env.CHROMIUM ?? programs.find(existsSync);
  if (!executablePath) throw new Error("no Chromium here: set CHROMIUM to its program");
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
}

/** Runs act with a page, and then checks what the page complained about. allowed are complaints that are expected. */
export async function visit(browser, url, act, { allowed = [], ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  context.setDefaultTimeout(within);
  const page = await context.newPage();
  const faults = [];
  const complain = (text) => allowed.some((part) => part.test(text)) || faults.push(text);
  page.on("pageerror", (error) => complain(error.stack ?? String(error)));
  page.on("console", (message) => message.type() === "error" && complain(message.text()));
  try {
    await page.goto(url);
    await act(page, context);
    assert.deepEqual(faults, []);
  } finally {
    await context.close();
  }
}

/** Fails if the page breaks a rule of WCAG 2.1 A or AA that axe knows. */
export async function accessible(page, what) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run({
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
    });
    return violations.map(
      (v) =>
        `${v.id}: ${v.help}: ${v.nodes
          .map((n) => `${n.html} ${n.any[0]?.message ?? ""}`)
          .slice(0, 3)
          .join(" | ")}`,
    );
  });
  assert.deepEqual(found, [], what);
}

/** When the page was painted first, in milliseconds after it was asked for. */
export const painted = (page) =>
  page.evaluate(
    () =>
      new Promise((done) =>
        new PerformanceObserver((list) => done(list.getEntries()[0].startTime)).observe({
          type: "paint",
          buffered: true,
        }),
      ),
  );

/** Frames a second of so many frames, and within how many milliseconds 99 % of them came. */
export async function frames(page, count) {
  const times = await page.evaluate(
    (count) =>
      new Promise((done) => {
        const times = [];
        const frame = (now) => {
          times.push(now);
          if (times.length < count) requestAnimationFrame(frame);
          else done(times);
        };
        requestAnimationFrame(frame);
      }),
    count,
  );
  const gaps = times.slice(1).map((at, i) => at - times[i]);
  gaps.sort((a, b) => a - b);
  return {
    rate: 1000 / ((times.at(-1) - times[0]) / (times.length - 1)),
    most: gaps[Math.floor(gaps.length * 0.99)],
  };
}

/** Waits until a text is in the page. */
export const seen = (page, text) => page.getByText(text).first().waitFor();
