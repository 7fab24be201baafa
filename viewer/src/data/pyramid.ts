/** Sums of a row over equal bins, so that a wide view need not visit its events. */

import type { Events } from "./events";
import { upperBound } from "../base/search";

export const PYRAMID_BINS = 16384;
/** Rows with fewer events are quick to walk. */
export const PYRAMID_FROM = 8192;
const NONE = 0xffffffff;
const LONG_BINS = 1.5;
const COARSER = 4;

/**
 * What covers most of each of some equal bins, by name and for how long; `rest` and `restNs` are
 * empty where nothing is idle.
 */
export interface NameBins {
  readonly binNs: number;
  readonly top: Uint32Array;
  readonly topNs: Float32Array;
  readonly rest: Uint32Array;
  readonly restNs: Float32Array;
}

/**
 * `busy[b]` is the row's busy time before bin b begins, exact; `top[b]` the name of the busy event that
 * covers most of the bin, `rest[b]` that of the idle one; NONE where there is none.
 * `long` holds the places of all events of at least 1.5 bins.
 */
export interface Pyramid extends NameBins {
  readonly start_ns: number;
  readonly busy: Float64Array;
  readonly long: Uint32Array;
  /** The same names in bins that are twice, four times... as wide. */
  readonly coarser?: readonly NameBins[];
  /** The row's events are only the long ones: nothing but the bins tells of the others. */
  readonly isAlone?: boolean;
}

export { NONE as NO_NAME };

/** Returns the row's busy time before `time`, exact to the last digit of a double. */
export function busyBefore(events: Events, time: number): number {
  const i = upperBound(events.start, time) - 1;
  if (i < 0) return 0;
  return busyInside(events, i, time);
}

/** The same where event `i` is known to be the last that began by `time`. */
export function busyInside(events: Events, i: number, time: number): number {
  const { start, before, busy } = events;
  const own = busy[i + 1] - busy[i];
  if (own === 0) return busy[i];
  const length = before[i + 1] - before[i];
  return busy[i] + Math.min(length, time - start[i]);
}

export function buildPyramid(events: Events, startNs: number, endNs: number): Pyramid | null {
  if (events.count < PYRAMID_FROM || !(endNs > startNs)) return null;
  const bins = PYRAMID_BINS;
  const idleBins = events.busy === events.before ? 0 : bins; // no idle time, no names of it
  const pyramid = {
    start_ns: startNs,
    binNs: (endNs - startNs) / bins,
    busy: new Float64Array(bins + 1),
    top: new Uint32Array(bins).fill(NONE),
    topNs: new Float32Array(bins),
    rest: new Uint32Array(idleBins).fill(NONE),
    restNs: new Float32Array(idleBins),
    long: new Uint32Array(0),
  };
  const long = fill(pyramid, events);
  const coarser: NameBins[] = [];
  for (let level = 0; level < COARSER; level++) coarser.push(twiceAsWide(coarser.at(-1) ?? pyramid));
  return { ...pyramid, long, coarser };
}

function twiceAsWide(fine: NameBins): NameBins {
  const half = (bins: ArrayLike<number>): number => Math.ceil(bins.length / 2);
  const wide: NameBins = {
    binNs: fine.binNs * 2,
    top: new Uint32Array(half(fine.top)).fill(NONE),
    topNs: new Float32Array(half(fine.top)),
    rest: new Uint32Array(half(fine.rest)).fill(NONE),
    restNs: new Float32Array(half(fine.rest)),
  };
  for (const [names, most, from, lengths] of [
    [wide.top, wide.topNs, fine.top, fine.topNs],
    [wide.rest, wide.restNs, fine.rest, fine.restNs],
  ] as const) {
    for (let bin = 0; bin < from.length; bin++) {
      const into = bin >> 1;
      if (from[bin] === NONE || (names[into] !== NONE && lengths[bin] <= most[into])) continue;
      names[into] = from[bin];
      most[into] = lengths[bin];
    }
  }
  return wide;
}

/** Returns the widest bins of which a stretch of this length still holds two; otherwise the finest. */
export function binsFor(pyramid: Pyramid, lengthNs: number): NameBins {
  let found: NameBins = pyramid;
  for (const wider of pyramid.coarser ?? []) if (2 * wider.binNs <= lengthNs) found = wider;
  return found;
}

/** Visits every event once; returns the places of the long ones. */
function fill(pyramid: Pyramid, events: Events): Uint32Array {
  const { start, before, busy, name, count } = events;
  const { start_ns, binNs, top, topNs, rest, restNs } = pyramid;
  const long: number[] = [];
  let edge = 0; // the first edge of a bin whose total is not known
  let edgeNs = start_ns;
  for (let i = 0; i < count; i++) {
    const begin = start[i];
    while (edgeNs < begin && edge <= PYRAMID_BINS) {
      pyramid.busy[edge] = i === 0 ? 0 : busyInside(events, i - 1, edgeNs);
      edgeNs = start_ns + ++edge * binNs;
    }
    const length = before[i + 1] - before[i];
    const isBusy = busy[i + 1] > busy[i] || length === 0;
    const names = isBusy ? top : rest;
    const most = isBusy ? topNs : restNs;
    if (begin + length < edgeNs && edge > 0) {
      // Nearly all events lie inside one bin.
      const bin = Math.min(edge, PYRAMID_BINS) - 1;
      if (length > most[bin] || names[bin] === NONE) {
        names[bin] = name[i];
        most[bin] = length;
      }
      continue;
    }
    if (length >= LONG_BINS * binNs) long.push(i);
    nameBins(begin - start_ns, length, name[i], binNs, names, most);
  }
  for (; edge <= PYRAMID_BINS; edge++) {
    pyramid.busy[edge] = count === 0 ? 0 : busyInside(events, count - 1, start_ns + edge * binNs);
  }
  return Uint32Array.from(long);
}

/** Offers an event to all bins that it touches. */
function nameBins(
  begin: number,
  length: number,
  name: number,
  binNs: number,
  names: Uint32Array,
  most: Float32Array,
): void {
  const last = PYRAMID_BINS - 1;
  const until = Math.min(last, Math.floor((begin + length) / binNs));
  for (let bin = Math.min(last, Math.floor(begin / binNs)); bin <= until; bin++) {
    const inside = Math.min(begin + length, (bin + 1) * binNs) - Math.max(begin, bin * binNs);
    if (names[bin] === NONE || inside > most[bin]) {
      names[bin] = name;
      most[bin] = inside;
    }
  }
}

/** Returns the busy time before `time`; inside a bin it is taken as even. Exact at the bins' edges. */
export function roughlyBusyBefore(pyramid: Pyramid, time: number): number {
  const place = (time - pyramid.start_ns) / pyramid.binNs;
  if (place <= 0) return 0;
  if (place >= pyramid.top.length) return pyramid.busy[pyramid.top.length];
  const bin = Math.floor(place);
  const low = pyramid.busy[bin];
  return low + (pyramid.busy[bin + 1] - low) * (place - bin);
}
