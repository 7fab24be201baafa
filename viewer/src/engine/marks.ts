/** Draws uncertainty: the clock error of a process or device. */

import { timeText } from "../base/units";
import type { RowSpec } from "../data/head";
import type { Pen } from "./surface";
import type { Theme } from "./theme";
import { lengthOfSpan, type Span } from "./view";

const LEFT = 8;
const CAP = 4;
const LEAST_PX = 2;

export interface Band {
  readonly span: Span;
  readonly width: number;
  readonly top: number;
  readonly height: number;
  readonly theme: Theme;
}

/**
 * Draws the clock error in the header of a process or device of another file: a bar as long as the error in both
 * directions, on the scale of the view, and the number. A bar of the full width means at least that much.
 */
export function drawClockError(pen: Pen, row: RowSpec, { span, width, top, height, theme }: Band): void {
  const error = row.clock_error_ns;
  if (error === null || error === undefined || error <= 0) return;
  const long = Math.min(width - 2 * LEFT, (2 * error * width) / lengthOfSpan(span));
  const y = top + height / 2;
  pen.fillStyle = theme.warning;
  let x = LEFT;
  if (long >= LEAST_PX) {
    pen.fillRect(x, y - 0.5, long, 1);
    pen.fillRect(x, y - CAP, 1, 2 * CAP);
    pen.fillRect(x + long - 1, y - CAP, 1, 2 * CAP);
    x += long + 6;
  }
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  const short = `clock ±${timeText(error)}`;
  const whole = `${short} relative to the first file's`;
  const text = pen.measureText(whole).width < width - 2 * LEFT - 6 ? whole : short;
  const wide = pen.measureText(text).width;
  x = Math.min(x, width - wide - 2 * LEFT);
  pen.fillStyle = theme.band;
  pen.fillRect(x, y - 7, wide + 6, 14);
  pen.fillStyle = theme.faintText;
  pen.fillText(text, x + 3, y + 0.5);
}
