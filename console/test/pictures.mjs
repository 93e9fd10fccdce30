// Makes the pictures of every screen, light and dark, in docs/pictures: npm run pictures. They show the fake server, so
// that they are nearly the same in every run.
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import UPNG from "upng-js";
import { launch, visit } from "./drive.mjs";
import { Fake } from "./fake.mjs";

const out = fileURLToPath(new URL("../../docs/pictures/", import.meta.url));
mkdirSync(out, { recursive: true });
const browser = await launch();
const fake = await Fake.start({ users: 84_210, rate: 12 });
const user = fake.nameOf(3);
const away = fake.history(user).find((c) => c.cause === "silent" && c.to === "away").event_id;
fake.hidden.add(fake.nameOf(2));

/** The same picture with at most 96 colors. */
function small(png) {
  const image = UPNG.decode(png.buffer.slice(png.byteOffset, png.byteOffset + png.length));
  return Buffer.from(UPNG.encode(UPNG.toRGBA8(image), image.width, image.height, 96));
}

const ready = (page, selector) => page.locator(selector).first().waitFor();
const screens = {
  now: ["#/now", (page) => ready(page, ".tile.online svg")],
  users: ["#/users", (page) => ready(page, ".row .state.away")],
  user: [`#/users/${user}?event=${away}`, (page) => ready(page, ".why-axis")],
  feed: ["#/feed", (page) => page.waitForFunction(() => document.querySelectorAll(".feed .rows .row").length > 26)],
  whatif: [
    "#/whatif?offline-debounce=1m&away-ttl=10m",
    async (page) => {
      await page.getByRole("button", { name: "Run the backtest" }).click();
      await ready(page, ".result");
    },
  ],
  try: [
    "#/try",
    async (page) => {
      await page.getByLabel("User id").fill(user);
      await page.getByRole("button", { name: "Watch", exact: true }).click();
      await page.getByText('"type":"snapshot"').waitFor();
      await page.getByRole("button", { name: "Beat", exact: true }).click();
      await page.getByText("202").first().waitFor();
      await page.getByRole("button", { name: "Python" }).click();
    },
  ],
};
let sum = 0;
try {
  for (const colorScheme of ["light", "dark"])
    for (const [name, [hash, prepare]] of Object.entries(screens)) {
      const path = `${out}${name}-${colorScheme}.png`;
      let picture;
      await visit(
        browser,
        `${fake.url}/console/${hash}`,
        async (page) => {
          await prepare(page);
          picture = small(await page.screenshot());
        },
        { colorScheme, viewport: { width: 1360, height: 850 } },
      );
      writeFileSync(path, picture);
      sum += picture.length;
      console.log(`${path.slice(out.length)} ${picture.length} bytes`);
    }
  console.log(`${sum} bytes in all`);
  if (sum > 1_500_000) throw new Error("the pictures are too large");
} finally {
  await browser.close();
  await fake.end();
}
