/**
 * Queries about events. A recording in the page answers from its arrays, a tiled recording from its
 * server. The interface is the same for the views.
 */

import type { Span } from "../base/span";
import type { RowMeans } from "./counter-means";
import type { Events } from "./events";
import type { Bounds } from "./exact-sums";
import type { NameTotals, RowTotals } from "./selection";

/** An event by its row and its number in that row, among all recorded events. */
export interface Place {
  readonly row: number;
  readonly event: number;
}

/** A copy of an event's data. */
export interface Found extends Place {
  /** Stable for this recording: `TABLE:ROW`, or `ROW_ID#EVENT` for events without a table row. */
  readonly id: string;
  readonly start: number;
  readonly end: number;
  readonly name: number;
  readonly table: string | null;
  readonly tableRow: number | null;
  /** By link name: the row of the linked event in that link's table. */
  readonly links: Readonly<Record<string, number>>;
}

/** A linked event: the cause of this one, or its effect. */
export interface Linked {
  readonly link: string;
  readonly text: string;
  readonly isCause: boolean;
  readonly event: Found;
}

/** A row's events `[first, last)` that overlap a span, and their busy time in it. */
export interface RowSums extends RowTotals {
  readonly row: number;
  /** The same with the events that are not in the file; absent: all are. */
  readonly recorded?: { readonly count: Bounds; readonly busy_ns: Bounds };
}

export function countOf({ first, last, recorded }: RowSums): Bounds {
  return recorded?.count ?? { low: last - first, high: last - first };
}

export function busyOf({ busy_ns, recorded }: RowSums): Bounds {
  return recorded?.busy_ns ?? { low: busy_ns, high: busy_ns };
}

/** The events of some names in some rows. */
export interface Highlight {
  /** By name: 1 for the names to find. */
  readonly lit: Uint8Array;
  readonly rows: readonly number[];
}

/** A position among the highlighted events. */
export interface Position extends Highlight {
  readonly from: Place & { readonly time: number };
}

/** The state of a walk over highlighted events: position and direction. */
export interface Walk extends Position {
  readonly direction: 1 | -1;
}

/** The number of highlighted events, and of those before a position. */
export interface Tally {
  readonly before: number;
  readonly total: number;
}

/** A row's highlighted events shorter than `WIDE_BINS` bins, by the bin of their start. */
export interface RowHits {
  readonly row: number;
  /** The bins that have any, ascending; their time, at most the bin's; the name of the first event of each. */
  readonly bin: ArrayLike<number>;
  readonly ns: ArrayLike<number>;
  readonly name: ArrayLike<number>;
}

/** Longer events are drawn one by one. */
export const WIDE_BINS = 1.5;

export const MOST_LINES = 1000;
export const MOST_LINKED = 10_000;

export interface Answers {
  /** Returns an event by its place; null if the row has no such event. */
  event(row: number, event: number): Promise<Found | null>;
  /** Returns the events `[first, last)` of a row, at most `MOST_LINES`. */
  stretch(row: number, first: number, last: number): Promise<readonly Found[]>;
  find(id: string): Promise<Found | null>;
  /** Returns the event at a time, or the nearest within `reach` ns. */
  at(row: number, time: number, reach: number): Promise<Found | null>;
  /** Returns, per row, the last event that starts at or before a time. */
  latest(rows: readonly number[], time: number): Promise<readonly (Found | null)[]>;
  /** Returns the causes and the effects of an event. */
  links(of: Found): Promise<readonly Linked[]>;
  /** Returns the next event of the highlighted names, ordered by time, row, and number. */
  match(walk: Walk): Promise<Found | null>;
  /** Counts the highlighted events. */
  tally(position: Position): Promise<Tally>;
  /** Returns the short highlighted events of each row in equal bins of a span. */
  hits(highlight: Highlight, span: Span, bins: number): Promise<readonly RowHits[]>;
  /** Returns the longest event of some names, 1 in `lit`, that overlaps a span: of equal ones the first. */
  longest(rows: readonly number[], span: Span, lit: Uint8Array): Promise<Found | null>;
  /** Returns the sums of the rows with events, except counters. */
  sums(rows: readonly number[], span: Span): Promise<readonly RowSums[]>;
  /** Returns the time and count of each name over some rows, longest first. */
  names(rows: readonly number[], span: Span): Promise<readonly NameTotals[]>;
  /** Returns the mean of each of some counters that has values in a span. */
  means(rows: readonly number[], span: Span): Promise<readonly RowMeans[]>;
  /** Returns all events of rows that overlap a span, not clipped; null if there are more than `most`. */
  events(rows: readonly number[], span: Span, most: number): Promise<readonly Events[] | null>;
}
