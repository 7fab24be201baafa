/**
 * What the page asks about events beyond the picture in view. A recording that is in the page
 * answers from its arrays, one that is tiled from its server: the views know no difference.
 */

import type { Span } from "../base/span";
import type { Events } from "./events";
import type { NameTotals, RowTotals } from "./selection";

/** An event by its row and its number in that row, of all that were recorded. */
export interface Place {
  readonly row: number;
  readonly event: number;
}

/** An event in hand: a copy of what is known of it. */
export interface Found extends Place {
  /** Stable for this recording: `TABLE:ROW`, or `ROW_ID#EVENT` of what is a row of no table. */
  readonly id: string;
  readonly start: number;
  readonly end: number;
  readonly name: number;
  readonly table: string | null;
  readonly tableRow: number | null;
  /** By name of the link: the row of that link's table at the other end. */
  readonly links: Readonly<Record<string, number>>;
}

/** An event at the other end of a link: what caused this one, or what it caused. */
export interface Linked {
  readonly link: string;
  readonly text: string;
  readonly isCause: boolean;
  readonly event: Found;
}

/** A row's events `[first, last)` that touch a span, and their busy time in it. */
export interface RowSums extends RowTotals {
  readonly row: number;
}

/** Where a walk over the events of some names stands, and where it goes. */
export interface Walk {
  /** By name: 1 for those that are looked for. */
  readonly lit: Uint8Array;
  readonly rows: readonly number[];
  readonly from: Place & { readonly time: number };
  readonly direction: 1 | -1;
}

export const MOST_LINES = 1000;
export const MOST_LINKED = 10_000;

export interface Answers {
  /** Returns an event by its place; null where the row has no such event. */
  event(row: number, event: number): Promise<Found | null>;
  /** Returns the events `[first, last)` of a row, at most `MOST_LINES`. */
  stretch(row: number, first: number, last: number): Promise<readonly Found[]>;
  find(id: string): Promise<Found | null>;
  /** Returns the event at a time, or the nearest within `reach` ns. */
  at(row: number, time: number, reach: number): Promise<Found | null>;
  /** Returns, per row, the last event that began by a time. */
  latest(rows: readonly number[], time: number): Promise<readonly (Found | null)[]>;
  /** Returns what the event's links lead to, and the events whose links lead to it. */
  links(of: Found): Promise<readonly Linked[]>;
  /** Returns the next event of the names that are lit, by time, row and number. */
  match(walk: Walk): Promise<Found | null>;
  /** Returns the sums of those of the rows that have events, counters apart. */
  sums(rows: readonly number[], span: Span): Promise<readonly RowSums[]>;
  /** Returns the time and count of each name over some rows, the longest first. */
  names(rows: readonly number[], span: Span): Promise<readonly NameTotals[]>;
  /** Returns all events of rows that touch a span, uncut; null where they are more than `most`. */
  events(rows: readonly number[], span: Span, most: number): Promise<readonly Events[] | null>;
}
