/** What a map shows: values by row and column, fewer of both where they do not fit, and colors. */

import { type Colour, fromHex, mixed } from "../../base/colour";

/** Values by row, then column; NaN where there is none. */
export interface Values {
  readonly rows: number;
  readonly columns: number;
  readonly at: Float64Array;
}

/** A map as drawn: each cell stands for a place of the values. */
export interface Cells {
  readonly rows: number;
  readonly columns: number;
  readonly rowsPerCell: number;
  readonly columnsPerCell: number;
  /** The place of the value that each cell shows: of those it stands for, the one farthest from 0; -1 without any. */
  readonly place: Int32Array;
}

/** Returns the differences from the median of each column. */
export function fromMedian({ rows, columns, at }: Values): Values {
  const found = new Float64Array(at.length);
  for (let column = 0; column < columns; column++) {
    const known: number[] = [];
    for (let row = 0; row < rows; row++) {
      const value = at[row * columns + column] as number;
      if (!Number.isNaN(value)) known.push(value);
    }
    const middle = median(known);
    for (let row = 0; row < rows; row++) found[row * columns + column] = (at[row * columns + column] as number) - middle;
  }
  return { rows, columns, at: found };
}

export function median(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort();
  const half = sorted.length >> 1;
  return sorted.length % 2 ? (sorted[half] as number) : ((sorted[half - 1] ?? Number.NaN) + (sorted[half] ?? Number.NaN)) / 2;
}

/** Returns at most so many rows and columns of cells, none of which averages: one slow rank stays visible. */
export function cellsOf({ rows, columns, at }: Values, mostRows: number, mostColumns: number): Cells {
  const rowsPerCell = Math.ceil(rows / mostRows);
  const columnsPerCell = Math.ceil(columns / mostColumns);
  const shown = { rows: Math.ceil(rows / rowsPerCell), columns: Math.ceil(columns / columnsPerCell) };
  const place = new Int32Array(shown.rows * shown.columns).fill(-1);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const here = row * columns + column;
      if (Number.isNaN(at[here])) continue;
      const cell = Math.floor(row / rowsPerCell) * shown.columns + Math.floor(column / columnsPerCell);
      const best = place[cell] as number;
      if (best < 0 || Math.abs(at[here] as number) > Math.abs(at[best] as number)) place[cell] = here;
    }
  }
  return { ...shown, rowsPerCell, columnsPerCell, place };
}

/**
 * Returns the difference from which on colors are the strongest: all but the largest thousandth are below, and it is neither
 * less than what a row differs by in the mean, nor than `least`.
 */
export function limitOf({ rows, columns, at }: Values, least: number): number {
  const sizes = Float64Array.from(at.filter((value) => !Number.isNaN(value)), Math.abs).sort();
  let most = Math.max(sizes[Math.max(Math.ceil(sizes.length * 0.999) - 1, 0)] ?? 0, least);
  for (let row = 0; row < rows; row++) {
    const known = at.subarray(row * columns, (row + 1) * columns).filter((value) => !Number.isNaN(value));
    if (known.length) most = Math.max(most, Math.abs(known.reduce((sum, value) => sum + value, 0)) / known.length);
  }
  return most;
}

/** Colors from less over equal to more: blue and orange differ for all kinds of color vision, and in lightness from the middle. */
export interface Scale {
  readonly less: Colour;
  readonly equal: Colour;
  readonly more: Colour;
}

export const SCALES: Readonly<Record<"light" | "dark", Scale>> = {
  light: { less: fromHex("#1f5fa8"), equal: fromHex("#eef0f2"), more: fromHex("#b84a00") },
  dark: { less: fromHex("#6db3f2"), equal: fromHex("#232b34"), more: fromHex("#ffa35c") },
};

export function colorOf(value: number, limit: number, scale: Scale): Colour {
  const part = Math.min(Math.abs(value) / limit, 1);
  return mixed(scale.equal, value < 0 ? scale.less : scale.more, part);
}
