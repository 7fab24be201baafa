/** Finds the event under the pointer. */

import type { Events } from "../data/events";
import { nearestEvent } from "../data/selection";
import { lengthOfSpan, type Span, xToTime } from "./view";

const REACH_PX = 3;

/** Returns the largest distance between pointer and event, in ns. */
export function reachOf(span: Span, width: number): number {
  return (REACH_PX * lengthOfSpan(span)) / width;
}

/** Returns the event at `x`, or the nearest within three pixels; null if there is none. */
export function eventAt(events: Events, span: Span, width: number, x: number): number | null {
  return nearestEvent(events, xToTime(x, span, width), reachOf(span, width));
}
