// Checks that dist is what the sources give, byte for byte.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const [committed, fresh] = [`${here}dist/`, `${here}.build/dist/`];
execFileSync(process.execPath, [`${here}build.mjs`, fresh], { stdio: "inherit" });
const names = new Set([...readdirSync(committed), ...readdirSync(fresh)]);
for (const name of names) {
  let same = false;
  try {
    same = readFileSync(committed + name).equals(readFileSync(fresh + name));
  } catch {
    // It is in one of them only.
  }
  if (!same) throw new Error(`dist/${name} is not what the sources give: npm run build, and commit dist`);
}
