// Checks the package as others get it: its files, its size, that it loads, and that the examples compile against it.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import "./build.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = `${here}.build/consumer`;
const most = 9000;

function run(program, args, cwd = here) {
  return execFileSync(program, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
}

const size = gzipSync(readFileSync(`${here}dist/stillhere.min.js`), { level: 9 }).length;
console.log(`dist/stillhere.min.js: ${size} bytes compressed, of ${most}`);
if (size >= most) throw new Error("the bundle is too large");

rmSync(out, { recursive: true, force: true });
mkdirSync(`${out}/node_modules/@stillhere/client`, { recursive: true });
const [{ filename, files }] = JSON.parse(
  run("npm", ["pack", "--json", "--ignore-scripts", `--pack-destination=${out}`]),
);
const packed = files.map(({ path }) => path);
console.log(`${filename}: ${packed.length} files`);
const expected = ["LICENSE", "README.md", "dist/index.d.ts", "dist/index.js", "dist/stillhere.min.js", "package.json"];
for (const path of expected) if (!packed.includes(path)) throw new Error(`the package lacks ${path}`);
// A reader of the package has no checkout.
for (const [, to] of readFileSync(`${here}README.md`, "utf8").matchAll(/\]\(([^)\s]+)\)/g))
  if (!/^(https:|#)/.test(to)) throw new Error(`README.md: ${to} is not in the package`);
for (const path of packed)
  if (!/^(LICENSE|README\.md|package\.json|(dist|src)\/[a-z.]+\.(js|ts))$/.test(path))
    throw new Error(`the package has ${path}`);

run("tar", ["-xzf", `${out}/${filename}`, "--strip-components=1", "-C", `${out}/node_modules/@stillhere/client`]);
for (const from of ["@stillhere/client", "@stillhere/client/min"]) {
  const text = `import { connect, Problem } from "${from}"; if (!connect || !Problem) throw 1; connect().watch(["1"]);`;
  run(process.execPath, ["--input-type=module", "-e", text], out);
}
const examples = readFileSync(`${here}README.md`, "utf8").matchAll(/```ts\n(.*?)```/gs);
for (const [i, [, text]] of [...examples].entries()) writeFileSync(`${out}/example${i}.ts`, text);
const compilerOptions = {
  strict: true,
  noEmit: true,
  module: "nodenext",
  target: "es2022",
  jsx: "react-jsx",
  types: [],
};
copyFileSync(`${here}examples/react.tsx`, `${out}/react.tsx`);
writeFileSync(`${out}/tsconfig.json`, JSON.stringify({ compilerOptions }));
writeFileSync(`${out}/package.json`, '{"type":"module"}');
run(process.execPath, [`${here}node_modules/typescript/bin/tsc`, "-p", "."], out);
