import type { Points } from "../types";

const width = 240;

/** The line and the area below it, with gaps where a value is not known. */
export function pathOf(points: Points, height: number, most: number): { line: string; area: string } {
  const step = width / Math.max(1, points.length - 1);
  let line = "";
  let area = "";
  let from = -1;
  const y = (n: number) => (height - 1 - (n / most) * (height - 2)).toFixed(1);
  points.forEach((n, i) => {
    if (n === null) {
      if (from >= 0) area += `L${((i - 1) * step).toFixed(1)} ${height}Z`;
      from = -1;
      return;
    }
    const at = `${(i * step).toFixed(1)} ${y(n)}`;
    line += `${from < 0 ? "M" : "L"}${at}`;
    area += from < 0 ? `M${(i * step).toFixed(1)} ${height}L${at}` : `L${at}`;
    if (from < 0) from = i;
  });
  if (from >= 0) area += `L${((points.length - 1) * step).toFixed(1)} ${height}Z`;
  return { line, area };
}

/** A quarter of an hour as a line without axes; the largest and the smallest value are in its title. */
export function Spark({
  points,
  label,
  height = 32,
  zero = true,
}: {
  points: Points | undefined;
  label: string;
  height?: number;
  zero?: boolean;
}) {
  const known = (points ?? []).filter((n): n is number => n !== null);
  if (!points || known.length < 2) return <div class="spark none">no values yet</div>;
  const most = Math.max(...known);
  const least = zero ? 0 : Math.min(...known);
  const shifted = least ? points.map((n) => (n === null ? null : n - least)) : points;
  const { line, area } = pathOf(shifted, height, Math.max(1e-9, most - least));
  return (
    <svg class="spark" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path class="area" d={area} />
      <path class="line" d={line} />
    </svg>
  );
}
