import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Fault, get, tenantNow } from "../api";
import { useSession } from "../context";
import { ago, clock, count, moment, shown, since } from "../format";
import { useClock } from "../live";
import { Choice, Empty, Problem, StateWord, Waiting } from "../parts/basic";
import { Virtual, type Window } from "../parts/virtual";
import { go, link, type Route } from "../route";
import type { Page, Row } from "../types";
import { kinds } from "../types";
import { Drawer } from "./user";

const chunk = 100;
const refresh = 2_000;
/** While the server still reads the users. It answers after a second at most. */
const soon = 100;

type Sort = "user_id" | "state" | "since";

const filters = [
  ["", "All"],
  ["online", "Online"],
  ["away", "Away"],
  ["offline", "Offline"],
  ["hidden", "Hidden"],
] as const;

interface Wanted {
  q: string;
  state: string;
  sort: Sort;
  order: "asc" | "desc";
}

/** Windows of the list as they are needed; those in view are read again every two seconds. */
function usePages(wanted: Wanted, turn: number) {
  const id = JSON.stringify([wanted, turn]);
  const held = useRef({
    id: "",
    chunks: new Map<number, Row[]>(),
    total: -1,
    asOf: "",
    truncated: false,
    loading: false,
  });
  const [, redraw] = useState(0);
  const [fault, setFault] = useState<Fault | undefined>();
  const seen = useRef<Window>({ first: 0, end: chunk });
  const [shown, setShown] = useState("0");
  const [again, setAgain] = useState(0);
  if (held.current.id !== id) {
    // The old rows stay until the first new ones come, so that the list does not flicker; they are not of this filter.
    held.current = { ...held.current, id, chunks: new Map(), total: -1 };
  }
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const load = async () => {
      const now = held.current;
      const { first, end } = seen.current;
      try {
        for (let i = Math.floor(first / chunk); i <= Math.floor(Math.max(first, end - 1) / chunk); i++) {
          const page = await get<Page>(
            "console/api/users",
            { ...wanted, offset: i * chunk, limit: chunk },
            stop.signal,
          );
          if (stop.signal.aborted || held.current.id !== now.id) return;
          now.chunks.set(i, page.users);
          now.total = page.total;
          now.asOf = page.as_of ?? "";
          now.truncated = page.truncated;
          now.loading = page.loading ?? false;
          redraw((n) => n + 1);
        }
        for (const i of now.chunks.keys()) if (Math.abs(i * chunk - first) > 40 * chunk) now.chunks.delete(i);
        setFault(undefined);
      } catch (error) {
        if (stop.signal.aborted) return;
        setFault(error instanceof Fault ? error : new Fault(0, "broken", String(error)));
        if (error instanceof Fault && error.status >= 400 && error.status < 500) return;
      }
      timer = window.setTimeout(load, document.hidden ? 10 * refresh : held.current.loading ? soon : refresh);
    };
    load();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [id, shown, again]);
  return {
    ...held.current,
    fault,
    again: () => setAgain((n) => n + 1),
    at: (i: number) => held.current.chunks.get(Math.floor(i / chunk))?.[i % chunk],
    look: (window: Window) => {
      seen.current = window;
      setShown(`${Math.floor(window.first / chunk)} ${Math.floor(Math.max(window.first, window.end - 1) / chunk)}`);
    },
  };
}

export function Users({ route }: { route: Route }) {
  const { turn, me } = useSession();
  const chosen = route.rest[0];
  const wanted: Wanted = {
    q: route.query.get("q") ?? "",
    state: route.query.get("state") ?? "",
    sort: (route.query.get("sort") ?? "user_id") as Sort,
    order: route.query.get("order") === "desc" ? "desc" : "asc",
  };
  // A key that is typed is looked up a moment later, by what is shown then.
  const latest = useRef({ wanted, chosen });
  latest.current = { wanted, chosen };
  const pages = usePages(wanted, turn);
  const time = useClock();
  const [row, setRow] = useState(-1);
  const search = useRef<HTMLInputElement>(null);
  const typed = useRef(0);
  useEffect(() => () => clearTimeout(typed.current), []);
  const named = me?.ids === "text";
  useEffect(() => {
    if (route.query.get("find")) search.current?.focus();
  }, []);
  useEffect(() => {
    // A link or the way back has another text than the field, in which nobody types now.
    const field = search.current!;
    if (document.activeElement !== field) field.value = wanted.q;
  }, [wanted.q]);

  const at = (change: Partial<Wanted>, user = latest.current.chosen, tenant = tenantNow()) => {
    const next = { ...latest.current.wanted, ...change };
    return link("users", user === undefined ? [] : [user], {
      q: next.q,
      state: next.state,
      sort: next.sort === "user_id" ? "" : next.sort,
      order: next.order === "asc" ? "" : "desc",
      tenant,
    });
  };
  const open = (user: Row | undefined) =>
    typeof user?.user_id === "string" && go(at({}, user.user_id, user.tenant ?? tenantNow()));
  const type = (q: string) => {
    clearTimeout(typed.current);
    typed.current = window.setTimeout(() => go(at({ q }), true), 150);
  };
  const keys = (event: KeyboardEvent) => {
    const page = 20;
    const moves: Record<string, number> = {
      ArrowDown: row + 1,
      ArrowUp: row - 1,
      PageDown: row + page,
      PageUp: row - page,
      Home: 0,
      End: pages.total - 1,
    };
    const to = moves[event.key];
    if (to !== undefined) {
      event.preventDefault();
      setRow(Math.max(0, Math.min(pages.total - 1, to)));
    } else if (event.key === "Enter") open(pages.at(row));
  };
  const order = (sort: Sort) =>
    go(at(wanted.sort === sort ? { order: wanted.order === "asc" ? "desc" : "asc" } : { sort, order: "asc" }), true);
  const exact = wanted.q.trim();

  const columns = useMemo<[Sort | null, string, string][]>(
    () => [
      ["user_id", named ? "User" : "User id", "user"],
      ["state", "State", "st"],
      ["since", "For", "n"],
      [null, "Last seen", "n"],
      [null, "Devices", "devs"],
      [null, "Visible to", "vis"],
    ],
    [named],
  );

  return (
    <div class={`users ${chosen === undefined ? "" : "beside"}`}>
      <div class="list">
        <div class="tools">
          <form
            class="search"
            role="search"
            onSubmit={(event) => {
              event.preventDefault();
              clearTimeout(typed.current);
              const text = search.current!.value.trim();
              if (text) go(at({ q: text }, text));
            }}
          >
            <label class="away-from-eyes" for="search">
              Search users by {named ? "name" : "id"}
            </label>
            <input
              id="search"
              ref={search}
              type="search"
              placeholder={named ? "Name, or its beginning" : "Id, or its beginning"}
              defaultValue={wanted.q}
              onInput={(event) => type(event.currentTarget.value.trim())}
              spellcheck={false}
              autocomplete="off"
            />
            <kbd aria-hidden="true">/</kbd>
          </form>
          <Choice label="State" value={wanted.state} options={filters} choose={(state) => go(at({ state }), true)} />
          <span class="total" role="status">
            {pages.total < 0
              ? ""
              : `${count(pages.total)} user${pages.total === 1 ? "" : "s"}${pages.truncated ? ", there are more" : ""}`}
          </span>
        </div>
        {pages.fault && <Problem fault={pages.fault} again={pages.again} inline={pages.total >= 0} />}
        {pages.total === 0 ? (
          <None loading={pages.loading} wanted={wanted} exact={exact} href={exact ? at({}, exact) : ""} />
        ) : (
          !(pages.fault && pages.total < 0) && (
            <Virtual
              label="Users"
              total={Math.max(0, pages.total)}
              rowHeight={30}
              columns={columns.length}
              selected={row}
              onKey={keys}
              onWindow={pages.look}
              head={
                <div class="row head" role="row">
                  {columns.map(([sort, title, name]) => (
                    <span
                      key={title}
                      role="columnheader"
                      class={name}
                      aria-sort={
                        sort === wanted.sort ? (wanted.order === "asc" ? "ascending" : "descending") : undefined
                      }
                    >
                      {sort ? (
                        <button type="button" class="plain" onClick={() => order(sort)}>
                          {title}
                          {sort === wanted.sort && <i aria-hidden="true">{wanted.order === "asc" ? "↑" : "↓"}</i>}
                        </button>
                      ) : (
                        title
                      )}
                    </span>
                  ))}
                </div>
              }
              row={(i) => {
                const user = pages.at(i);
                const is = user?.user_id === chosen;
                return (
                  <div
                    key={i}
                    role="row"
                    aria-rowindex={i + 2}
                    aria-selected={is}
                    class={`row ${is ? "chosen" : ""} ${i === row ? "cursor" : ""}`}
                    onClick={() => {
                      setRow(i);
                      open(user);
                    }}
                  >
                    {user ? <Cells user={user} time={time} /> : <span role="gridcell" class="user waits" />}
                  </div>
                );
              }}
            />
          )
        )}
        <p class="away-from-eyes" role="status">
          {row >= 0 && pages.at(row) && `${pages.at(row)!.user_id}, ${pages.at(row)!.state}`}
        </p>
        <p class="note foot-note">
          {pages.asOf && pages.total > 0 && `As of ${clock(pages.asOf)} UTC. `}
          {pages.loading
            ? "The list is still being read: there will be more."
            : "Rows are read again every 2 seconds; when a user was last seen follows once a minute or so."}
        </p>
      </div>
      {chosen !== undefined && (
        <Drawer
          id={chosen}
          key={`${chosen} ${turn} ${tenantNow()}`}
          close={() => go(link("users", [], queryOf(route)))}
          route={route}
          changed={pages.again}
        />
      )}
    </div>
  );
}

function queryOf(route: Route): Record<string, string> {
  const { event: _, ...kept } = Object.fromEntries(route.query);
  return kept;
}

function Cells({ user, time }: { user: Row; time: number }) {
  const list = kinds.flatMap((kind) => {
    const n = user.devices?.[kind];
    return n ? [n > 1 ? `${n} ${kind}` : kind] : [];
  });
  return (
    <>
      <span
        role="gridcell"
        class="user"
        title={user.tenant ? `${user.user_id} of ${user.tenant}` : (user.user_id ?? "")}
      >
        {user.user_id === null ? <span class="dim">name not known</span> : <bdi>{shown(user.user_id)}</bdi>}
        {user.tenant && <small> {user.tenant}</small>}
      </span>
      <span role="gridcell" class="st">
        <StateWord state={user.state} hidden={user.visibility === "nobody" && user.state !== "hidden"} />
      </span>
      <span role="gridcell" class="n" title={moment(user.since)}>
        {since(user.since, time)}
      </span>
      <span role="gridcell" class="n" title={moment(user.last_seen_at)}>
        {user.last_seen?.replaceAll("_", " ") ?? ago(user.last_seen_at, time)}
      </span>
      <span role="gridcell" class="devs">
        {list.join(", ") || <span class="dim">{user.devices ? "none" : "–"}</span>}
      </span>
      <span role="gridcell" class="vis">
        {user.visibility === "nobody" ? <b>nobody</b> : (user.visibility ?? "–")}
      </span>
    </>
  );
}

function None({ wanted, exact, href, loading }: { wanted: Wanted; exact: string; href: string; loading: boolean }) {
  if (exact)
    return (
      <Empty title={`No user in this list begins with “${exact}”`}>
        {wanted.state && `The list shows only users who are ${wanted.state}. `}
        The list has users who are present. <a href={href}>Open {exact} anyway</a>: a user who is offline has a history
        too.
      </Empty>
    );
  if (loading) return <Waiting what="the users" />;
  if (wanted.state === "offline")
    return (
      <Empty title="No hidden user is offline">
        The list has users who are present, and hidden ones. Search any other user by the whole id or name: the page of
        a user who is offline has the history.
      </Empty>
    );
  if (wanted.state) return <Empty title={`No user is ${wanted.state}`}>Choose All to see the others.</Empty>;
  return (
    <Empty title="Nobody is online">
      Users appear here with their first heartbeat. <a href="#/try">Try</a> sends one from this page;{" "}
      <code>stillhere load --users 1000</code> simulates many.
    </Empty>
  );
}
