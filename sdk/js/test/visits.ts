import { readFileSync } from "node:fs";
import { createServer, type Server as Http } from "node:http";
import { Chromium, type Note, type Tab } from "./chromium.js";
import { ends } from "./rig.js";
import { freePort, Server, secret, tokenOf } from "./server.js";

/** The page of the tests: it connects and watches as its address says, and notes what happens. */
const page = `<!doctype html><meta charset="utf-8"><title>test</title><body tabindex="0">
<script type="module">
  import { connect } from "/stillhere.min.js";
  const { ids = [], token, ...options } = JSON.parse(new URLSearchParams(location.search).get("with"));
  const say = (what) => note(JSON.stringify(what));
  const ask = token && (async () => (await fetch(token)).text());
  const presence = connect({ firstWait: 50, maxWait: 500, ...options, ...(token && { token: ask }) });
  presence.on("status", (status) => say({ status }));
  presence.on("error", ({ code }) => say({ code }));
  const watch = presence.watch(ids, ({ user_id, state }) => say({ user: user_id, state }));
  watch.on("skipped", () => say({ skipped: true }));
  Object.assign(window, { presence, watch, born: Math.random() });
</script>`;

export const is = (user: string, state: string | null) => (note: Note) => note.user === user && note.state === state;
export const open = (note: Note) => note.status === "open";

/** Chromium, the server of its pages, and two presence servers: one takes anybody, one wants tokens. */
export class Visits {
  chromium!: Chromium;
  server!: Server;
  tokens!: Server;
  origin = "";
  /** For how long the next tokens of /token are valid; then it is 600. */
  tokenSeconds: number[] = [];
  #pages: Http | undefined;
  #users = 100;

  async start() {
    const port = await freePort();
    this.origin = `http://127.0.0.1:${port}`;
    const pages = createServer((request, response) => {
      const { pathname } = new URL(request.url!, this.origin);
      if (pathname === "/token") return response.end(tokenOf({ sub: "1" }, this.tokenSeconds.shift() ?? 600));
      const script = pathname === "/stillhere.min.js";
      response.setHeader("Content-Type", script ? "text/javascript" : "text/html");
      return response.end(script ? readFileSync("dist/stillhere.min.js") : pathname === "/" ? page : "another page");
    });
    this.#pages = pages;
    await new Promise<void>((resolve) => pages.listen(port, "127.0.0.1", resolve));
    const allow = `--allowed-origins=${this.origin}`;
    this.server = await Server.start(allow);
    this.tokens = await Server.start(allow, `--auth-secret=${secret}`, "--auth-leeway=0s", "--limit-connects=0");
    this.chromium = await Chromium.start();
  }

  async end() {
    await this.chromium?.end();
    this.#pages?.closeAllConnections();
    this.#pages?.close();
    await this.server?.end();
    await this.tokens?.end();
  }

  /** Users whom no other test has. */
  next = () => [1, 2].map(() => String(++this.#users)) as [string, string];

  /** Opens the page of the tests in a tab, until the test ends. */
  visit = async (options: object): Promise<Tab> => {
    const tab = await this.chromium.open(`${this.origin}/?with=${encodeURIComponent(JSON.stringify(options))}`);
    ends.push(() => tab.close().catch(() => {}));
    return tab;
  };

  /** What a tab sees that watches a user by a connection of its own. */
  observe = async (user: string) => {
    const own = { url: this.server.url, user: String(++this.#users), present: false, share: false };
    const { notes } = await this.visit({ ...own, ids: [user] });
    await notes.first((note) => note.user === user, "the observer's snapshot");
    return notes;
  };
}
