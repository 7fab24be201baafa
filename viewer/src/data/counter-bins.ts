/** Mean and maximum of a counter in equal bins. A sample is valid until the next. */

import { upperBound } from "../base/search";
import type { Span } from "../base/span";
import type { Events } from "./events";

export interface CounterPicture {
  readonly mean: Float64Array;
  readonly most: Float64Array;
}

/** Returns mean and maximum of `width` bins of a span. NaN before the first sample. */
export function averages(events: Events, span: Span, width: number): CounterPicture {
  const mean = new Float64Array(width).fill(Number.NaN);
  const most = new Float64Array(width).fill(Number.NaN);
  const { start, value, count } = events;
  if (!value) return { mean, most };
  const pixelNs = (span.end - span.start) / width;
  let i = Math.max(0, upperBound(start, span.start) - 1);
  for (let pixel = 0; pixel < width && i < count; pixel++) {
    const from = span.start + pixel * pixelNs;
    const to = from + pixelNs;
    let time = from;
    let sum = 0;
    let high = Number.NEGATIVE_INFINITY;
    if (start[i] >= to) continue;
    time = Math.max(time, start[i]);
    const began = time;
    for (;;) {
      const until = i + 1 < count ? Math.min(to, start[i + 1]) : to;
      sum += value[i] * (until - time);
      high = Math.max(high, value[i]);
      time = until;
      if (i + 1 < count && start[i + 1] < to) i++;
      else break;
    }
    mean[pixel] = to > began ? sum / (to - began) : value[i];
    most[pixel] = high;
    if (i + 1 < count && start[i + 1] === to) i++;
  }
  return { mean, most };
}

/** Precomputed bins, starting at `start_ns`. */
export interface CounterBins {
  readonly start_ns: number;
  readonly binNs: number;
  readonly mean: Float64Array;
  readonly most: Float64Array;
}

/** Returns mean and maximum of wider bins. NaN where there is no data. */
export function averagesOfBins(bins: CounterBins, span: Span, width: number): CounterPicture {
  const mean = new Float64Array(width).fill(Number.NaN);
  const most = new Float64Array(width).fill(Number.NaN);
  const pixel = (span.end - span.start) / width / bins.binNs;
  const first = (span.start - bins.start_ns) / bins.binNs;
  for (let x = 0; x < width; x++) {
    const [from, to] = [first + x * pixel, first + (x + 1) * pixel];
    let sum = 0;
    let share = 0;
    let high = Number.NEGATIVE_INFINITY;
    for (let bin = Math.max(0, Math.floor(from)); bin < to && bin < bins.mean.length; bin++) {
      if (Number.isNaN(bins.mean[bin])) continue;
      const inside = Math.min(to, bin + 1) - Math.max(from, bin);
      sum += bins.mean[bin] * inside;
      share += inside;
      high = Math.max(high, bins.most[bin]);
    }
    if (share <= 0) continue;
    mean[x] = sum / share;
    most[x] = high;
  }
  return { mean, most };
}
