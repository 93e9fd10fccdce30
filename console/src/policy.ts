// The settings of a policy, and what becomes of a user after a last heartbeat. The rules are those of
// internal/policy/timeline.go.
import type { Settings, State } from "./types";

export interface Setting {
  /** As its flag, without dashes before it. */
  name: string;
  kind: "duration" | "number" | "switch";
  help: string;
  group: "timing" | "gateways" | "limits";
}

const timing = (name: string, help: string): Setting => ({ name, kind: "duration", help, group: "timing" });
const gateways = (name: string, kind: Setting["kind"], help: string): Setting => ({
  name,
  kind,
  help,
  group: "gateways",
});
const limits = (name: string, kind: Setting["kind"], help: string): Setting => ({ name, kind, help, group: "limits" });

export const settings: readonly Setting[] = [
  timing("heartbeat-interval", "How often devices send heartbeats."),
  timing("heartbeat-jitter", "By how much the time between two heartbeats is shorter at most."),
  timing("online-ttl", "How long a device is live after a heartbeat."),
  timing("offline-debounce", "Extra silence before the end of online is published."),
  timing("away-ttl", "A silent user is away until this long after the last heartbeat, then offline."),
  timing("idle-after", "A live device that nobody touched for this long counts as away; 0: never."),
  timing("bye-debounce", "Extra wait after the last device said bye."),
  gateways("gateway-silence", "duration", "A gateway that was silent for this long counts as lost."),
  gateways("reconnect-window", "duration", "Extra time for the devices of a lost gateway to reconnect."),
  gateways("cohort-rate", "number", "Devices of lost gateways that may go offline per second and partition."),
  gateways("cohort-total-rate", "number", "The same in all partitions together."),
  gateways("breaker-percent", "number", "Percentage of devices on silent gateways above which presence time stops."),
  gateways("breaker-limit", "duration", "Longest time for which presence time stops."),
  limits("allowed-lateness", "duration", "How long a limit waits for delayed heartbeats."),
  limits("announce-devices", "switch", "Publish changes in the set of device kinds."),
  limits("max-devices", "number", "Maximum devices of one user through one gateway."),
  limits("flap-burst", "number", "Changes of one user that may be published at once; 0: no limit."),
  limits("flap-interval", "duration", "Time between two changes of a user who has used up the burst."),
];

/** A Go duration (1m30s, 250ms, 0) in seconds; NaN if it is none. */
export function seconds(text: string): number {
  const trimmed = text.trim();
  if (/^0+(\.0*)?$/.test(trimmed)) return 0;
  if (!/^(\d+(\.\d+)?(h|m|s|ms))+$/.test(trimmed)) return Number.NaN;
  const sizes: Record<string, number> = { h: 3600, m: 60, s: 1, ms: 0.001 };
  let sum = 0;
  for (const [, n, unit] of trimmed.matchAll(/(\d+(?:\.\d+)?)(ms|h|m|s)/g)) sum += Number(n) * sizes[unit!]!;
  return sum;
}

/** Seconds as a Go duration without zero parts. */
export function short(s: number): string {
  if (s === 0) return "0s";
  if (s < 1) return `${Math.round(s * 1000)}ms`;
  const h = Math.floor(s / 3600);
  const m = Math.floor((s - h * 3600) / 60);
  const rest = Number((s - h * 3600 - m * 60).toFixed(3));
  return `${h ? `${h}h` : ""}${m ? `${m}m` : ""}${rest ? `${rest}s` : ""}`;
}

/** The text of each setting by flag name, from what the server says: online_ttl_seconds: 30, or "online-ttl": "30s". */
export function textsOf(said: Settings | null | undefined): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(said ?? {})) {
    const flag = name.replace(/_seconds$/, "").replaceAll("_", "-");
    const known = settings.find((s) => s.name === flag);
    if (known?.kind === "duration") {
      const s = typeof value === "number" ? value : seconds(String(value));
      texts[flag] = Number.isNaN(s) ? String(value) : short(s);
    } else texts[flag] = String(value);
  }
  return texts;
}

export interface Step {
  after: number; // seconds
  state: State;
  why: string;
}

/** What others see of a user whose device sends one last heartbeat; null if a setting is no duration. */
export function timeline(texts: Record<string, string>): Step[] | null {
  const online = seconds(texts["online-ttl"] ?? "");
  const debounce = seconds(texts["offline-debounce"] ?? "");
  const away = seconds(texts["away-ttl"] ?? "");
  if ([online, debounce, away].some(Number.isNaN)) return null;
  const silent = online + debounce;
  const steps: Step[] = [{ after: 0, state: "online", why: "the last heartbeat" }];
  if (debounce > 0)
    steps.push({
      after: online,
      state: "online",
      why: `not live any more; a heartbeat within ${short(debounce)} is in time`,
    });
  if (away > silent)
    return [
      ...steps,
      { after: silent, state: "away", why: "nothing was heard" },
      { after: away, state: "offline", why: "still nothing" },
    ];
  return [...steps, { after: silent, state: "offline", why: "nothing was heard" }];
}
