import { clock, dayOf, moment, words } from "../format";
import type { Change, State } from "../types";

const day = 86_400_000;

export interface Stay {
  from: number;
  to: number;
  state: State | null;
  cause: string;
}

/** What is true of a user now. */
export interface Present {
  state: State | null;
  /** Unix milliseconds. */
  since: number;
}

/**
 * What the state was between the changes. Before the first change that is known it is null, unless that change names
 * what was. Without any change it is what it is now, from when that began.
 */
export function stays(changes: Change[], from: number, to: number, complete: boolean, present?: Present): Stay[] {
  if (changes.length === 0 && complete && present && present.since < to)
    return [{ from: Math.max(from, present.since), to, state: present.state, cause: "" }];
  const sorted = changes.map((c) => ({ ...c, time: Date.parse(c.at) })).sort((a, b) => a.time - b.time);
  const all: Stay[] = [];
  let at = from;
  // What was before the oldest change of an unfinished list is not known.
  let state: State | null = complete ? (sorted[0]?.from ?? null) : null;
  let cause = "";
  for (const change of sorted) {
    if (change.time > at && at < to) all.push({ from: at, to: Math.min(change.time, to), state, cause });
    if (change.time > at) at = change.time;
    state = change.to;
    cause = change.cause;
  }
  if (at < to) all.push({ from: at, to, state, cause });
  // Changes of devices alone do not end a stay.
  return all.reduce<Stay[]>((kept, stay) => {
    const before = kept[kept.length - 1];
    if (before && before.state === stay.state) before.to = stay.to;
    else kept.push(stay);
    return kept;
  }, []);
}

/** The last days as bars of 24 hours, in UTC, the newest first. */
export function Days({
  changes,
  now,
  days,
  complete,
  present,
}: {
  changes: Change[];
  now: number;
  days: number;
  complete: boolean;
  present?: Present | undefined;
}) {
  const today = Math.floor(now / day) * day;
  const first = today - (days - 1) * day;
  const oldest = Math.min(...changes.map((c) => Date.parse(c.at)), now);
  const all = stays(changes, complete ? first : Math.max(first, oldest), now, complete, present);
  const width = 520;
  const x = (t: number, begin: number) => ((t - begin) / day) * width;
  return (
    <div class="days">
      {Array.from({ length: days }, (_, i) => today - i * day).map((begin) => {
        const own = all.filter((s) => s.to > begin && s.from < begin + day && s.state);
        const online = own.reduce(
          (sum, s) => sum + (s.state === "online" ? Math.min(s.to, begin + day) - Math.max(s.from, begin) : 0),
          0,
        );
        return (
          <div class="day" key={begin}>
            <span class="name">{dayOf(begin)}</span>
            <svg
              viewBox={`0 0 ${width} 14`}
              preserveAspectRatio="none"
              role="img"
              aria-label={`${moment(begin).slice(0, 10)}: online for ${Math.round(online / 60000)} minutes`}
            >
              <rect class="track" x={0} y={0} width={begin === today ? x(now, begin) : width} height={14} />
              {own.map((s) => {
                const a = Math.max(0, x(s.from, begin));
                const b = Math.min(width, x(s.to, begin));
                return (
                  <rect key={s.from} class={s.state!} x={a} y={0} width={Math.max(1.2, b - a)} height={14}>
                    <title>
                      {s.state} {clock(s.from)} to {clock(s.to)}
                      {s.cause && `, ${words(s.cause)}`}
                    </title>
                  </rect>
                );
              })}
            </svg>
            <span class="sum">{online >= 60_000 ? hours(online) : "–"}</span>
          </div>
        );
      })}
      <div class="day hours" aria-hidden="true">
        <span />
        <span class="scale">
          {[0, 6, 12, 18, 24].map((h) => (
            <i key={h}>{h}</i>
          ))}
        </span>
        <span />
      </div>
    </div>
  );
}

function hours(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  const h = Math.floor(minutes / 60);
  return `${h ? `${h} h ` : ""}${minutes % 60} m`;
}
