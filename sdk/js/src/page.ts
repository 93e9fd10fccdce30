/**
 * When the person last touched this page. Outside of pages the program itself counts as the person: now. The clock
 * is monotonic: a wall clock that somebody sets makes nobody idle. It may stand still while the machine sleeps.
 */
export class Touches {
  /** As performance.now(), which each tab counts for itself; undefined: there is no page. */
  #at: number | undefined;
  readonly #ends = new AbortController();

  /** onTouch gets how long nobody had touched the page before, in milliseconds, at most once a second. */
  constructor(onTouch: (idle: number) => void) {
    if (typeof document === "undefined") return;
    this.#at = performance.now();
    const touch = () => {
      const { idle } = this;
      if (idle < 1000) return;
      this.touched();
      onTouch(idle);
    };
    const options = { capture: true, passive: true, signal: this.#ends.signal };
    for (const name of ["pointerdown", "pointermove", "keydown", "wheel", "touchstart", "scroll"])
      addEventListener(name, touch, options);
    const shown = () => document.visibilityState === "visible" && touch();
    document.addEventListener("visibilitychange", shown, options);
  }

  get idle(): number {
    return this.#at === undefined ? 0 : performance.now() - this.#at;
  }

  /** The person touches this or another tab now, or the program knows better. */
  touched() {
    if (this.#at !== undefined) this.#at = performance.now();
  }

  close() {
    this.#ends.abort();
  }
}

/** Calls what a page's life asks for, until signal aborts: it goes, it comes back, it should look at once, it has no network. */
export function onLife(
  calls: { leave(): void; freeze(): void; back(): void; wake(): void; offline(): void },
  signal: AbortSignal,
) {
  if (typeof document === "undefined") return;
  addEventListener("pagehide", calls.leave, { signal });
  addEventListener("pageshow", (event) => event.persisted && calls.back(), { signal });
  document.addEventListener("freeze", calls.freeze, { signal });
  document.addEventListener("resume", calls.back, { signal });
  addEventListener("online", calls.wake, { signal });
  addEventListener("offline", calls.offline, { signal });
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && calls.wake(), {
    signal,
  });
}

/**
 * The id of this device, which all tabs have in common: kept where the browser keeps things, else it is
 * a new one. A number of 31 bits, which is right with --ids int and with --ids text.
 */
export function deviceId(): string {
  const fresh = String(1 + ((crypto.getRandomValues(new Uint32Array(1))[0]! >>> 1) % 0x7ffffffe));
  try {
    const kept = localStorage.getItem("stillhere.device") ?? "";
    if (/^[1-9]\d{0,9}$/.test(kept)) return kept;
    localStorage.setItem("stillhere.device", fresh);
  } catch {
    // Node, or a page that may keep nothing.
  }
  return fresh;
}
