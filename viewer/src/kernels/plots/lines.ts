/** Line plots of a few series over one axis: occupancy curves and values sampled inside a kernel. Pure. */

import { place, scaleOf, type Scale } from "../../plots/scale";
import type { Room } from "./roofline";

export interface Line {
  readonly x: Scale;
  readonly y: Scale;
  /** An SVG path; points without a value interrupt it. */
  readonly path: string;
}

/** Returns the line through points; `high` is the top of the vertical axis, 0 for that of the data. */
export function lineOf(xs: readonly number[], ys: readonly (number | null)[], room: Room, high = 0): Line {
  const known = ys.filter((one): one is number => one !== null);
  const x = scaleOf(Math.min(...xs), Math.max(...xs), room.left, room.right);
  const y = scaleOf(Math.min(0, ...known), Math.max(high, ...known, Number.MIN_VALUE), room.bottom, room.top);
  let isOpen = false;
  let path = "";
  xs.forEach((at, i) => {
    const value = ys[i] ?? null;
    if (value !== null) path += `${isOpen ? "L" : "M"}${place(x, at).toFixed(1)} ${place(y, value).toFixed(1)}`;
    isOpen = value !== null;
  });
  return { x, y, path };
}

/** Returns the index of the value nearest to `wanted`; -1 without any. */
export function nearestTo(values: readonly number[], wanted: number): number {
  let best = -1;
  values.forEach((value, i) => {
    if (best < 0 || Math.abs(value - wanted) < Math.abs((values[best] as number) - wanted)) best = i;
  });
  return best;
}
