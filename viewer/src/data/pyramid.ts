/** Sums of a row over equal bins, so that a wide view does not visit its events. */

import { upperBound } from "../base/search";
import { type Categories, type CategoryBins, CategoryBinsWriter, keyOf, twiceAsWide } from "./category-bins";
import type { Events } from "./events";

export const PYRAMID_BINS = 16384;
/** Rows with fewer events are fast to walk. */
export const PYRAMID_FROM = 8192;
const LONG_BINS = 1.5;
const COARSER = 4;

/**
 * `busy[b]` is the row's exact busy time before bin b. The bins have its time by category.
 * `long` has the indices of all events of at least 1.5 bins.
 */
export interface Pyramid extends CategoryBins {
  readonly start_ns: number;
  readonly busy: Float64Array;
  readonly long: Uint32Array;
  /** The same bins, two times, four times, ... as wide. */
  readonly coarser?: readonly CategoryBins[];
  /** Only the long events are available: the others are in the bins only. */
  readonly isAlone?: boolean;
}

/** Returns the row's busy time before `time`, in double precision. */
export function busyBefore(events: Events, time: number): number {
  const i = upperBound(events.start, time) - 1;
  if (i < 0) return 0;
  return busyInside(events, i, time);
}

/** Does the same if event `i` is known to be the last that starts at or before `time`. */
export function busyInside(events: Events, i: number, time: number): number {
  const { start, before, busy } = events;
  const own = busy[i + 1] - busy[i];
  if (own === 0) return busy[i];
  const length = before[i + 1] - before[i];
  return busy[i] + Math.min(length, time - start[i]);
}

/** Sums a row; `categories[name]` is the category of a name. Null for short rows. */
export function buildPyramid(
  events: Events,
  startNs: number,
  endNs: number,
  categories: Categories,
): Pyramid | null {
  if (events.count < PYRAMID_FROM || !(endNs > startNs)) return null;
  const binNs = (endNs - startNs) / PYRAMID_BINS;
  const busy = new Float64Array(PYRAMID_BINS + 1);
  const writer = new CategoryBinsWriter(PYRAMID_BINS, binNs);
  const long = fill(events, startNs, binNs, categories, busy, writer);
  const bins = writer.finish();
  const coarser: CategoryBins[] = [];
  for (let level = 0; level < COARSER; level++) coarser.push(twiceAsWide(coarser.at(-1) ?? bins));
  return { ...bins, start_ns: startNs, busy, long, coarser };
}

/** Returns the widest bins of which at least two fit into this length; otherwise the finest. */
export function binsFor(pyramid: Pyramid, lengthNs: number): CategoryBins {
  let found: CategoryBins = pyramid;
  for (const wider of pyramid.coarser ?? []) if (2 * wider.binNs <= lengthNs) found = wider;
  return found;
}

/** Visits every event once; returns the indices of the long ones. */
function fill(
  events: Events,
  startNs: number,
  binNs: number,
  categories: Categories,
  totals: Float64Array,
  writer: CategoryBinsWriter,
): Uint32Array {
  const { start, before, busy, name, count } = events;
  const { ns, longestNs } = writer.sums;
  const hasIdle = busy !== before;
  const long: number[] = [];
  let edge = 0; // the first bin edge without a known total
  let edgeNs = startNs;
  let open = -1; // the edge after the writer's current bin; -1: unknown
  for (let i = 0; i < count; i++) {
    const begin = start[i];
    while (edgeNs < begin && edge <= PYRAMID_BINS) {
      totals[edge] = i === 0 ? 0 : busyInside(events, i - 1, edgeNs);
      edgeNs = startNs + ++edge * binNs;
    }
    const length = before[i + 1] - before[i];
    const key = keyOf(categories[name[i]], hasIdle && length > 0 && busy[i + 1] === busy[i]);
    if (begin + length < edgeNs && edge > 0) {
      // Nearly all events are inside one bin: this inlines `writer.add`.
      if (edge !== open) writer.open(Math.min((open = edge), PYRAMID_BINS) - 1);
      ns[key] += length;
      if (length > longestNs[key]) writer.sums.putLongest(key, name[i], length);
      continue;
    }
    open = -1;
    if (length >= LONG_BINS * binNs) long.push(i);
    addToBins(writer, begin - startNs, length, binNs, key, name[i]);
  }
  for (; edge <= PYRAMID_BINS; edge++) {
    totals[edge] = count === 0 ? 0 : busyInside(events, count - 1, startNs + edge * binNs);
  }
  return Uint32Array.from(long);
}

/** Adds an event to all bins that it overlaps. */
function addToBins(
  writer: CategoryBinsWriter,
  begin: number,
  length: number,
  binNs: number,
  key: number,
  name: number,
): void {
  const last = PYRAMID_BINS - 1;
  const until = Math.min(last, Math.floor((begin + length) / binNs));
  for (let bin = Math.min(last, Math.floor(begin / binNs)); bin <= until; bin++) {
    const inside = Math.min(begin + length, (bin + 1) * binNs) - Math.max(begin, bin * binNs);
    if (inside > 0 || length === 0) writer.add(bin, key, Math.max(0, inside), name, inside);
  }
}

/** Returns the busy time before `time`: exact at bin edges, interpolated inside bins. */
export function roughlyBusyBefore(pyramid: Pyramid, time: number): number {
  const place = (time - pyramid.start_ns) / pyramid.binNs;
  if (place <= 0) return 0;
  const last = pyramid.busy.length - 1;
  if (place >= last) return pyramid.busy[last];
  const bin = Math.floor(place);
  const low = pyramid.busy[bin];
  return low + (pyramid.busy[bin + 1] - low) * (place - bin);
}
