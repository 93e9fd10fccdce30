// Builds dist, which is committed and embedded. The same sources give the same bytes on every machine:
// package.json pins each tool to one version.
import { copyFileSync, mkdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = process.argv[2] ?? `${here}dist`;
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { console: "src/main.tsx" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome123", "firefox120", "safari17.5"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  banner: { js: "// Stillhere console, Apache-2.0. Contains Preact, MIT, (c) Jason Miller." },
});
for (const name of ["index.html", "favicon.svg"]) copyFileSync(`${here}src/${name}`, `${out}/${name}`);
