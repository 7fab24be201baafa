/** The mean of a counter in a time range. */

import { upperBound } from "../base/search";
import type { Span } from "../base/span";
import type { Events } from "./events";

/** The mean of a row over the time that has values, and its extremes. */
export interface RowMeans {
  readonly row: number;
  /** Bounds of the mean; they differ only if the file has means of several samples, and one is cut by the range. */
  readonly low: number;
  readonly high: number;
  readonly least: number;
  readonly most: number;
  readonly covered_ns: number;
}

/** Returns the mean in a span; null without values. */
export function meansIn(events: Events, span: Span): Omit<RowMeans, "row"> | null {
  const { start, value, count } = events;
  if (!value) return null;
  const [lows, highs] = [events.least ?? value, events.most ?? value];
  let [low, high, covered] = [0, 0, 0];
  let [least, most] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (let i = Math.max(0, upperBound(start, span.start) - 1); i < count && start[i] < span.end; i++) {
    const until = i + 1 < count ? start[i + 1] : Math.max(start[i], span.end);
    const inside = Math.min(until, span.end) - Math.max(start[i], span.start);
    if (Number.isNaN(value[i]) || inside <= 0) continue;
    const outside = until - start[i] - inside;
    const all = value[i] * (until - start[i]);
    // Of a mean of several samples, the part inside can be anything that the part outside allows.
    low += outside > 0 ? Math.max(lows[i] * inside, all - highs[i] * outside) : all;
    high += outside > 0 ? Math.min(highs[i] * inside, all - lows[i] * outside) : all;
    covered += inside;
    least = Math.min(least, lows[i]);
    most = Math.max(most, highs[i]);
  }
  if (covered <= 0) return null;
  const within = (sum: number): number => Math.min(most, Math.max(least, sum / covered));
  return { low: within(low), high: within(high), least, most, covered_ns: covered };
}
