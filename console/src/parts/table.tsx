import type { ComponentChildren } from "preact";
import { Empty } from "./basic";

/** A column of a table. */
export interface Column<T> {
  title: string;
  /** Whether the title is only read aloud. */
  aside?: boolean;
  cell: (row: T) => ComponentChildren;
  /** How its cells look: n for numbers, cut for texts that may be shortened. */
  look?: "n" | "cut" | "mono" | "fill";
  /** How a cell looks besides. */
  mark?: (row: T) => string;
  /** What is said of a cell when the pointer rests on it. */
  hint?: (row: T) => string;
}

interface Rows<T> {
  rows: T[];
  columns: Column<T>[];
  keyOf: (row: T, i: number) => string | number;
  /** Of a row. */
  mark?: (row: T) => string;
  class?: string;
  caption?: string;
}

/** A table whose first column names the row. */
export function Table<T>({ rows, columns, keyOf, mark, class: name, caption }: Rows<T>) {
  return (
    <table class={name}>
      {caption && <caption>{caption}</caption>}
      <thead>
        <tr>
          {columns.map((c) => (
            <th key={c.title} scope="col" class={c.look === "n" ? "n" : ""}>
              {c.aside ? <span class="away-from-eyes">{c.title}</span> : c.title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, n) => (
          <tr key={keyOf(row, n)} class={mark?.(row)}>
            {columns.map((c, i) => {
              const looks = { class: [c.look, c.mark?.(row)].filter(Boolean).join(" "), title: c.hint?.(row) };
              return i === 0 ? (
                <th key={c.title} scope="row" {...looks}>
                  {c.cell(row)}
                </th>
              ) : (
                <td key={c.title} {...looks}>
                  {c.cell(row)}
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A table of a panel, which scrolls by itself; or that there is nothing, or that nothing is known (null). */
export function List<T>({
  rows,
  label,
  height = "",
  none,
  why,
  unknown,
  ...table
}: Omit<Rows<T>, "rows"> & {
  rows: T[] | null;
  label: string;
  height?: "short" | "middle" | "";
  none: string;
  why?: string;
  unknown?: string;
}) {
  if (!rows) return <Empty title="Not known here">{unknown}</Empty>;
  if (rows.length === 0) return <Empty title={none}>{why}</Empty>;
  return (
    <div class={`scroll ${height}`} tabIndex={0} role="group" aria-label={label}>
      <Table rows={rows} {...table} />
    </div>
  );
}
