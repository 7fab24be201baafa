/** What lies in an area of the timeline, exact to the nanosecond. */

import type { Events } from "../data/events";
import { endOf } from "../data/events";
import { busyBefore } from "../data/pyramid";
import { eventsIn } from "./lod";
import type { Span } from "./view";

export interface RowTotals {
  readonly count: number;
  readonly busy_ns: number;
  readonly share: number;
}

/** Returns the events that touch the span and their busy time in it, by running totals. */
export function rowTotals(events: Events, span: Span): RowTotals {
  const [first, last] = eventsIn(events, span);
  const busy = busyBefore(events, span.end) - busyBefore(events, span.start);
  const length = span.end - span.start;
  return { count: last - first, busy_ns: busy, share: length > 0 ? busy / length : 0 };
}

export interface NameTotals {
  readonly name: number;
  readonly count: number;
  readonly ns: number;
}

/** Returns, per name, how many events touch the span and their time in it; the longest first. */
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
