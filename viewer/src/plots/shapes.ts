/** What a plot shows, as plain data: made from the columns of tables, drawn by `chart.tsx`. */

import type { Target } from "./columns";

/** The part of a place on an axis with labels that bars fill. */
export const FILLED = 0.86;

export interface Axis {
  readonly label: string;
  /** A unit of table columns: "ns", "bytes", "bytes_per_s", "ratio", "count", "none". */
  readonly unit: string;
  readonly isLog?: boolean;
  /** Names of the places 0, 1...; instead of numbers. */
  readonly labels?: readonly string[];
}

/** A rectangle from `x0` to `x1` and from `y0` to `y1`, in units of the axes. */
export interface Mark {
  readonly x0: number;
  readonly x1: number;
  readonly y0: number;
  readonly y1: number;
  readonly text: string;
  readonly target: Target | null;
}

export interface Series {
  readonly name: string;
  /** The category of the palette whose color it has; else a color by its place. */
  readonly category?: string;
  readonly kind: "bars" | "steps" | "points";
  readonly marks: readonly Mark[];
}

export interface Line {
  readonly text: string;
  readonly y: number;
}

/** A plot of two axes. */
export interface Chart {
  readonly kind: "chart";
  readonly title: string;
  readonly note: string;
  readonly table: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly Series[];
  readonly lines?: readonly Line[];
  /** Where a few values are far above all others, they are cut at this value and marked. */
  readonly top?: number;
}

export interface Cell {
  readonly row: number;
  readonly column: number;
  readonly value: number;
  readonly text: string;
  readonly target: Target | null;
}

/** A matrix of values in colors. */
export interface Heat {
  readonly kind: "heat";
  readonly title: string;
  readonly note: string;
  readonly table: string;
  readonly unit: string;
  /** Colors begin at the lowest value instead of 0. */
  readonly isFromLowest: boolean;
  readonly rowTitle: string;
  readonly columnTitle: string;
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  readonly cells: readonly Cell[];
}

export type Plot = Chart | Heat;
