// Runs the tests, in Node and in Chromium, against the real server. STILLHERE is its program; without it
// the program is built. Names of test files after -- choose some of them.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = `${here}.build`;
mkdirSync(out, { recursive: true });
let program = process.env.STILLHERE && resolve(process.env.STILLHERE);
if (!program) {
  program = `${out}/stillhere`;
  execFileSync("go", ["build", "-o", program, "./cmd/stillhere"], { cwd: `${here}../..`, stdio: "inherit" });
}
if (!existsSync(`${here}dist/stillhere.min.js`)) await import("./build.mjs");
const wanted = process.argv.slice(2);
const names = readdirSync(`${here}test`).filter((name) => name.endsWith(".test.ts"));
const chosen = names.filter((name) => wanted.length === 0 || wanted.some((part) => name.includes(part)));
await build({
  absWorkingDir: here,
  entryPoints: chosen.map((name) => `test/${name}`),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  sourcemap: "inline",
  external: ["playwright-core"],
});
// The page of the example in React, with the development build: that one mounts twice in StrictMode, and warns.
await build({
  absWorkingDir: here,
  entryPoints: ["test/react.page.tsx"],
  outdir: out,
  bundle: true,
  format: "esm",
  jsx: "automatic",
  target: "es2022",
  define: { "process.env.NODE_ENV": '"development"' },
});
const files = chosen.map((name) => `${out}/${name.replace(/\.ts$/, ".mjs")}`);
// Node has had the global WebSocket without the flag since version 22.
const { status } = spawnSync(
  process.execPath,
  [
    "--experimental-websocket",
    "--enable-source-maps",
    "--test",
    "--test-concurrency=8",
    "--test-timeout=240000",
    "--test-reporter=spec",
    ...files,
  ],
  { stdio: "inherit", env: { ...process.env, STILLHERE: program, NODE_NO_WARNINGS: "1" } },
);
process.exit(status ?? 1);
