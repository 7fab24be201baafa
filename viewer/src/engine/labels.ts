/** Names inside rectangles, truncated to fit. */

import { plainText } from "../base/text";
import type { Pen } from "./surface";

const MARGIN = 4;
const LEAST_ROOM = 22;

/** Caches the widths of names; measuring is slow. */
export class LabelWidths {
  private readonly widths = new Map<string, number>();

  of(pen: Pen, text: string): number {
    let width = this.widths.get(text);
    if (width === undefined) {
      width = pen.measureText(text).width;
      this.widths.set(text, width);
    }
    return width;
  }
}

/** Truncates `text` to `width` pixels with an ellipsis; "" if nothing fits. */
export function fittedLabel(text: string, width: number, textWidth: number): string {
  if (textWidth <= width) return text;
  const keep = Math.floor((text.length * width) / textWidth) - 1;
  return keep < 2 ? "" : `${text.slice(0, keep)}…`;
}

export interface LabelRoom {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Draws a name in its rectangle; returns whether it was drawn. */
export function drawLabel(pen: Pen, widths: LabelWidths, text: string, room: LabelRoom): boolean {
  const width = room.width - 2 * MARGIN;
  const shown = plainText(text.length > 400 ? text.slice(0, 400) : text);
  if (width < LEAST_ROOM && widths.of(pen, shown) > width) return false;
  const fitted = fittedLabel(shown, width, widths.of(pen, shown));
  if (fitted === "") return false;
  pen.fillText(fitted, room.x + MARGIN, room.y + room.height / 2 + 0.5, width);
  return true;
}
