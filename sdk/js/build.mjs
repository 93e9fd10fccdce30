// Builds dist: modules with declarations, and the minified bundle for pages without a bundler.
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
rmSync(`${here}dist`, { recursive: true, force: true });
execFileSync(process.execPath, [`${here}node_modules/typescript/bin/tsc`, "-p", "tsconfig.build.json"], {
  cwd: here,
  stdio: "inherit",
});
await build({
  absWorkingDir: here,
  entryPoints: ["src/index.ts"],
  outfile: "dist/stillhere.min.js",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  banner: { js: "// Stillhere client, Apache-2.0" },
});
