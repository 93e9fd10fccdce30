import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { address, type Event } from "../api";
import { useSession } from "../context";
import { clock, count, kindsOf, moment, rate, shown, words } from "../format";
import { serverNow, useLive } from "../live";
import { Choice, Empty, Problem, StateWord } from "../parts/basic";
import { Virtual } from "../parts/virtual";
import { go, link, type Route } from "../route";
import type { FeedRow } from "../types";

/** How many changes the page keeps. */
const most = 5_000;
/** How often the list is drawn again at most. */
const tick = 100;

const causes = [
  "first_beat",
  "active_again",
  "idle",
  "silent",
  "bye",
  "gateway_lost",
  "gateway_drained",
  "devices",
  "device_evicted",
  "visibility",
  "override_set",
  "override_over",
  "last_seen",
  "audience",
  "erased",
];

const states = [
  ["", "All"],
  ["online", "Online"],
  ["away", "Away"],
  ["offline", "Offline"],
] as const;

/** What is said while there is no change to show. */
const nothing = {
  connecting: { title: "Connecting", because: "The server looks for the end of the log of changes." },
  live: {
    title: "No change yet",
    because: "Changes appear the moment they are published. While everybody stays as they are, there is none.",
  },
  lost: { title: "Not connected", because: "Changes appear again when the server answers." },
};

/** That changes between two instants are missing. */
interface Gap {
  gap: { from: string; to: string };
}

/** Changes as they come, newest last in all; what comes while one reads is counted, not shown. */
class Buffer {
  readonly all: (FeedRow | Gap)[] = [];
  /** How many have come, and how many of them had when they were shown. */
  came = 0;
  shown = 0;
  /** How many of all are shown. */
  end = 0;
  dropped = 0;
  readonly times: number[] = [];
  readonly #began = performance.now();

  add(row: FeedRow | Gap) {
    this.all.push(row);
    this.came++;
    const now = performance.now();
    if (!("gap" in row)) this.times.push(now);
    if (this.all.length > 3 * most) this.#trim();
    if (this.times.length > 20_000) this.times.splice(0, 10_000);
  }

  /** Shows what has come. */
  show() {
    this.shown = this.came;
    this.end = this.all.length;
  }

  /** Keeps the newest ones of those that are shown, and of those that are not: what is read stays. */
  #trim() {
    const old = Math.max(0, this.end - most);
    this.all.splice(0, old);
    this.end -= old;
    this.all.splice(this.end, Math.max(0, this.all.length - this.end - most));
  }

  /** Changes a second, over the last five seconds, or since the first second. */
  rate(): number {
    const now = performance.now();
    const from = now - 5000;
    let i = this.times.length;
    while (i > 0 && this.times[i - 1]! > from) i--;
    return ((this.times.length - i) * 1000) / Math.min(5000, Math.max(1000, now - this.#began));
  }
}

export function Feed({ route }: { route: Route }) {
  const { turn, me } = useSession();
  const user = route.query.get("user") ?? "";
  const state = route.query.get("state") ?? "";
  const cause = route.query.get("cause") ?? "";
  const latest = useRef({ user, state, cause });
  latest.current = { user, state, cause };
  const filter = JSON.stringify([user, state, cause, turn]);
  const buffer = useMemo(() => new Buffer(), [filter]);
  const [paused, setPaused] = useState(false);
  const [, redraw] = useState(0);
  const scroller = useRef<HTMLDivElement>(null);
  const held = useRef(false);
  const dirty = useRef(false);
  const typed = useRef(0);
  useEffect(() => () => clearTimeout(typed.current), []);

  const url = useMemo(() => {
    const made = address("console/api/feed", { user_id: user, state, cause });
    made.hash = String(turn);
    return made.href;
  }, [filter]);
  const connection = useLive(url, (event: Event) => {
    if (event.name === "change") buffer.add(JSON.parse(event.data));
    else if (event.name === "reopened") {
      const now = serverNow();
      const instant = (time: number) => new Date(time).toISOString();
      buffer.add({ gap: { from: instant(Number(event.data) + now - Date.now()), to: instant(now) } });
    } else if (event.name === "dropped") buffer.dropped += JSON.parse(event.data).count;
    else return;
    dirty.current = true;
  });

  useEffect(() => {
    let frame = 0;
    let last = 0;
    let slow = 0;
    const draw = (now: number) => {
      frame = requestAnimationFrame(draw);
      if (now - last < tick) return;
      // The rate falls without events too.
      if (!dirty.current && now - slow < 1000) return;
      last = now;
      slow = now;
      dirty.current = false;
      if (!held.current) buffer.show();
      redraw((n) => n + 1);
    };
    frame = requestAnimationFrame(draw);
    return () => cancelAnimationFrame(frame);
  }, [buffer]);

  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if ((event.target as HTMLElement).closest("input, select, textarea, dialog")) return;
      if (event.key === "p" || event.key === "P") setPaused((old) => !old);
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, []);

  // Whoever has scrolled down reads: rows must not move below the eyes.
  const [away, setAway] = useState(false);
  held.current = paused || away;
  const more = buffer.came - buffer.shown;
  const resume = () => {
    setPaused(false);
    setAway(false);
    buffer.show();
    if (scroller.current) scroller.current.scrollTop = 0;
  };
  const end = buffer.end;
  const total = Math.min(end, most);
  const at = (change: Record<string, string>) => go(link("feed", [], { ...latest.current, ...change }), true);

  return (
    <div class="feed">
      <div class="tools">
        <label class="inline">
          <span class="away-from-eyes">User {me?.ids === "text" ? "name" : "id"}</span>
          <input
            type="search"
            placeholder={me?.ids === "text" ? "One user by name" : "One user by id"}
            defaultValue={user}
            spellcheck={false}
            onInput={(event) => {
              const value = event.currentTarget.value.trim();
              clearTimeout(typed.current);
              typed.current = window.setTimeout(() => at({ user: value }), 400);
            }}
          />
        </label>
        <Choice label="To state" value={state} options={states} choose={(value) => at({ state: value })} />
        <label class="inline">
          <span class="away-from-eyes">Cause</span>
          <select value={cause} onChange={(event) => at({ cause: event.currentTarget.value })}>
            <option value="">Every cause</option>
            {causes.map((name) => (
              <option key={name} value={name}>
                {words(name)}
              </option>
            ))}
          </select>
        </label>
        <button type="button" aria-pressed={paused} onClick={() => (paused ? resume() : setPaused(true))}>
          {paused ? "Continue" : "Pause"} <kbd aria-hidden="true">P</kbd>
        </button>
        <span class="total">
          <b>{rate(buffer.rate())}</b> a second
          {buffer.dropped > 0 && <span class="warn">, {count(buffer.dropped)} left out by the server</span>}
        </span>
      </div>
      {connection.how === "refused" && connection.fault && <Problem fault={connection.fault} />}
      {more > 0 && (
        <button type="button" class="more" onClick={resume}>
          {count(more)} more
        </button>
      )}
      {total === 0 ? (
        connection.how !== "refused" && (
          <Empty title={nothing[connection.how].title}>{nothing[connection.how].because}</Empty>
        )
      ) : (
        <div
          class="watch"
          onScrollCapture={(event) => {
            const down = (event.target as HTMLElement).scrollTop > 4;
            if (down !== away) setAway(down);
          }}
        >
          <Virtual
            label="Changes, the newest first"
            total={total}
            rowHeight={28}
            columns={5}
            scroller={scroller}
            head={
              <div class="row head" role="row">
                <span role="columnheader" class="at">
                  At, UTC
                </span>
                <span role="columnheader" class="user">
                  User
                </span>
                <span role="columnheader" class="change">
                  Change
                </span>
                <span role="columnheader" class="cause">
                  Cause
                </span>
                <span role="columnheader" class="devs">
                  Devices
                </span>
              </div>
            }
            row={(i) => <Line key={end - i} index={i} row={buffer.all[end - 1 - i]!} />}
          />
        </div>
      )}
    </div>
  );
}

function Line({ row, index }: { row: FeedRow | Gap; index: number }) {
  if ("gap" in row)
    return (
      <div role="row" aria-rowindex={index + 2} class="row gap">
        <span role="gridcell">
          Changes from {clock(row.gap.from)} until {clock(row.gap.to)} are missing: the page was not connected
        </span>
      </div>
    );
  return (
    <div role="row" aria-rowindex={index + 2} class={`row to-${row.to}`}>
      <span role="gridcell" class="at mono" title={moment(row.at)}>
        {clock(row.at, true)}
      </span>
      <span role="gridcell" class="user">
        {row.user_id === null ? (
          <span class="dim">name not known</span>
        ) : (
          <a href={link("users", [row.user_id], { event: row.event_id, tenant: row.tenant })}>
            <bdi>{shown(row.user_id)}</bdi>
          </a>
        )}
        {row.tenant && <small> {row.tenant}</small>}
      </span>
      <span role="gridcell" class="change">
        <StateWord state={row.to} />
        <small>{row.from === row.to ? " unchanged" : ` was ${row.from}`}</small>
      </span>
      <span role="gridcell" class="cause">
        {words(row.cause)}
      </span>
      <span role="gridcell" class="devs">
        {kindsOf(row.kinds)}
      </span>
    </div>
  );
}
