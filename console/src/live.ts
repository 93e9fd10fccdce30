import { useEffect, useRef, useState } from "preact/hooks";
import { type Event, Fault } from "./api";
import { type Link, LiveStream } from "./stream";

/** What a component sees of a LiveStream; see there. Changing url opens another one; null closes it. */
export function useLive(url: string | null, take: (event: Event) => void, idle = 0): Link {
  const [link, setLink] = useState<Link>({ how: "connecting" });
  const last = useRef(take);
  last.current = take;
  useEffect(() => {
    if (url === null) return;
    const stream = new LiveStream(url, idle, (event) => last.current(event), setLink);
    const visibility = () => stream.setHidden(document.hidden);
    const online = () => stream.tryNow();
    document.addEventListener("visibilitychange", visibility);
    window.addEventListener("online", online);
    visibility(); // of a page that was opened in the background
    return () => {
      stream.close();
      document.removeEventListener("visibilitychange", visibility);
      window.removeEventListener("online", online);
    };
  }, [url, idle]);
  return link;
}

export interface Loaded<T> {
  value?: T;
  fault?: Fault;
  loading: boolean;
  again: () => void;
}

/**
 * Loads something, again when a dependency changes and when again is called. The old value stays until then. A load
 * that another one replaces changes nothing.
 */
export function useLoad<T>(load: ((signal: AbortSignal) => Promise<T>) | null, deps: unknown[]): Loaded<T> {
  const [, redraw] = useState(0);
  const [turn, setTurn] = useState(0);
  const held = useRef<{ value?: T | undefined; fault?: Fault | undefined; loading: boolean; deps: string }>({
    loading: true,
    deps: "",
  });
  useEffect(() => {
    const stop = new AbortController();
    const now = held.current;
    const id = JSON.stringify(deps);
    if (now.deps !== id) now.value = undefined;
    now.deps = id;
    now.fault = undefined;
    now.loading = load !== null;
    redraw((n) => n + 1);
    const end = (result: { value?: T; fault?: Fault }) => {
      if (stop.signal.aborted) return;
      Object.assign(now, { loading: false, fault: undefined }, result);
      redraw((n) => n + 1);
    };
    const loading = load && (async () => load(stop.signal))(); // it may throw at once
    loading?.then(
      (value) => end({ value }),
      (error) => end({ fault: error instanceof Fault ? error : new Fault(0, "broken", String(error)) }),
    );
    return () => stop.abort();
  }, [...deps, turn]);
  return { ...held.current, again: () => setTurn((n) => n + 1) } as Loaded<T>;
}

/** By how much the server's clock is ahead of this machine's, in milliseconds. */
let ahead = 0;

/** Learns the server's clock from an answer's instant. Answers are late by less than the tolerance. */
export function learnClock(at: string) {
  const by = Date.parse(at) - Date.now();
  ahead = Math.abs(by) > 2000 ? by : 0;
}

/** The server's time, in Unix milliseconds. */
export const serverNow = () => Date.now() + ahead;

/** The server's time. Draws again each second, for times that say how long ago. */
export function useClock(ms = 1000): number {
  const [, redraw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => redraw((n) => n + 1), ms);
    return () => clearInterval(timer);
  }, [ms]);
  return serverNow();
}

/** What this machine's clock says at an instant of the server's clock. */
export const ours = (time: number) => time - ahead;
