/** Events and sums of a time range, exact to the nanosecond. */

import { lowerBound, upperBound } from "../base/search";
import type { Span } from "../base/span";
import { endOf, type Events } from "./events";
import { busyBefore } from "./pyramid";

/** Returns the first event that overlaps the span, and the first that starts after it. */
export function eventsIn(events: Events, span: Span): [number, number] {
  let first = lowerBound(events.start, span.start);
  if (first > 0 && endOf(events, first - 1) > span.start) first--;
  return [first, lowerBound(events.start, span.end, first)];
}

/** Returns the event at a time, or the nearest within `reach` ns; null if there is none. */
export function nearestEvent(events: Events, time: number, reach: number): number | null {
  const before = upperBound(events.start, time) - 1;
  if (before >= 0 && endOf(events, before) > time) return before;
  const after = before + 1;
  const back = before >= 0 ? time - endOf(events, before) : Number.POSITIVE_INFINITY;
  const ahead = after < events.count ? events.start[after] - time : Number.POSITIVE_INFINITY;
  if (Math.min(back, ahead) > reach) return null;
  return back <= ahead ? before : after;
}

export interface RowTotals {
  readonly first: number;
  readonly last: number;
  readonly busy_ns: number;
}

/** Returns the events `[first, last)` that overlap the span, and their busy time in it. */
export function rowTotals(events: Events, span: Span): RowTotals {
  const [first, last] = eventsIn(events, span);
  return { first, last, busy_ns: busyBefore(events, span.end) - busyBefore(events, span.start) };
}

/** The events of a name. If the file lacks events, `count` is their least number, and `ns` their least time. */
export interface NameTotals {
  readonly name: number;
  readonly count: number;
  readonly ns: number;
  /** The most time, infinite if unknown; absent: all events are in the file. */
  readonly most_ns?: number;
}

/** Returns, per name, the number of events that overlap the span and their time in it, longest first. */
export function totalsByName(rows: readonly Events[], span: Span, names: number): NameTotals[] {
  const ns = new Float64Array(names);
  const count = new Uint32Array(names);
  for (const events of rows) {
    const { before, name } = events;
    const [first, last] = eventsIn(events, span);
    for (let i = first; i < last; i++) {
      ns[name[i]] += before[i + 1] - before[i];
      count[name[i]]++;
    }
    if (last > first) {
      ns[name[first]] -= Math.max(0, span.start - events.start[first]);
      ns[name[last - 1]] -= Math.max(0, endOf(events, last - 1) - span.end);
    }
  }
  const found: NameTotals[] = [];
  for (let name = 0; name < names; name++) {
    if (count[name]) found.push({ name, count: count[name], ns: ns[name] });
  }
  return found.sort((a, b) => b.ns - a.ns || b.count - a.count || a.name - b.name);
}
