import { readFileSync } from "node:fs";
import { createServer, type Server as Http, type ServerResponse } from "node:http";
import { Chromium, type Note, type Tab } from "./chromium.js";
import { ends } from "./rig.js";
import { authentication, freePort, Server, tokenOf } from "./server.js";

/** The page of the tests: it connects and watches as its address says, and notes what happens. */
const page = `<!doctype html><meta charset="utf-8"><title>test</title><body tabindex="0">
<script type="module">
  import { connect } from "/stillhere.min.js";
  const { ids = [], token, busy, ...options } = JSON.parse(new URLSearchParams(location.search).get("with"));
  const say = (what) => note(JSON.stringify(what));
  const ask = token && (async () => (await fetch(token)).text());
  const own = { ...(token && { token: ask }), ...(busy && { idle: () => 0 }) };
  const presence = connect({ firstWait: 50, maxWait: 500, ...options, ...own });
  presence.on("status", (status) => say({ status }));
  presence.on("error", ({ code }) => say({ code }));
  const watch = presence.watch(ids, ({ user_id, state }) => say({ user: user_id, state }));
  watch.on("skipped", () => say({ skipped: true }));
  Object.assign(window, { presence, watch, born: Math.random() });
</script>`;

const pages: Record<string, string> = {
  "/": page,
  "/react": `<!doctype html><title>React</title><body><main></main><script type="module" src="/react.js"></script>`,
};
const scripts: Record<string, string> = {
  "/stillhere.min.js": "dist/stillhere.min.js",
  "/react.js": ".build/react.page.js",
};

export const is = (user: string, state: string | null) => (note: Note) => note.user === user && note.state === state;
export const open = (note: Note) => note.status === "open";

/** Chromium, the server of its pages, and two presence servers: one takes anybody, one wants tokens. */
export class Visits {
  chromium!: Chromium;
  server!: Server;
  tokens!: Server;
  origin = "";
  /** For how long the next tokens of /token are valid. */
  tokenSeconds = 600;
  /** Whose the next tokens of /token?of=NAME are, by the names; else of user 1. */
  readonly subjects = new Map<string, string>();
  /** Answers of /hang that are still to come. */
  #hung: ServerResponse[] = [];
  #http: Http | undefined;
  #users = 100;

  async start() {
    const port = await freePort();
    this.origin = `http://127.0.0.1:${port}`;
    this.#http = createServer((request, response) => {
      const { pathname, searchParams } = new URL(request.url!, this.origin);
      if (pathname === "/token") {
        const sub = this.subjects.get(searchParams.get("of") ?? "") ?? "1";
        return response.end(tokenOf({ sub }, this.tokenSeconds));
      }
      if (pathname === "/hang") return void this.#hung.push(response);
      const script = scripts[pathname];
      response.setHeader("Content-Type", script ? "text/javascript" : "text/html");
      return response.end(script ? readFileSync(script) : (pages[pathname] ?? "another page"));
    });
    await new Promise<void>((resolve) => this.#http!.listen(port, "127.0.0.1", resolve));
    const allow = `--allowed-origins=${this.origin}`;
    this.server = await Server.start(allow);
    this.tokens = await Server.start(allow, authentication(), "--auth-leeway=0s", "--limit-connects=0");
    this.chromium = await Chromium.start();
  }

  async end() {
    await this.chromium?.end();
    this.#http?.closeAllConnections();
    this.#http?.close();
    await this.server?.end();
    await this.tokens?.end();
  }

  /** Keeps a tab from doing anything until release: its page waits for an answer, as a page that computes. */
  hang = (tab: Tab) =>
    tab.run(`{ const request = new XMLHttpRequest(); request.open("GET", "/hang", false); request.send(); }`);

  release() {
    for (const response of this.#hung.splice(0)) response.end();
  }

  /** Users whom no other test has. */
  next = () => [1, 2].map(() => String(++this.#users)) as [string, string];

  /** Opens the page of the tests in a tab, until the test ends. With busy the person is always active. */
  visit = async (options: object, path = "/"): Promise<Tab> => {
    const address = `${this.origin}${path}?with=${encodeURIComponent(JSON.stringify(options))}`;
    const tab = await this.chromium.open(address);
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
