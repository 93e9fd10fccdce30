import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { Chromium, type Tab } from "./chromium.js";
import { patience, Seen } from "./seen.js";
import { freePort, Server } from "./server.js";

let chromium: Chromium;
let server: Server;
let chat: ChildProcess;
let origin: string;
/** Of the page of the README, and of a page that the server does not allow. */
const others: string[] = [];
const files = createServer((request, response) => {
  const script = request.url?.startsWith("/node_modules/@stillhere/client/");
  response.setHeader("Content-Type", script ? "text/javascript" : "text/html");
  if (script) return response.end(readFileSync(request.url!.replace("/node_modules/@stillhere/client/", "")));
  const [, page] = /```html\n(.*?)```/s.exec(readFileSync("README.md", "utf8"))!;
  return response.end(page!.replace("http://127.0.0.1:8080", server.url));
});

before(async () => {
  await new Promise<void>((resolve) => files.listen(0, "127.0.0.1", resolve));
  const { port: filesPort } = files.address() as { port: number };
  others.push(`http://127.0.0.1:${filesPort}`, `http://localhost:${filesPort}`);
  const port = await freePort();
  origin = `http://127.0.0.1:${port}`;
  const lines = new Seen<string>();
  chat = spawn(process.execPath, ["examples/chat/server.mjs", String(port)], { stdio: ["ignore", "pipe", "inherit"] });
  chat.stdout!.on("data", (data: Buffer) => lines.push(data.toString()));
  await lines.first((line) => line.includes(origin), "the chat listens");
  // Nobody touches the pages, and a busy machine takes long to open one: it must not be away by then.
  const patient = "--policy=heartbeat_interval=1s,online_ttl=1m,offline_debounce=2s,away_ttl=2m,idle_after=10m";
  server = await Server.start(patient, `--allowed-origins=${origin},${others[0]}`);
  chromium = await Chromium.start();
});
after(async () => {
  chat?.kill();
  files.closeAllConnections();
  files.close();
  await Promise.all([chromium?.end(), server?.end()]);
});

/** Resolves when an element of the page has what find says. */
function shows(tab: Tab, find: string) {
  return tab.run(`new Promise((resolve, reject) => {
    const look = () => (${find}) && resolve(true);
    new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
    look();
    setTimeout(() => reject(new Error("not in time: " + document.body.innerText)), ${patience});
  })`);
}

test("the chat shows who is there, and what they write", async () => {
  const visit = (me: string) => chromium.open(`${origin}/?me=${me}&server=${encodeURIComponent(server.url)}`);
  const one = await visit("1");
  await shows(one, `document.querySelector("#user-1")?.className === "online"`);
  await shows(one, `document.querySelector("#user-2").className === "offline"`);
  const two = await visit("2");
  await shows(one, `document.querySelector("#user-2").className === "online"`);
  await shows(two, `document.querySelector("#user-1")?.className === "online"`);
  await two.run(`document.forms[0].elements.text.value = "<b>hello</b>"; document.forms[0].requestSubmit()`);
  await shows(one, `document.querySelector("#messages").innerText.includes("User 2: <b>hello</b>")`);
  for (const [as, name] of Object.entries({ dnd: "dnd", "": "online" })) {
    await two.run(`document.querySelector("#as").onchange({ target: { value: "${as}" } })`);
    await shows(one, `document.querySelector("#user-2").className === "${name}"`);
  }
  for (const name of ["hidden", "online"]) {
    await two.run(`document.querySelector("#user-1 button").click()`);
    await shows(one, `document.querySelector("#user-2").className === "${name}"`);
    await shows(two, `document.querySelector("#user-1 button").ariaPressed === "${name === "hidden"}"`);
  }
  await two.run(`document.querySelector("#last-seen").onchange({ target: { value: "coarse" } })`);
  if (process.env.PICTURE) {
    const { writeFileSync } = await import("node:fs");
    const { data } = await one.send("Page.captureScreenshot");
    writeFileSync(process.env.PICTURE, Buffer.from(data as string, "base64"));
  }
  await two.close();
  await shows(one, `document.querySelector("#user-2").className === "offline"`);
  await shows(one, `document.querySelector("#user-2 small").innerText === "seen recently"`);
  assert.equal(await one.run(`document.querySelector("#people").className`), "");
});

test("the page of the README shows dots, and what is missing where they cannot come", async () => {
  const one = await chromium.open(`${others[0]}/?me=1`);
  await shows(one, `document.getElementById("1")?.innerText === "user 1 is online"`);
  const two = await chromium.open(`${others[0]}/?me=2`);
  await shows(one, `document.getElementById("2")?.innerText === "user 2 is online"`);
  await two.close();
  await shows(one, `document.getElementById("2")?.innerText === "user 2 is offline"`);
  const refused = await chromium.open(`${others[1]}/?me=3`);
  await shows(refused, `document.title.endsWith("or lacks --allowed-origins ${others[1]}")`);
});
