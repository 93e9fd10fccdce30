import { useEffect, useRef, useState } from "preact/hooks";
import { type Event, events, Fault } from "./api";

/** How a live connection is. A connection that is lost is tried again after a while. */
export interface Link {
  how: "connecting" | "live" | "lost" | "refused";
  fault?: Fault;
  /** Of lost: when it is tried again, in Unix milliseconds. */
  retryAt?: number;
}

/** For how long a page that nobody sees keeps its streams, in milliseconds. */
const hideAfter = 5_000;

/** Statuses at which trying again does not help. */
const final = (fault: Fault) =>
  fault.status >= 400 && fault.status < 500 && fault.status !== 408 && fault.status !== 429;

/**
 * Keeps a stream of events open. Changing url opens another one; null closes it. It is live from the server's first
 * event on. A connection that was lost is opened again behind the last event that had an id; take gets an event
 * "reopened" first, with that id. A page that nobody sees closes its streams until it is seen: a browser has six
 * connections to a server, for all of its tabs.
 */
export function useLive(url: string | null, take: (event: Event) => void, idle = 0): Link {
  const [link, setLink] = useState<Link>({ how: "connecting" });
  const last = useRef(take);
  last.current = take;
  useEffect(() => {
    if (url === null) return;
    const stop = new AbortController();
    let tries = 0;
    let timer = 0;
    let behind: string | undefined;
    let lost = false;
    let own = stop;
    let hiding = 0;
    let asleep = false;
    const run = async () => {
      timer = 0;
      own = new AbortController();
      const signal = AbortSignal.any([stop.signal, own.signal]);
      let fault = new Fault(0, "ended", "The server closed the connection.");
      // A server that has answered may still look for the end of a log: what passes before its first event is not sent.
      let heard = false;
      try {
        const from = new URL(url);
        if (behind !== undefined) from.searchParams.set("since", behind);
        for await (const event of events(from, { signal }, idle)) {
          if (event.name === "error") {
            const { status = 0, code = "ended", message } = JSON.parse(event.data).error;
            throw new Fault(status, code, message);
          }
          if (!heard) {
            heard = true;
            tries = 0;
            setLink({ how: "live" });
            if (lost) last.current({ name: "reopened", data: "", ...(behind !== undefined && { id: behind }) });
            lost = false;
          }
          behind = event.id ?? behind;
          last.current(event);
        }
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof Fault)) fault = new Fault(0, "lost", "The connection was lost.");
        else fault = error;
      }
      if (signal.aborted) return;
      if (final(fault)) return setLink({ how: "refused", fault });
      lost = true;
      const wait = Math.min(15_000, 500 * 2 ** tries++) * (0.75 + Math.random() / 4);
      setLink({ how: "lost", fault, retryAt: Date.now() + wait });
      timer = window.setTimeout(run, wait);
    };
    const now = () => {
      clearTimeout(timer);
      if (!stop.signal.aborted && timer) {
        timer = 0;
        run();
      }
    };
    const seen = () => {
      clearTimeout(hiding);
      if (document.hidden)
        hiding = window.setTimeout(() => {
          clearTimeout(timer);
          timer = 0;
          asleep = lost = true;
          own.abort();
          setLink({ how: "connecting" });
        }, hideAfter);
      else if (asleep) {
        asleep = false;
        run();
      }
    };
    setLink({ how: "connecting" });
    run();
    if (document.hidden) seen(); // of a page that was opened in the background
    document.addEventListener("visibilitychange", seen);
    window.addEventListener("online", now);
    return () => {
      stop.abort();
      clearTimeout(timer);
      clearTimeout(hiding);
      document.removeEventListener("visibilitychange", seen);
      window.removeEventListener("online", now);
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
