import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Fault, get, onRefused, setTenant, token } from "./api";
import { SessionContext } from "./context";
import { clock } from "./format";
import { Help } from "./help";
import { ours, useClock, useLoad } from "./live";
import { type Live, useOverview } from "./overview";
import { Empty, Icon, Problem } from "./parts/basic";
import { go, link, type Route, useRoute } from "./route";
import { Feed } from "./screens/feed";
import { Now } from "./screens/now";
import { Try } from "./screens/try";
import { Users } from "./screens/users";
import { WhatIf } from "./screens/whatif";
import { setTheme, themeNow, themes } from "./theme";
import { TokenDialog } from "./token";
import type { Me } from "./types";

const screens = [
  { id: "now", name: "Now", d: "M1.5 8h3l2-5 3 10 2-5h3" },
  {
    id: "users",
    name: "Users",
    d: "M8 7.5a2.7 2.7 0 1 0 0-5.4 2.7 2.7 0 0 0 0 5.4ZM2.5 14c.4-3 2.6-4.6 5.5-4.6s5.1 1.6 5.5 4.6",
  },
  { id: "feed", name: "Feed", d: "M2 3.5h12M2 8h12M2 12.5h7" },
  { id: "whatif", name: "What if", d: "M2 4.5h7M12 4.5h2M2 11.5h2M7 11.5h7M9 2.5v4M4 9.5v4" },
  { id: "try", name: "Try", d: "M2.5 4l4 4-4 4M8 12.5h5.5" },
] as const;

export function App() {
  const route = useRoute();
  const [signed, setSigned] = useState(0);
  const [asking, setAsking] = useState<{ fault?: Fault } | null>(null);
  const asked = useRef(false);
  const [helping, setHelping] = useState(false);
  // The address alone says whose users are shown: a link, and the way back, go to their tenant.
  const tenant = route.query.get("tenant") ?? "";
  setTenant(tenant);
  const session = useRef({ tenant, signed, turn: 0 });
  if (session.current.tenant !== tenant || session.current.signed !== signed)
    session.current = { tenant, signed, turn: session.current.turn + 1 };
  const { turn } = session.current;

  useEffect(() => {
    onRefused((fault) => {
      // Whoever has closed the dialog wants to read what is behind it.
      if (asked.current) return;
      asked.current = true;
      // Without a token nothing was refused yet.
      setAsking((old) => old ?? (token() ? { fault } : {}));
    });
    const ask = () => setAsking({});
    const renew = () => setSigned((n) => n + 1);
    window.addEventListener("stillhere:token", ask);
    window.addEventListener("stillhere:session", renew);
    return () => {
      window.removeEventListener("stillhere:token", ask);
      window.removeEventListener("stillhere:session", renew);
    };
  }, []);
  const me = useLoad((signal) => get<Me>("console/api/me", {}, signal), [turn]);
  const acts = me.value?.acts ?? true;
  const shown = useMemo(() => screens.filter((s) => acts || s.id !== "try"), [acts]); // an observer's beats are refused
  useKeys(shown, () => setHelping(true));

  const live = useOverview(turn, me.value !== undefined);
  const screen = shown.find((s) => s.id === route.screen) ?? screens[0];
  useEffect(() => {
    document.title = `${screen.name} · Stillhere`;
  }, [screen.name]);
  const useTenant = (name: string) => go(link(screen.id, [], { tenant: name }));

  return (
    <SessionContext.Provider value={{ me: me.value, live, turn }}>
      <a class="skip" href="#content" onClick={skip}>
        Skip to the content
      </a>
      <nav aria-label="Screens">
        <a class="brand" href={link("now")}>
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <circle cx="8" cy="8" r="3.2" class="in" />
            <circle cx="8" cy="8" r="6" class="out" />
          </svg>
          Stillhere
        </a>
        <ul>
          {shown.map((s, i) => (
            <li key={s.id}>
              <a href={link(s.id)} aria-current={s === screen ? "page" : undefined}>
                <Icon d={s.d} />
                {s.name}
                <kbd aria-hidden="true">{i + 1}</kbd>
              </a>
            </li>
          ))}
        </ul>
        <Foot me={me.value} help={() => setHelping(true)} token={() => setAsking({})} />
      </nav>
      <div class="page">
        <LinkBar live={live} />
        {me.value?.ids === "text" && <Tenant own={me.value.tenant} value={tenant} choose={useTenant} />}
        <main id="content" tabIndex={-1} class={`screen-${screen.id}`}>
          <h1 class="away-from-eyes">{screen.name}</h1>
          {me.fault?.status === 401 && !me.value ? (
            <Empty title="Not signed in">
              <button type="button" onClick={() => setAsking({})}>
                {token() ? "Use another token" : "Sign in"}
              </button>
            </Empty>
          ) : me.fault && !me.value ? (
            <Problem fault={me.fault} again={me.again} />
          ) : (
            <Screen id={screen.id} route={route} key={`${screen.id} ${turn}`} />
          )}
        </main>
      </div>
      {asking && (
        <TokenDialog
          fault={asking.fault}
          close={() => setAsking(null)}
          done={() => {
            asked.current = false;
            setAsking(null);
            setSigned((n) => n + 1);
          }}
        />
      )}
      {helping && <Help close={() => setHelping(false)} />}
    </SessionContext.Provider>
  );
}

function Screen({ id, route }: { id: (typeof screens)[number]["id"]; route: Route }) {
  switch (id) {
    case "users":
      return <Users route={route} />;
    case "feed":
      return <Feed route={route} />;
    case "whatif":
      return <WhatIf route={route} />;
    case "try":
      return <Try />;
    default:
      return <Now />;
  }
}

function skip(event: Event) {
  event.preventDefault();
  document.getElementById("content")?.focus();
}

/** Whether what is shown is live, and if not, since when. */
function LinkBar({ live: { link: now, now: overview, cameAt } }: { live: Live }) {
  const time = ours(useClock());
  if (now.how === "lost") {
    const wait = Math.max(0, Math.ceil(((now.retryAt ?? time) - time) / 1000));
    return (
      <div class="bar lost" role="alert">
        <b>Connection lost.</b> {now.fault?.message} {overview ? `What you see is of ${clock(overview.at)} UTC. ` : ""}
        Next try {wait === 0 ? "now" : `in ${wait} s`}.
        <button type="button" class="small" onClick={() => window.dispatchEvent(new Event("online"))}>
          Try now
        </button>
      </div>
    );
  }
  const silent = (time - cameAt) / 1000;
  if (now.how === "live" && overview && silent > 4)
    return (
      <div class="bar stale" role="status">
        <b>Stale.</b> Nothing has come for {Math.floor(silent)} s. What you see is of {clock(overview.at)} UTC.
      </div>
    );
  const missing = overview?.counts?.missing_partitions ?? [];
  if (missing.length > 0)
    return (
      <div class="bar stale" role="status">
        <b>Incomplete.</b> No counts are known of partition{missing.length > 1 ? "s" : ""} {missing.join(", ")}: the
        sums lack their users.
      </div>
    );
  return null;
}

function Tenant({ own, value, choose }: { own: string | null; value: string; choose: (name: string) => void }) {
  const input = useRef<HTMLInputElement>(null);
  if (own)
    return (
      <p class="tenant">
        Tenant <b>{own}</b>, as the token says. What is of all tenants (rates, gateways, partitions, servers) and What
        if are not shown to it.
      </p>
    );
  return (
    <form
      class="tenant"
      onSubmit={(event) => {
        event.preventDefault();
        choose(input.current!.value.trim());
      }}
    >
      <label>
        Tenant <input ref={input} defaultValue={value} key={value} placeholder="the default one" spellcheck={false} />
      </label>
      {value && (
        <button type="button" class="small" onClick={() => choose("")}>
          Default tenant
        </button>
      )}
    </form>
  );
}

function Foot({ me, help, token }: { me: Me | undefined; help: () => void; token: () => void }) {
  const [theme, set] = useState(themeNow());
  return (
    <div class="foot">
      <fieldset class="choice small">
        <legend class="away-from-eyes">Colors</legend>
        {themes.map(([id, name]) => (
          <button
            type="button"
            key={id}
            aria-pressed={theme === id}
            onClick={() => {
              setTheme(id);
              set(id);
            }}
          >
            {name}
          </button>
        ))}
      </fieldset>
      <button type="button" class="plain" onClick={help}>
        Shortcuts <kbd aria-hidden="true">?</kbd>
      </button>
      {me?.authenticated && (
        <button type="button" class="plain" onClick={token}>
          Token{me.user ? ` of ${me.user}` : ""}
        </button>
      )}
      {me && (
        <p>
          role {me.mode}, {me.version === "dev" ? "a development build" : me.version}
          <br />
          {me.partitions} partitions, ids {me.ids}
        </p>
      )}
    </div>
  );
}

/** Shortcuts of all screens. None of them works while a text is typed. */
function useKeys(shown: readonly (typeof screens)[number][], help: () => void) {
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const target = event.target as HTMLElement;
      if (target.closest("input, textarea, select, dialog")) return;
      const screen = shown[Number(event.key) - 1];
      if (screen) go(link(screen.id));
      else if (event.key === "?") help();
      else if (event.key === "/") {
        event.preventDefault();
        const input = document.getElementById("search");
        if (input) input.focus();
        else go(link("users", [], { find: "1" }));
      }
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [shown, help]);
}
