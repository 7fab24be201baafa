/** Where the cells of a map are, px. */

import type { Cells } from "./cells";

export const MOST_ROWS = 256;
export const LEFT = 128;
export const BELOW = 22;
const RIGHT = 132;
const TALL = 768;
const LEAST_WIDE = 2;
const MOST_WIDE = 40;
const [LEAST_HIGH, MOST_HIGH] = [3, 18];
const LINE = 14; // of labels
const LABEL = 34; // width of a column's label
const GAP_FROM = 6; // smaller cells touch

export interface Layout {
  readonly wide: number;
  readonly high: number;
  readonly gap: number;
  readonly width: number;
  readonly height: number;
  /** A label for every so many rows and columns of cells. */
  readonly everyRow: number;
  readonly everyColumn: number;
}

/** Returns how many columns of cells fit in a room. */
export function mostColumns(room: number): number {
  return Math.max(Math.floor((room - LEFT - RIGHT) / LEAST_WIDE), 1);
}

export function layoutOf({ rows, columns }: Cells, room: number): Layout {
  const fitting = Math.floor((room - LEFT - RIGHT) / Math.max(columns, 1));
  const wide = Math.min(Math.max(fitting, LEAST_WIDE), MOST_WIDE);
  const high = Math.min(Math.max(Math.floor(TALL / Math.max(rows, 1)), LEAST_HIGH), MOST_HIGH);
  return {
    wide,
    high,
    gap: Math.min(wide, high) >= GAP_FROM ? 1 : 0,
    width: LEFT + columns * wide + RIGHT,
    height: rows * high + BELOW,
    everyRow: 2 ** Math.max(Math.ceil(Math.log2(LINE / high)), 0),
    everyColumn: roundUp(LABEL / wide),
  };
}

/** Returns 1, 2, 5, 10, 20, 50... */
function roundUp(least: number): number {
  for (let power = 1; ; power *= 10) {
    for (const digit of [1, 2, 5]) if (digit * power >= least) return digit * power;
  }
}

/** Returns which of some places of labels, px and ascending, are far enough below the one before. */
export function apart(places: readonly number[]): readonly number[] {
  let last = -Infinity;
  return places.filter((place) => {
    if (place - last < LINE) return false;
    last = place;
    return true;
  });
}
