/** The highlighted events of a row, and how many of them share a pixel. */

import { gallop, lowerBound } from "../base/search";
import type { Span } from "../base/span";
import { type RowHits, WIDE_BINS } from "./answers";
import { type Events, lengthOf } from "./events";

/** Some events of a row: ascending numbers, starts, names, and the time of those before each, one more. */
export interface Hits {
  readonly event: Uint32Array;
  readonly start: Float64Array;
  readonly name: Uint32Array;
  readonly before: Float64Array;
}

export function hitsAmong(events: Events, lit: Uint8Array): Hits {
  let count = 0;
  for (let i = 0; i < events.count; i++) count += lit[events.name[i]] as number;
  const event = new Uint32Array(count);
  const start = new Float64Array(count);
  const name = new Uint32Array(count);
  const before = new Float64Array(count + 1);
  let at = 0;
  for (let i = 0; i < events.count; i++) {
    if (!lit[events.name[i]]) continue;
    event[at] = i;
    start[at] = events.start[i];
    name[at] = events.name[i];
    before[at + 1] = before[at] + lengthOf(events, i);
    at++;
  }
  return { event, start, name, before };
}

/** Sums short events by the bin of their start, in time proportional to the bins. */
export function binnedHits({ start, name, before }: Hits, span: Span, bins: number): Omit<RowHits, "row"> {
  const binNs = (span.end - span.start) / bins;
  const wide = WIDE_BINS * binNs;
  const found = { bin: [] as number[], ns: [] as number[], name: [] as number[] };
  const last = lowerBound(start, span.end);
  let i = lowerBound(start, span.start);
  while (i < last) {
    const bin = Math.min(bins - 1, Math.floor((start[i] - span.start) / binNs));
    const next = Math.max(i + 1, gallop(start, span.start + (bin + 1) * binNs, i, last));
    // Only the last event that starts in a bin can be long: it extends beyond the bin.
    const end = before[next] - before[next - 1] >= wide ? next - 1 : next;
    if (end > i) {
      found.bin.push(bin);
      found.ns.push(Math.min(binNs, before[end] - before[i]));
      found.name.push(name[i]);
    }
    i = next;
  }
  return found;
}
