/** The time range in view, and its movements. All functions are pure. */

import type { Span } from "../base/span";

export type { Span };

export const LEAST_NS = 20;

export function lengthOfSpan(span: Span): number {
  return span.end - span.start;
}

export function isSameSpan(one: Span, other: Span): boolean {
  return one.start === other.start && one.end === other.end;
}

/** Returns the nearest span inside `limits` that is at least `LEAST_NS` long. */
export function clampSpan(span: Span, limits: Span): Span {
  const whole = Math.max(LEAST_NS, lengthOfSpan(limits));
  const length = Math.min(whole, Math.max(LEAST_NS, lengthOfSpan(span)));
  const middle = (span.start + span.end) / 2;
  const start = Math.min(
    Math.max(lengthOfSpan(span) === length ? span.start : middle - length / 2, limits.start),
    limits.start + whole - length,
  );
  return { start, end: start + length };
}

/** Scales the span by `factor` (below 1: zoom in) around the fixed time `at`. */
export function zoomAt(span: Span, at: number, factor: number, limits: Span): Span {
  const length = Math.max(LEAST_NS, Math.min(lengthOfSpan(limits), lengthOfSpan(span) * factor));
  const part = (at - span.start) / lengthOfSpan(span);
  const start = at - part * length;
  return clampSpan({ start, end: start + length }, limits);
}

export function panBy(span: Span, ns: number, limits: Span): Span {
  return clampSpan({ start: span.start + ns, end: span.end + ns }, limits);
}

/** Returns a span that shows `wanted` with margins on both sides. */
export function fitSpan(wanted: Span, limits: Span, room = 0.1): Span {
  const margin = Math.max(LEAST_NS / 2, lengthOfSpan(wanted) * room);
  return clampSpan({ start: wanted.start - margin, end: wanted.end + margin }, limits);
}

/** Pans the view so that it contains `wanted`; zooms out if `wanted` is longer. */
export function revealSpan(span: Span, wanted: Span, limits: Span): Span {
  if (lengthOfSpan(wanted) > lengthOfSpan(span)) return fitSpan(wanted, limits);
  if (wanted.start >= span.start && wanted.end <= span.end) return span;
  const middle = (wanted.start + wanted.end) / 2;
  return panBy(span, middle - (span.start + span.end) / 2, limits);
}

export function timeToX(time: number, span: Span, width: number): number {
  return ((time - span.start) / lengthOfSpan(span)) * width;
}

export function xToTime(x: number, span: Span, width: number): number {
  return span.start + (x / width) * lengthOfSpan(span);
}

/** The history of views. */
export interface ViewHistory {
  readonly past: readonly Span[];
  readonly future: readonly Span[];
}

const MOST_VIEWS = 100;

export function remembered(history: ViewHistory, span: Span): ViewHistory {
  const last = history.past.at(-1);
  if (last && isSameSpan(last, span)) return history;
  return { past: [...history.past, span].slice(-MOST_VIEWS), future: [] };
}

export function goneBack(history: ViewHistory, now: Span): [ViewHistory, Span] {
  const last = history.past.at(-1);
  if (!last) return [history, now];
  return [{ past: history.past.slice(0, -1), future: [now, ...history.future] }, last];
}

export function goneForward(history: ViewHistory, now: Span): [ViewHistory, Span] {
  const next = history.future[0];
  if (!next) return [history, now];
  return [{ past: [...history.past, now], future: history.future.slice(1) }, next];
}
