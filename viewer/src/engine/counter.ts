/** Counters: per pixel the highest value as a faint area, the mean over time as a solid one. */

import { upperBound } from "../base/search";
import type { Events } from "../data/events";
import type { RowSpec } from "../data/head";
import type { Pen } from "./surface";
import { lengthOfSpan, type Span } from "./view";

export interface CounterRoom {
  readonly span: Span;
  readonly width: number;
  readonly top: number;
  readonly height: number;
  readonly colour: string;
}

export interface CounterPicture {
  readonly mean: Float32Array;
  readonly most: Float32Array;
}

/** Returns mean and maximum per pixel; a sample holds until the next. NaN before the first one. */
export function pictureCounter(events: Events, span: Span, width: number): CounterPicture {
  const mean = new Float32Array(width).fill(Number.NaN);
  const most = new Float32Array(width).fill(Number.NaN);
  const { start, value, count } = events;
  if (!value) return { mean, most };
  const pixelNs = lengthOfSpan(span) / width;
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

export function drawCounter(pen: Pen, events: Events, row: RowSpec, room: CounterRoom): void {
  const width = Math.ceil(room.width);
  const { mean, most } = pictureCounter(events, room.span, width);
  const low = Math.min(0, row.min ?? 0);
  const range = Math.max(1e-12, (row.max ?? 1) - low);
  const tall = (value: number): number =>
    Math.max(0, Math.min(1, (value - low) / range)) * room.height;
  pen.fillStyle = room.colour;
  for (const [values, alpha] of [
    [most, 0.3],
    [mean, 0.8],
  ] as const) {
    pen.globalAlpha = alpha;
    for (let x = 0; x < width; x++) {
      const height = tall(values[x]);
      if (height > 0) pen.fillRect(x, room.top + room.height - height, 1, height);
    }
  }
  pen.globalAlpha = 1;
}
