/** The ticks of the ruler. */

import { lengthOfSpan, type Span } from "./view";

/** Returns a step of 1, 2, or 5 times a power of ten, with about `apart` pixels between ticks. */
export function tickStep(span: Span, width: number, apart = 110): number {
  const wanted = (lengthOfSpan(span) * apart) / Math.max(1, width);
  const power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1e-9)));
  const step = [1, 2, 5, 10].find((one) => one * power >= wanted * 0.999) ?? 10;
  return Math.max(1, step * power);
}

/** Returns the ticks in the span: multiples of the step, relative to `anchor`. */
export function ticks(span: Span, step: number, anchor: number): number[] {
  const first = Math.ceil((span.start - anchor) / step);
  const last = Math.floor((span.end - anchor) / step);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => anchor + (first + i) * step);
}
