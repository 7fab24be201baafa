/** Counters: per pixel the maximum as a faint area, the mean over time as a solid one. */

import type { CounterPicture } from "../data/counter-bins";
import type { RowSpec } from "../data/head";
import type { Pen } from "./surface";

export interface CounterRoom {
  readonly width: number;
  readonly top: number;
  readonly height: number;
  readonly colour: string;
}

export function drawCounter(pen: Pen, picture: CounterPicture, row: RowSpec, room: CounterRoom): void {
  const width = Math.ceil(room.width);
  const { mean, most } = picture;
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
