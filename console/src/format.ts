// Numbers and times as people read them.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const count = (n: number | null | undefined) => (n == null ? "–" : whole.format(n));

/** A rate: one decimal below ten. */
export function rate(n: number | null | undefined): string {
  if (n == null) return "–";
  if (n === 0 || n >= 10) return whole.format(n);
  return n < 0.05 ? "<0.1" : n.toFixed(1);
}

/** A number of seconds: 0.3 s, 12 s, 3 m 20 s, 2 h 5 m, 3 d 4 h. */
export function span(seconds: number | null | undefined): string {
  if (seconds == null || Number.isNaN(seconds)) return "–";
  const sign = seconds < 0 ? "−" : "";
  const s = Math.abs(seconds);
  if (s < 9.95) return `${sign}${Number(s.toFixed(1))} s`;
  if (s < 59.5) return `${sign}${Math.round(s)} s`;
  const parts: [number, string][] = [
    [86400, "d"],
    [3600, "h"],
    [60, "m"],
    [1, "s"],
  ];
  let left = Math.round(s);
  const said: string[] = [];
  for (const [size, unit] of parts) {
    const n = Math.floor(left / size);
    left -= n * size;
    if (n || said.length) said.push(`${n} ${unit}`);
    if (said.length === 2) break;
  }
  return sign + said.filter((part) => !part.startsWith("0 ")).join(" ");
}

const two = (n: number) => String(n).padStart(2, "0");

/** The time of day in UTC, as the command line and the log have it. */
export function clock(at: string | number | null | undefined, ms = false): string {
  if (at == null) return "–";
  const text = new Date(at).toISOString();
  return text.slice(11, ms ? 23 : 19);
}

/** Day and time in UTC. */
export function moment(at: string | number | null | undefined, ms = false): string {
  if (at == null) return "–";
  return `${new Date(at).toISOString().slice(0, 10)} ${clock(at, ms)}`;
}

/** How long before now. */
export function ago(at: string | null | undefined, now: number): string {
  if (at == null) return "–";
  const s = (now - Date.parse(at)) / 1000;
  return s < 1 ? "now" : `${span(Math.floor(s))} ago`;
}

/** How long since. */
export function since(at: string | null | undefined, now: number): string {
  return at == null ? "–" : span(Math.max(0, Math.floor((now - Date.parse(at)) / 1000)));
}

export function dayOf(at: number): string {
  const d = new Date(at);
  return `${["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][d.getUTCDay()]} ${two(d.getUTCDate())}`;
}

export function bytes(n: number): string {
  return n < 1000 ? `${n} B` : n < 1e6 ? `${(n / 1000).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`;
}

/** A name with its invisible characters as ‹U+200B›, but for the joiners within an emoji. */
export const shown = (name: string) =>
  name.replace(/[\p{Cc}\p{Cf}]/gu, (found, at: number) =>
    found === "\u200d" && /\p{Extended_Pictographic}\ufe0f?$/u.test(name.slice(0, at))
      ? found
      : `‹U+${found.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}›`,
  );

/** first_beat as "first beat". */
export const words = (name: string | null | undefined) => (name ?? "").replaceAll("_", " ");

/** The kinds of devices; if some are online, it says which are not. */
export function kindsOf(states: Record<string, string> | null | undefined): string {
  const all = Object.entries(states ?? {});
  const mixed = all.some(([, state]) => state === "online");
  return all.map(([kind, state]) => (mixed && state === "away" ? `${kind} (away)` : kind)).join(", ");
}
