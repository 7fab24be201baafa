/** Columns of a table of the page, by name. */

import type { ResultTable } from "../data/head";

export class Columns {
  private readonly at: ReadonlyMap<string, number>;

  constructor(
    readonly table: ResultTable,
    /** Places of rows in the table. */
    readonly rows: readonly number[] = table.rows.map((_, row) => row),
  ) {
    this.at = new Map(table.columns.map(({ name }, column) => [name, column]));
  }

  value(row: number, name: string): unknown {
    return this.table.rows[row]?.[this.at.get(name) ?? -1] ?? null;
  }

  /** Returns a number, or null if there is none: never NaN. */
  number(row: number, name: string): number | null {
    const found = this.value(row, name);
    return typeof found === "number" && Number.isFinite(found) ? found : null;
  }

  text(row: number, name: string): string {
    const found = this.value(row, name);
    return found === null ? "" : String(found);
  }

  /** Groups the rows by a key, in order of appearance. */
  by(key: (row: number) => string): ReadonlyMap<string, Columns> {
    const groups = new Map<string, number[]>();
    for (const row of this.rows) {
      const name = key(row);
      const own = groups.get(name);
      if (own) own.push(row);
      else groups.set(name, [row]);
    }
    return new Map([...groups].map(([name, rows]) => [name, new Columns(this.table, rows)]));
  }

  /** Returns the rows without the last group of a key if the page has only the first rows of the table: it may be cut. */
  whole(key: (row: number) => string): Columns {
    const last = this.rows[this.rows.length - 1];
    if (this.table.row_count === undefined || last === undefined) return this;
    return this.filter((row) => key(row) !== key(last));
  }

  filter(keeps: (row: number) => boolean): Columns {
    return new Columns(this.table, this.rows.filter(keeps));
  }

  /** Returns the sum of a column; missing values count as 0. */
  sum(name: string): number {
    return this.rows.reduce((sum, row) => sum + (this.number(row, name) ?? 0), 0);
  }
}

/** Returns the label of the rank of a row: "rank 0", else its GPU and process. */
export function rankLabel(columns: Columns, row: number, prefix = ""): string {
  const rank = columns.number(row, `${prefix}rank`);
  if (rank !== null) return `rank ${rank}`;
  const gpu = columns.number(row, `${prefix}gpu_index`);
  const pid = columns.number(row, `${prefix}pid`);
  return [gpu === null ? "" : `GPU ${gpu}`, pid === null ? "" : `process ${pid}`].filter(Boolean).join(", ");
}

/** Returns where a row's events are: the event itself, else its time. */
export function targetOf(columns: Columns, row: number): Target | null {
  const event = columns.text(row, "event");
  const [start, end] = [columns.number(row, "start_ns"), columns.number(row, "end_ns")];
  const span = start !== null && end !== null ? { start, end } : null;
  return event || span ? { event: event || null, span } : null;
}

export interface Target {
  /** The id of an event: "kernel:12". */
  readonly event: string | null;
  readonly span: { readonly start: number; readonly end: number } | null;
}
