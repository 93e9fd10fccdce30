import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { after, before, test } from "node:test";
import { Chromium, type Tab } from "./chromium.js";
import { patience, Seen } from "./seen.js";
import { freePort, Server } from "./server.js";

let chromium: Chromium;
let server: Server;
let chat: ChildProcess;
let origin: string;

before(async () => {
  const port = await freePort();
  origin = `http://127.0.0.1:${port}`;
  const lines = new Seen<string>();
  chat = spawn(process.execPath, ["examples/chat/server.mjs", String(port)], { stdio: ["ignore", "pipe", "inherit"] });
  chat.stdout!.on("data", (data: Buffer) => lines.push(data.toString()));
  await lines.first((line) => line.includes(origin), "the chat listens");
  server = await Server.start(`--allowed-origins=${origin}`);
  chromium = await Chromium.start();
});
after(async () => {
  chat?.kill();
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
  if (process.env.PICTURE) {
    const { writeFileSync } = await import("node:fs");
    const { data } = await one.send("Page.captureScreenshot");
    writeFileSync(process.env.PICTURE, Buffer.from(data as string, "base64"));
  }
  await two.close();
  await shows(one, `document.querySelector("#user-2").className === "offline"`);
  assert.equal(await one.run(`document.querySelector("#people").className`), "");
});
