/** Which event lies under the pointer. */

import { upperBound } from "../base/search";
import { endOf, type Events } from "../data/events";
import { lengthOfSpan, type Span, xToTime } from "./view";

const REACH_PX = 3;

/** Returns the event at `x`, or the nearest within three pixels; null if there is none. */
export function eventAt(events: Events, span: Span, width: number, x: number): number | null {
  const time = xToTime(x, span, width);
  const reach = (REACH_PX * lengthOfSpan(span)) / width;
  const before = upperBound(events.start, time) - 1;
  if (before >= 0 && endOf(events, before) > time) return before;
  const after = before + 1;
  const back = before >= 0 ? time - endOf(events, before) : Number.POSITIVE_INFINITY;
  const ahead = after < events.count ? events.start[after] - time : Number.POSITIVE_INFINITY;
  if (Math.min(back, ahead) > reach) return null;
  return back <= ahead ? before : after;
}
