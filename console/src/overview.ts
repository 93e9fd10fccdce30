import { useCallback, useMemo, useRef, useState } from "preact/hooks";
import { address, type Event, get } from "./api";
import { learnClock, useLive, useLoad } from "./live";
import type { Link } from "./stream";
import type { Overview, Past } from "./types";

/** How long the server may send nothing before the connection counts as lost. It sends one overview each second. */
const idle = 8_000;
const rates = ["beats", "changes", "deliveries"] as const;
const span = 900; // seconds of history

export interface Live {
  now?: Overview;
  /** When now came, by this machine's clock. */
  cameAt: number;
  past?: Past;
  link: Link;
}

/** Adds an overview to the history, where its instant belongs to the next step. */
export function append(past: Past, now: Overview): Past {
  const step = past.step_seconds;
  const wanted = Math.floor((Date.parse(now.at) - Date.parse(past.from)) / 1000 / step);
  const length = past.online.length;
  if (wanted < length || step <= 0) return past;
  const most = Math.ceil(span / step);
  // After a gap the steps between are not known.
  const gap: null[] = Array(Math.min(wanted - length, most)).fill(null);
  const cut = Math.max(0, wanted + 1 - most);
  const grown = (points: (number | null)[], value: number | null) => [...points, ...gap, value].slice(-most);
  const next: Past = {
    from: new Date(Date.parse(past.from) + cut * step * 1000).toISOString(),
    step_seconds: step,
    online: grown(past.online, now.counts?.online ?? null),
    away: grown(past.away, now.counts?.away ?? null),
    beats: past.beats,
    changes: past.changes,
    deliveries: past.deliveries,
  };
  for (const name of rates) next[name] = grown(past[name], now.rates?.[name] ?? null);
  return next;
}

/** The newest overview, each second, and the last 15 minutes. */
export function useOverview(session: number, on: boolean): Live {
  const [now, setNow] = useState<{ overview: Overview; cameAt: number } | undefined>();
  const past = useRef<Past | undefined>(undefined);
  // History is loaded again after each reconnect, for it has what was missed.
  const [opened, setOpened] = useState(0);
  useLoad(
    on
      ? async (signal) => {
          const first = await get<Overview>("console/api/overview", { history: 1 }, signal);
          past.current = first.history;
          setNow((old) => old ?? { overview: first, cameAt: Date.now() });
        }
      : null,
    [session, opened, on],
  );
  const take = useCallback((event: Event) => {
    if (event.name !== "overview") return;
    const overview: Overview = JSON.parse(event.data);
    learnClock(overview.at);
    if (past.current) past.current = append(past.current, overview);
    setNow({ overview, cameAt: Date.now() });
  }, []);
  const url = useMemo(() => {
    if (!on) return null;
    const made = address("console/api/overview/stream");
    made.hash = String(session); // another session is another connection
    return made.href;
  }, [session, on]);
  const link = useLive(url, take, idle);
  const live = link.how === "live";
  const was = useRef(live);
  if (live !== was.current) {
    was.current = live;
    if (live && now) setOpened((n) => n + 1);
  }
  return {
    link,
    cameAt: now?.cameAt ?? 0,
    ...(now && { now: now.overview }),
    ...(past.current && { past: past.current }),
  };
}
