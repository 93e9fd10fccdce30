import { useCallback, useMemo, useRef, useState } from "preact/hooks";
import { address, type Event } from "./api";
import { learnClock, useLive } from "./live";
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
  if (wanted < length) return past;
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

/** The history that begins with an overview. */
const began = (now: Overview): Past => ({
  from: now.at,
  step_seconds: 5,
  online: [now.counts?.online ?? null],
  away: [now.counts?.away ?? null],
  beats: [now.rates?.beats ?? null],
  changes: [now.rates?.changes ?? null],
  deliveries: [now.rates?.deliveries ?? null],
});

/** The newest overview, each second, and those of the last 15 minutes that came while the page was open. */
export function useOverview(session: number, on: boolean): Live {
  const [now, setNow] = useState<{ overview: Overview; cameAt: number } | undefined>();
  const past = useRef<{ session: number; of: Past } | undefined>(undefined);
  const take = useCallback(
    (event: Event) => {
      if (event.name !== "overview") return;
      const overview: Overview = JSON.parse(event.data);
      learnClock(overview.at);
      const known = past.current?.session === session && past.current.of; // another session has other users
      past.current = { session, of: known ? append(known, overview) : began(overview) };
      setNow({ overview, cameAt: Date.now() });
    },
    [session],
  );
  const url = useMemo(() => {
    if (!on) return null;
    const made = address("console/api/overview/stream");
    made.hash = String(session); // another session is another connection
    return made.href;
  }, [session, on]);
  const link = useLive(url, take, idle);
  return {
    link,
    cameAt: now?.cameAt ?? 0,
    ...(now && { now: now.overview }),
    ...(past.current && { past: past.current.of }),
  };
}
