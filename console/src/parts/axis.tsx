import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { clock, span } from "../format";
import type { Step } from "../policy";
import { short, timeline } from "../policy";
import type { Explanation } from "../types";

/** An instant, or with until a time, on the way to a change. kind is its colour. */
interface Moment {
  at: string;
  kind: string;
  label: string;
  until?: string;
}

/** What a change came from: what was known of the devices, the record, and the changes before. */
export function momentsOf(e: Explanation): Moment[] {
  const all: Moment[] = [];
  for (const d of e.replay?.before?.devices ?? []) {
    const of = `device ${d.device_id}`;
    all.push({ at: d.seen_at, kind: d.bye ? "bye" : "beat", label: `${d.bye ? "bye" : "last beat"} of ${of}` });
    if (d.until) all.push({ at: d.seen_at, until: d.until, kind: "ttl", label: `${of} is present for` });
    const idle = e.change.cause === "idle" && d.active_until;
    if (idle) all.push({ at: d.active_at ?? d.seen_at, until: idle, kind: "debounce", label: `${of} is active for` });
    if (d.held && d.until)
      all.push({ at: d.until, until: e.change.at, kind: "grace", label: `${of} may reconnect for` });
  }
  if (e.record) all.push({ at: e.record.time, kind: "record", label: e.record.kind });
  for (const r of e.record?.rows ?? []) {
    const kind = r.bye ? "bye" : "beat";
    all.push({ at: r.at, kind, label: `${kind} of device ${r.device_id} (${r.device_kind})` });
  }
  for (const c of [...e.before.slice(-3), e.change])
    all.push({ at: c.at, kind: "change", label: `${c.from} → ${c.to} (${c.cause})` });
  return all;
}

interface Laid {
  x: number;
  row: number;
  label: string;
  end: boolean;
}

/** Puts labels into as few rows as they need: each as wide as its text, at its instant, inside the picture. */
function layOut(labels: { x: number; label: string }[], width: number, letter: number): Laid[] {
  const free: number[] = [];
  return labels.map(({ x, label }) => {
    const wide = label.length * letter + 10;
    const end = x + wide > width;
    const from = end ? x - wide : x;
    let row = free.findIndex((until) => until <= from);
    if (row < 0) row = free.length;
    free[row] = from + wide;
    return { x, row, label, end };
  });
}

/** How wide a picture is, so that its text has the size of other text; otherwise until it is known. */
function useWidth(otherwise: number) {
  const picture = useRef<SVGSVGElement>(null);
  const [width, setWidth] = useState(otherwise);
  useLayoutEffect(() => {
    const look = new ResizeObserver(([entry]) => setWidth(Math.round(entry!.contentRect.width) || otherwise));
    if (picture.current) look.observe(picture.current);
    return () => look.disconnect();
  }, []);
  return { picture, width };
}

/** The moments of the change, and changes before and after that are not so far that nothing else could be seen. */
function near(moments: Moment[], at: string): Moment[] {
  const other = (m: Moment) => m.kind === "change" && m.at !== at;
  const own = moments.filter((m) => !other(m)).flatMap((m) => [Date.parse(m.at), Date.parse(m.until ?? m.at)]);
  const [from, to] = [Math.min(...own), Math.max(...own)];
  const room = 0.4 * (to - from);
  return moments.filter((m) => !other(m) || (Date.parse(m.at) >= from - room && Date.parse(m.at) <= to + room));
}

/** The record of a change and what was known: every instant at its place, spans of time as bars. */
export function WhyAxis({ moments, at }: { moments: Moment[]; at: string }) {
  const { picture, width } = useWidth(560);
  const sorted = near(moments, at).sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const times = sorted.flatMap((m) => [Date.parse(m.at), m.until ? Date.parse(m.until) : Date.parse(m.at)]);
  const from = Math.min(...times, Date.parse(at));
  const to = Math.max(...times, Date.parse(at), from + 1);
  const pad = 12;
  const x = (t: number) => pad + ((t - from) / (to - from)) * (width - 2 * pad);
  const bars = sorted.filter((m) => m.until);
  const points = sorted.filter((m) => !m.until);
  const laid = layOut(
    points.map((m) => ({ x: x(Date.parse(m.at)), label: `${clock(m.at, true)} ${m.label}` })),
    width,
    6.1,
  );
  const rows = Math.max(0, ...laid.map((l) => l.row)) + 1;
  const barTop = 10;
  const lane = 26;
  const line = barTop + bars.length * lane + 8;
  const height = line + 14 + rows * 18 + 4;
  return (
    <svg
      ref={picture}
      class="why-axis"
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={sorted.map((m) => `${clock(m.at, true)}: ${m.label}`).join("; ")}
    >
      {bars.map((m, i) => {
        const a = x(Date.parse(m.at));
        const b = x(Date.parse(m.until!));
        const text = `${m.label} ${span((Date.parse(m.until!) - Date.parse(m.at)) / 1000)}`;
        const wide = text.length * 6.1 + 10;
        const inside = b - a > wide;
        const left = !inside && b + wide > width;
        return (
          <g key={`${m.at}${m.kind}`} class={`bar ${m.kind}`}>
            <rect x={a} y={barTop + i * lane} width={Math.max(2, b - a)} height={18} rx={2} />
            <line x1={b} x2={b} y1={barTop + i * lane} y2={line} />
            <text
              x={inside ? a + 6 : left ? a - 5 : b + 5}
              y={barTop + i * lane + 13}
              text-anchor={left ? "end" : "start"}
              class={inside ? "in" : ""}
            >
              {text}
            </text>
          </g>
        );
      })}
      <line class="base" x1={0} x2={width} y1={line} y2={line} />
      {points.map((m, i) => {
        const l = laid[i]!;
        const y = line + 22 + l.row * 18;
        return (
          <g key={`${m.at}${m.kind}${m.label}`} class={`point ${m.kind}`}>
            <line x1={l.x} x2={l.x} y1={line} y2={y - 9} />
            <circle cx={l.x} cy={line} r={3.5} />
            <text x={l.end ? l.x + 4 : l.x - 4} y={y} text-anchor={l.end ? "end" : "start"}>
              {l.label}
            </text>
          </g>
        );
      })}
    </svg>
  );
}

/** What others see after a last heartbeat, drawn to scale: nearly, for short spans stay visible. */
export function LastBeat({ texts, longest, title }: { texts: Record<string, string>; longest: number; title: string }) {
  const { picture, width } = useWidth(400);
  const steps = timeline(texts);
  if (!steps)
    return <p class="note">A time to live or a debounce is no duration such as 45s, so nothing can be drawn.</p>;
  // The square root keeps seconds visible beside minutes.
  const x = (s: number) => Math.sqrt(s / longest) * (width - 20);
  const last = steps[steps.length - 1]!;
  const shown: (Step & { until: number })[] = steps.map((step, i) => ({
    ...step,
    until: steps[i + 1]?.after ?? longest,
  }));
  const beat = heartbeatOf(texts);
  const said = steps.map((s) => `after ${short(s.after)} ${s.state}: ${s.why}`).join("; ");
  const labels = layOut(
    steps.map((s) => ({ x: x(s.after), label: `+${short(s.after)}` })),
    width,
    6.6,
  );
  return (
    <figure class="last-beat">
      <figcaption>{title}</figcaption>
      <svg
        ref={picture}
        viewBox={`0 0 ${width} ${labels.some((l) => l.row > 0) ? 64 : 50}`}
        role="img"
        aria-label={said}
      >
        {shown.map((s, i) => (
          <g key={s.after} class={`step ${s.state} ${i === 1 && s.state === "online" ? "waiting" : ""}`}>
            <rect x={x(s.after)} y={8} width={Math.max(1, x(s.until) - x(s.after) - 1)} height={22} rx={2} />
            {x(s.until) - x(s.after) > 56 && (
              <text x={x(s.after) + 7} y={23}>
                {i === 1 && s.state === "online" ? "debounce" : s.state}
              </text>
            )}
          </g>
        ))}
        {beat > 0 &&
          beat < last.after &&
          Array.from({ length: Math.min(40, Math.floor(last.after / beat)) }, (_, i) => (
            <line key={i} class="missed" x1={x((i + 1) * beat)} x2={x((i + 1) * beat)} y1={2} y2={7} />
          ))}
        {labels.map((l) => (
          <g key={l.label} class="mark">
            <line x1={l.x} x2={l.x} y1={30} y2={36 + l.row * 13} />
            <text x={l.end ? l.x - 3 : l.x} y={46 + l.row * 13} text-anchor={l.end ? "end" : "start"}>
              {l.label}
            </text>
          </g>
        ))}
      </svg>
    </figure>
  );
}

function heartbeatOf(texts: Record<string, string>): number {
  const match = /^(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?$/.exec(texts["heartbeat-interval"] ?? "");
  return match ? Number(match[1] ?? 0) * 60 + Number(match[2] ?? 0) : 0;
}
