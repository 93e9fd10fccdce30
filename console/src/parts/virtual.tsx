import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Browsers do not lay out boxes that are much higher. */
const tallest = 8_000_000;

export interface Window {
  first: number;
  end: number;
}

/** A list of which only the rows in view exist. Beyond 8 million pixels the scroll bar moves by more than it shows. */
export function Virtual({
  total,
  rowHeight,
  row,
  onWindow,
  label,
  columns,
  scroller,
  selected,
  onKey,
  head,
}: {
  total: number;
  rowHeight: number;
  row: (index: number) => ComponentChildren;
  onWindow?: (seen: Window) => void;
  label: string;
  columns: number;
  scroller?: RefObject<HTMLDivElement | null>;
  selected?: number;
  onKey?: (event: KeyboardEvent) => void;
  head: ComponentChildren;
}) {
  const own = useRef<HTMLDivElement>(null);
  const box = scroller ?? own;
  const [view, setView] = useState({ top: 0, height: 600 });
  const frame = useRef(0);
  useEffect(() => {
    const element = box.current!;
    const measure = () => {
      frame.current = 0;
      setView((old) =>
        old.top === element.scrollTop && old.height === element.clientHeight
          ? old
          : { top: element.scrollTop, height: element.clientHeight },
      );
    };
    const later = () => {
      if (!frame.current) frame.current = requestAnimationFrame(measure);
    };
    const size = new ResizeObserver(later);
    size.observe(element);
    element.addEventListener("scroll", later, { passive: true });
    measure();
    return () => {
      size.disconnect();
      element.removeEventListener("scroll", later);
      cancelAnimationFrame(frame.current);
    };
  }, []);
  const full = total * rowHeight;
  const height = Math.min(full, tallest);
  // Of a list that is too tall, the scroll bar's whole way is the list's whole way.
  const scale = full > height ? (full - view.height) / (height - view.height) : 1;
  const position = (view.top * scale) / rowHeight;
  const first = Math.max(0, Math.min(Math.floor(position), total - 1));
  const end = Math.min(total, first + Math.ceil(view.height / rowHeight) + 2);
  const shift = view.top - (position - first) * rowHeight;
  useEffect(() => onWindow?.({ first, end }), [first, end, total]);
  useLayoutEffect(() => {
    if (selected === undefined || selected < 0) return;
    const element = box.current!;
    const at = (selected * rowHeight) / scale;
    if (at < element.scrollTop) element.scrollTop = at;
    else if (at + rowHeight > element.scrollTop + element.clientHeight)
      element.scrollTop = at + rowHeight - element.clientHeight;
  }, [selected]);
  const rows = [];
  for (let i = first; i < end; i++) rows.push(row(i));
  return (
    <div class="grid" role="grid" aria-label={label} aria-rowcount={total + 1} aria-colcount={columns}>
      {head}
      <div class="scroll" role="rowgroup" ref={box} tabIndex={0} onKeyDown={onKey} aria-label={label}>
        <div class="tall" style={{ height: `${height}px` }}>
          <div class="rows" role="presentation" style={{ transform: `translateY(${Math.max(0, shift)}px)` }}>
            {rows}
          </div>
        </div>
      </div>
    </div>
  );
}
