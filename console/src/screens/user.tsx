import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import { address, type Event, Fault, get, send, userPath } from "../api";
import { useSession } from "../context";
import { ago, count, kindsOf, moment, shown, since, words } from "../format";
import { type Loaded, useClock, useLive, useLoad } from "../live";
import { Empty, Panel, Problem, StateWord, Waiting } from "../parts/basic";
import { Days } from "../parts/days";
import { Table } from "../parts/table";
import { go, link, type Route } from "../route";
import {
  type Audience,
  type Change,
  type Denied,
  lastSeens,
  type Overridden,
  overrides,
  type Receipt,
  type User,
} from "../types";
import { Actions, Erased } from "./acts";
import { Why } from "./why";

const days = 7;
const day = 86_400_000;

interface Pageful {
  changes: Change[];
  next_cursor: string | null;
}

/** A page that is read again, before what was read of older pages. It begins anew if it does not reach them. */
export function joined(page: Pageful, kept: Pageful): Pageful {
  const known = new Set(kept.changes.map((c) => c.event_id));
  const fresh = page.changes.filter((c) => !known.has(c.event_id));
  if (fresh.length === page.changes.length) return page;
  return { changes: [...fresh, ...kept.changes], next_cursor: kept.next_cursor };
}

const none: Pageful = { changes: [], next_cursor: null };

/** All that is known about one user, beside the list. It follows the user's changes. */
export function Drawer({
  id,
  route,
  close,
  changed,
}: {
  id: string;
  route: Route;
  close: () => void;
  changed: () => void;
}) {
  const time = useClock();
  const { turn, me } = useSession();
  // Without tokens, requests name the user as the reader: only the user and administrators see what is hidden.
  const as = me && !me.authenticated ? id : undefined;
  const ready = me !== undefined;
  const acts = me?.acts ?? false; // observers see neither devices nor the setting
  const [seen, setSeen] = useState(0);
  const [receipt, setReceipt] = useState<Receipt | undefined>();
  const event = route.query.get("event");
  const user = useLoad(ready ? (signal) => get<User>(userPath(id), { devices: acts, user_id: as }, signal) : null, [
    id,
    ready,
  ]);
  const audience = useLoad(
    acts ? (signal) => get<Audience>(userPath(id, "/audience"), { user_id: as }, signal) : null,
    [id, acts],
  );
  const denied = useLoad(
    acts ? (signal) => get<Denied>(userPath(id, "/audience/deny"), { user_id: as, limit: 100 }, signal) : null,
    [id, acts],
  );
  const override = useLoad(
    acts ? (signal) => get<Overridden>(userPath(id, "/override"), { user_id: as }, signal) : null,
    [id, acts],
  );
  const week = useLoad(
    (signal) =>
      get<Pageful>(
        userPath(id, "/history"),
        { from: new Date((Math.floor(Date.now() / day) - days + 1) * day).toISOString(), limit: 1000 },
        signal,
      ),
    [id],
  );
  const reload = () => {
    user.again();
    audience.again();
    denied.again();
    override.again();
    week.again();
    setSeen((n) => n + 1);
  };
  // The feed of this user says when to read again.
  const url = useMemo(() => {
    const made = address("console/api/feed", { user_id: id });
    made.hash = String(turn);
    return made.href;
  }, [id, turn]);
  useLive(url, ({ name }: Event) => {
    if (name === "change")
      setTimeout(reload, 300); // the stores follow the log
    else if (name === "open") reload(); // what was read before may lack changes that the feed does not have
  });
  useEffect(() => {
    // What is said of a present user goes on without changes: last seen, devices, staleness.
    const timer = setInterval(user.again, 5000);
    const key = (pressed: KeyboardEvent) => {
      // In a field, Escape is of the field.
      if (pressed.key !== "Escape" || (pressed.target as HTMLElement).closest("input, select, textarea, dialog"))
        return;
      if (!document.querySelector("dialog[open]")) close();
    };
    window.addEventListener("keydown", key);
    return () => {
      clearInterval(timer);
      window.removeEventListener("keydown", key);
    };
  }, []);
  const why = (change: string) => go(link("users", [id], { ...Object.fromEntries(route.query), event: change }));
  const hides = audience.value?.base === "nobody";
  const hidden = hides || override.value?.override?.state === "invisible";
  const value = user.value;
  const never = value && value.state === "offline" && value.last_seen_at === null && value.version === "0";
  return (
    <aside class="drawer" aria-label={`User ${id}`}>
      <header>
        <div class="who">
          <h2>
            <bdi>{shown(id)}</bdi>
          </h2>
          {value && <StateWord state={value.state} hidden={hidden} />}
          {value?.dnd && <span class="tag">do not disturb</span>}
          {value?.since && <span class="dim">for {since(value.since, time)}</span>}
        </div>
        <button type="button" class="plain close" onClick={close}>
          Close <span class="away-from-eyes">this user</span>
          <kbd aria-hidden="true">Esc</kbd>
        </button>
      </header>
      <div class="body">
        {user.fault && <Problem fault={user.fault} again={user.again} inline={value !== undefined} />}
        {!value && user.loading && <Waiting what="the user" />}
        {value && (
          <>
            <Notes user={value} hidden={hidden} time={time} />
            <Erased id={id} user={value} receipt={receipt} history={acts ? week.value?.changes.length : undefined}>
              {never && (
                <Empty title="Nothing is known of this user">
                  There was no heartbeat of {id}, or everything about it is older than what is kept.
                </Empty>
              )}
            </Erased>
            <Facts user={value} audience={audience.value} override={override.value} time={time} />
            {acts && (
              <Actions
                id={id}
                hidden={hides}
                audience={audience.value}
                override={override.value?.override}
                done={reload}
                changed={changed}
                erased={setReceipt}
              />
            )}
            <Devices user={value} time={time} />
          </>
        )}
        <Panel title={`Last ${days} days`} side="UTC; point at a bar for its times">
          {week.fault ? (
            <Problem fault={week.fault} again={week.again} inline />
          ) : value?.last_seen ? (
            <p class="note">Not shown, nor is the history: see last seen.</p>
          ) : week.value ? (
            <>
              <Days
                changes={week.value.changes}
                now={time - (time % 10_000)}
                days={days}
                complete={week.value.next_cursor === null}
                present={value?.since ? { state: value.state, since: Date.parse(value.since) } : undefined}
              />
              {week.value.next_cursor !== null && (
                <p class="note">More than 1,000 changes: what was before the oldest of them is not drawn.</p>
              )}
            </>
          ) : (
            <Waiting what="the days" />
          )}
        </Panel>
        {acts && event && <Why event={event} close={() => go(link("users", [id], without(route)))} />}
        <History id={id} seen={seen} why={acts ? why : undefined} event={event} />
        {acts && <Others id={id} denied={denied} />}
      </div>
    </aside>
  );
}

function without(route: Route): Record<string, string> {
  const { event: _, ...kept } = Object.fromEntries(route.query);
  return kept;
}

function Notes({ user, hidden, time }: { user: User; hidden: boolean; time: number }) {
  return (
    <>
      {user.stale_since && (
        <p class="says stale" role="status">
          <b>Stale.</b> This may be out of date since {moment(user.stale_since)} UTC ({ago(user.stale_since, time)}):
          the partition of this user is behind.
        </p>
      )}
      {user.unsure_since && (
        <p class="says stale">
          <b>Unsure.</b> The devices were connected to a gateway that was lost {ago(user.unsure_since, time)}. They have
          until the end of the reconnect window to come back.
        </p>
      )}
      {hidden && (
        <p class="says hidden">
          <b>Hidden.</b> Others see no state. You see state and devices as they are; times stand at the moment of
          hiding.
        </p>
      )}
    </>
  );
}

function Facts({
  user,
  audience,
  override: { override, automatic } = { override: null },
  time,
}: {
  user: User;
  audience: Audience | undefined;
  override: Overridden | undefined;
  time: number;
}) {
  const unknown = user.last_seen ? "not shown" : "not known";
  const instant = (at: string | null) => (at ? `${moment(at)} UTC, ${ago(at, time)}` : unknown);
  return (
    <dl class="facts">
      <div>
        <dt>Since</dt>
        <dd>{instant(user.since)}</dd>
      </div>
      <div>
        <dt>Last seen</dt>
        <dd>
          {user.last_seen?.replaceAll("_", " ") ?? instant(user.last_seen_at)}
          {user.last_seen_coarseness_ms !== undefined ? (
            <span class="dim"> (up to {Math.round(user.last_seen_coarseness_ms / 1000)} s behind)</span>
          ) : (
            user.last_seen_at && user.state !== "offline" && <span class="dim"> (at the last change)</span>
          )}
        </dd>
      </div>
      <div>
        <dt>Last active</dt>
        <dd>{instant(user.last_active_at)}</dd>
      </div>
      <div>
        <dt>Visible to</dt>
        <dd>{audience?.base ?? "not known"}</dd>
      </div>
      {audience?.last_seen && (
        <div>
          <dt>Shows last seen</dt>
          <dd>{lastSeens[audience.last_seen]}</dd>
        </div>
      )}
      {override && (
        <div>
          <dt>Override</dt>
          <dd>
            {overrides[override.state]}
            {override.until && ` until ${moment(override.until)} UTC`}
            {override.note && <bdi>: {shown(override.note)}</bdi>}
            {automatic && <span class="dim"> ({automatic} without it)</span>}
          </dd>
        </div>
      )}
      <div>
        <dt>Version</dt>
        <dd class="mono">{user.version}</dd>
      </div>
    </dl>
  );
}

function Devices({ user, time }: { user: User; time: number }) {
  const list = user.device_list;
  return (
    <Panel title="Devices" side={list ? count(list.length) : ""}>
      {list && list.length > 0 ? (
        <Table
          rows={list}
          keyOf={(d) => d.device_id}
          columns={[
            { title: "Device", look: "mono", cell: (d) => d.device_id },
            { title: "Kind", cell: (d) => d.device_kind },
            { title: "State", cell: (d) => <StateWord state={d.state} /> },
            { title: "Here for", look: "n", cell: (d) => since(d.since, time), hint: (d) => moment(d.since) },
            {
              title: "Last beat",
              look: "n",
              cell: (d) => ago(d.last_seen_at, time),
              hint: (d) => moment(d.last_seen_at),
            },
          ]}
        />
      ) : list ? (
        <p class="note">No device is connected.</p>
      ) : (
        <p class="note">
          {user.devices && user.devices.length > 0
            ? `Connected by ${kindsOf(user.kinds)}. Ids and times follow within a minute of a change.`
            : "No device is known."}
        </p>
      )}
    </Panel>
  );
}

function History({
  id,
  seen,
  why,
  event,
}: {
  id: string;
  seen: number;
  why: ((event: string) => void) | undefined; // undefined: the token may not ask
  event: string | null;
}) {
  const [before, setBefore] = useState("");
  const [kept, setKept] = useState(none);
  const [older, setOlder] = useState<{ busy: boolean; fault?: Fault }>({ busy: false });
  const to = before && !Number.isNaN(Date.parse(`${before}Z`)) ? new Date(`${before}Z`).toISOString() : "";
  const first = useLoad((signal) => get<Pageful>(userPath(id, "/history"), { limit: 50, to }, signal), [id, to]);
  useEffect(() => {
    if (seen > 0) first.again();
  }, [seen]);
  useLayoutEffect(() => setKept(none), [id, to]);
  useLayoutEffect(() => {
    const page = first.value;
    if (page) setKept((old) => joined(page, old));
  }, [first.value]);
  const { changes: all, next_cursor: cursor } = kept;
  const more = async () => {
    setOlder({ busy: true });
    try {
      const page = await get<Pageful>(userPath(id, "/history"), { limit: 100, to, cursor: cursor ?? undefined });
      // Unless the list has begun anew meanwhile.
      setKept((old) => (old.next_cursor === cursor ? { ...page, changes: [...old.changes, ...page.changes] } : old));
      setOlder({ busy: false });
    } catch (error) {
      setOlder({ busy: false, fault: error instanceof Fault ? error : new Fault(0, "broken", String(error)) });
    }
  };
  return (
    <Panel
      title="History"
      side={
        <label class="inline">
          Before{" "}
          <input
            type="datetime-local"
            step="1"
            value={before}
            onInput={(input) => setBefore(input.currentTarget.value)}
          />{" "}
          UTC
        </label>
      }
    >
      {first.fault && <Problem fault={first.fault} again={first.again} inline />}
      {all.length === 0 ? (
        !first.fault &&
        (first.value ? <p class="note">No change is kept{to && " before that"}.</p> : <Waiting what="the history" />)
      ) : (
        <table class="history">
          <thead>
            <tr>
              <th scope="col">At, UTC</th>
              <th scope="col">Change</th>
              <th scope="col">Cause</th>
              {why && (
                <th scope="col">
                  <span class="away-from-eyes">Why</span>
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {all.map((c) => (
              <tr key={c.event_id} class={c.event_id === event ? "chosen" : ""}>
                <td class="mono">{moment(c.at, true)}</td>
                <td>
                  <StateWord state={c.to} />
                  {c.from === c.to ? <small> unchanged</small> : <small> was {c.from}</small>}
                </td>
                <td>
                  {words(c.cause)}
                  {c.left_out > 0 && <small> after {c.left_out} left out</small>}
                </td>
                {why && (
                  <td class="n">
                    <button
                      type="button"
                      class="small"
                      onClick={() => why(c.event_id)}
                      aria-label={`Why ${c.to} at ${moment(c.at)}`}
                    >
                      Why
                    </button>
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {older.fault && <Problem fault={older.fault} inline />}
      {cursor && (
        <div class="acts">
          <button type="button" class="small" onClick={more} disabled={older.busy}>
            {older.busy ? "Reading older changes" : "Older changes"}
          </button>
        </div>
      )}
    </Panel>
  );
}

function Others({ id, denied }: { id: string; denied: Loaded<Denied> }) {
  const followers = useLoad(
    (signal) =>
      get<{ followers: string[]; next_cursor: string | null }>(userPath(id, "/followers"), { limit: 100 }, signal),
    [id],
  );
  return (
    <Panel title="Who sees this user">
      <Listed title="Followers" of={followers} list={followers.value?.followers} more={followers.value?.next_cursor} />
      <Listed
        title="Denied viewers"
        of={denied}
        list={denied.value?.deny?.map((viewer) => viewer.user_id)}
        more={denied.value?.next}
        most={20}
      />
    </Panel>
  );
}

/** Users, of whom there may be more, and how many they are. */
function Listed({
  title,
  of,
  list = [],
  more,
  most,
}: {
  title: string;
  of: Loaded<unknown>;
  list: string[] | undefined;
  more: string | null | undefined;
  most?: number;
}) {
  return (
    <>
      <dl class="facts">
        <div>
          <dt>{title}</dt>
          <dd>
            {of.fault
              ? of.fault.message
              : of.value
                ? list.length === 0
                  ? "none"
                  : `${more ? "more than " : ""}${count(list.length)}`
                : "–"}
          </dd>
        </div>
      </dl>
      {list.length > 0 && (
        <p class="followers">
          {list
            .filter(Boolean)
            .slice(0, most)
            .map((user) => (
              <a key={user} href={link("users", [user])}>
                <bdi>{shown(user)}</bdi>
              </a>
            ))}
        </p>
      )}
    </>
  );
}

/** Reads everything that is held of a user, as JSON lines. */
export async function exported(id: string, signal?: AbortSignal): Promise<string> {
  return (await send(address(userPath(id, "/export")), { signal: signal ?? null })).text();
}
