/** Sorts and filters result tables. Pure. */

import type { ResultTable } from "../data/head";

export interface Order {
  readonly column: number;
  readonly isFalling: boolean;
}

function compare(a: unknown, b: unknown): number {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a) < String(b) ? -1 : 1;
}

/**
 * Returns the indices of the matching rows in order; the sort is stable. `shown` returns what the page
 * shows for a text: texts are sorted as shown, and searched in both forms.
 */
export function arranged(
  table: ResultTable,
  order: Order | null,
  pattern: RegExp | null,
  shown: (text: string) => string = (text) => text,
): number[] {
  const isFound = (cell: unknown): boolean =>
    typeof cell === "string" && pattern !== null && (pattern.test(cell) || pattern.test(shown(cell)));
  const places = table.rows.flatMap((row, place) => (!pattern || row.some(isFound) ? [place] : []));
  if (!order) return places;
  const value = (place: number): unknown => {
    const cell = table.rows[place]?.[order.column];
    return typeof cell === "string" ? shown(cell) : cell;
  };
  const sign = order.isFalling ? -1 : 1;
  return places.sort((a, b) => sign * compare(value(a), value(b)) || a - b);
}
