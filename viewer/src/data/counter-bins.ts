/** Mean, minimum and maximum of a counter in equal bins. A sample is valid until the next; NaN is no value. */

import { upperBound } from "../base/search";
import type { Span } from "../base/span";
import type { Events } from "./events";

export interface CounterPicture {
  readonly mean: Float64Array;
  readonly least: Float64Array;
  readonly most: Float64Array;
}

function emptyPicture(width: number): CounterPicture {
  const [mean, least, most] = [0, 0, 0].map(() => new Float64Array(width).fill(Number.NaN)) as Float64Array[];
  return { mean, least, most } as CounterPicture;
}

/** Returns mean and extremes of `width` bins of a span. NaN where there is no value. */
export function averages(events: Events, span: Span, width: number): CounterPicture {
  const picture = emptyPicture(width);
  const { start, value, count } = events;
  if (!value) return picture;
  const [lows, highs] = [events.least ?? value, events.most ?? value];
  const pixelNs = (span.end - span.start) / width;
  let i = Math.max(0, upperBound(start, span.start) - 1);
  for (let pixel = 0; pixel < width && i < count; pixel++) {
    const from = span.start + pixel * pixelNs;
    const to = from + pixelNs;
    if (start[i] >= to) continue;
    let time = Math.max(from, start[i]);
    let [sum, covered, only] = [0, 0, Number.NaN];
    let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (;;) {
      const until = i + 1 < count ? Math.min(to, start[i + 1]) : to;
      if (!Number.isNaN(value[i])) {
        sum += value[i] * (until - time);
        covered += until - time;
        only = value[i];
        low = Math.min(low, lows[i]);
        high = Math.max(high, highs[i]);
      }
      time = until;
      if (i + 1 < count && start[i + 1] < to) i++;
      else break;
    }
    if (!Number.isNaN(only)) {
      picture.mean[pixel] = covered > 0 ? sum / covered : only;
      picture.least[pixel] = low;
      picture.most[pixel] = high;
    }
    if (i + 1 < count && start[i + 1] === to) i++;
  }
  return picture;
}

/** Precomputed bins, starting at `start_ns`. */
export interface CounterBins extends CounterPicture {
  readonly start_ns: number;
  readonly binNs: number;
}

const BINS = 16384;
/** Rows with more samples than this have bins, so that the cost of a picture does not grow with them. */
const BINS_FROM = 65536;

/** Returns bins over all samples of a counter, or null if it has few. */
export function binsOf(events: Events, span: Span): CounterBins | null {
  if (events.count < BINS_FROM || !events.value) return null;
  return { ...averages(events, span, BINS), start_ns: span.start, binNs: (span.end - span.start) / BINS };
}

/** Returns mean and extremes of wider bins. NaN where there is no data. */
export function averagesOfBins(bins: CounterBins, span: Span, width: number): CounterPicture {
  const picture = emptyPicture(width);
  const pixel = (span.end - span.start) / width / bins.binNs;
  const first = (span.start - bins.start_ns) / bins.binNs;
  for (let x = 0; x < width; x++) {
    const [from, to] = [first + x * pixel, first + (x + 1) * pixel];
    let sum = 0;
    let share = 0;
    let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (let bin = Math.max(0, Math.floor(from)); bin < to && bin < bins.mean.length; bin++) {
      if (Number.isNaN(bins.mean[bin])) continue;
      const inside = Math.min(to, bin + 1) - Math.max(from, bin);
      sum += bins.mean[bin] * inside;
      share += inside;
      low = Math.min(low, bins.least[bin]);
      high = Math.max(high, bins.most[bin]);
    }
    if (share <= 0) continue;
    picture.mean[x] = sum / share;
    picture.least[x] = low;
    picture.most[x] = high;
  }
  return picture;
}
