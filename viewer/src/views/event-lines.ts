/** The events of an area as lines of a table: filtered, sorted, and their spread. Pure. */

import { searchPattern } from "../base/text";
import type { RowSums } from "../data/answers";
import { type Events, lengthOf } from "../data/events";

/** The events of some rows that overlap a time range, in the order of the rows. */
export class EventSet {
  readonly count: number;
  private readonly before: number[] = [];

  constructor(
    readonly stretches: readonly { readonly row: number; readonly first: number; readonly events: Events }[],
  ) {
    let count = 0;
    for (const { events } of stretches) {
      this.before.push(count);
      count += events.count;
    }
    this.count = count;
  }

  /** Pairs the events of rows with the number of the first of each; null if the answers differ. */
  static of(sums: readonly RowSums[], events: readonly Events[]): EventSet | null {
    const isSame = sums.length === events.length && sums.every((one, i) => one.last - one.first === events[i]?.count);
    return isSame ? new EventSet(sums.map(({ row, first }, i) => ({ row, first, events: events[i] as Events }))) : null;
  }

  /** Calls a function for each event with its place in the set, its events, and its number in them. */
  each(visit: (at: number, events: Events, i: number, row: number) => void): void {
    this.stretches.forEach(({ events, row }, slot) => {
      const from = this.before[slot] as number;
      for (let i = 0; i < events.count; i++) visit(from + i, events, i, row);
    });
  }

  /** Returns an event by its place in the set. */
  at(place: number): EventLine | null {
    let low = 0;
    let high = this.stretches.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if ((this.before[middle] as number) <= place) low = middle;
      else high = middle - 1;
    }
    const stretch = this.stretches[low];
    const i = place - (this.before[low] ?? 0);
    if (!stretch || !(i >= 0 && i < stretch.events.count)) return null;
    const { events, row, first } = stretch;
    return { row, event: first + i, name: events.name[i], start: events.start[i], length: lengthOf(events, i) };
  }
}

export interface EventLine {
  readonly row: number;
  /** The number of the event in its row. */
  readonly event: number;
  readonly name: number;
  readonly start: number;
  readonly length: number;
}

/** What a filter lets through: texts that match, and durations within bounds, ns. */
export interface EventFilter {
  readonly pattern: RegExp | null;
  readonly least: number;
  readonly most: number;
}

const UNITS: Readonly<Record<string, number>> = { ns: 1, us: 1e3, "µs": 1e3, "μs": 1e3, ms: 1e6, s: 1e9 };
const BOUND = /^([<>])=?(\d+(?:\.\d+)?)(ns|us|µs|μs|ms|s)$/;

/** Reads a filter: `gemm >10us <1ms`. Words without a bound are a text or /regex/ to search. */
export function readFilter(typed: string): EventFilter {
  let [least, most] = [0, Number.POSITIVE_INFINITY];
  const words = typed.trim().split(/\s+/).filter((word) => {
    const [, sign, number, unit] = BOUND.exec(word) ?? [];
    if (!sign) return true;
    const ns = Number(number) * (UNITS[unit as string] as number);
    if (sign === ">") least = Math.max(least, ns);
    else most = Math.min(most, ns);
    return false;
  });
  return { pattern: searchPattern(words.join(" ")), least, most };
}

/** Returns the places of the events whose name or row is chosen and whose duration is within the bounds. */
export function filtered(
  set: EventSet,
  { least, most }: EventFilter,
  isOfName: (name: number) => boolean,
  isOfRow: (row: number) => boolean,
): Uint32Array {
  const places = new Uint32Array(set.count);
  let count = 0;
  set.each((at, events, i, row) => {
    const length = lengthOf(events, i);
    if (length >= least && length <= most && (isOfName(events.name[i]) || isOfRow(row))) places[count++] = at;
  });
  return places.subarray(0, count);
}

export type EventColumn = "name" | "category" | "row" | "start" | "time";

/** Sorts places by a column; `rank` orders names or categories. Equal events stay in their order. */
export function sortedPlaces(
  set: EventSet,
  places: Uint32Array,
  column: EventColumn,
  isFalling: boolean,
  rank: (name: number) => number,
): Uint32Array {
  const key = new Float64Array(set.count);
  set.each((at, events, i, row) => {
    key[at] =
      column === "start" ? events.start[i] : column === "time" ? lengthOf(events, i) : column === "row" ? row : rank(events.name[i]);
  });
  const sign = isFalling ? -1 : 1;
  return places.slice().sort((a, b) => sign * ((key[a] as number) - (key[b] as number)) || a - b);
}

/** The spread of durations, ns. */
export interface Spread {
  readonly count: number;
  readonly mean: number;
  readonly min: number;
  readonly median: number;
  readonly max: number;
}

/** Returns the spread of values, which it sorts in place; null if there are none. */
export function spreadOf(values: Float64Array): Spread | null {
  const count = values.length;
  if (!count) return null;
  values.sort();
  const [low, high] = [values[(count - 1) >> 1] as number, values[count >> 1] as number];
  const mean = values.reduce((sum, value) => sum + value, 0) / count;
  return { count, mean, min: values[0] as number, median: (low + high) / 2, max: values[count - 1] as number };
}

/** Returns how many of some events are in rows of a kind. */
export function countOfRows(set: EventSet, places: Uint32Array, isOfRow: (row: number) => boolean): number {
  const isChosen = new Uint8Array(set.count);
  for (const place of places) isChosen[place] = 1;
  let count = 0;
  set.each((at, _, __, row) => {
    if (isChosen[at] && isOfRow(row)) count++;
  });
  return count;
}

/** Returns the spread of the durations of some events. */
export function spreadOfPlaces(set: EventSet, places: Uint32Array): Spread | null {
  const length = new Float64Array(set.count);
  set.each((at, events, i) => {
    length[at] = lengthOf(events, i);
  });
  return spreadOf(Float64Array.from(places, (place) => length[place] as number));
}

/** Returns the spread of the durations of each name. */
export function spreadsByName(set: EventSet, names: number): ReadonlyMap<number, Spread> {
  const end = new Uint32Array(names);
  set.each((_, events, i) => end[events.name[i]]++);
  for (let name = 1; name < names; name++) end[name] += end[name - 1] as number;
  const next = end.slice();
  const lengths = new Float64Array(set.count);
  set.each((_, events, i) => {
    lengths[--next[events.name[i]]] = lengthOf(events, i);
  });
  const spreads = new Map<number, Spread>();
  for (let name = 0; name < names; name++) {
    const spread = spreadOf(lengths.subarray(next[name], end[name]));
    if (spread) spreads.set(name, spread);
  }
  return spreads;
}
