/** Places of marks in pixels, and which mark is at the pointer. Pure. */

import { place, scaleOf, type Scale } from "./scale";
import type { Chart, Mark, Series } from "./shapes";

export interface Placed {
  readonly mark: Mark;
  readonly left: number;
  readonly right: number;
  /** Pixels from the top: `top` is the end with the value. */
  readonly top: number;
  readonly bottom: number;
  /** The value is above the plot's limit. */
  readonly isCut: boolean;
}

export interface Frame {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

export interface Scales {
  readonly x: Scale;
  readonly y: Scale;
}

const WIDEST_PLACE = 220; // pixels: a few bars do not fill the width

/** Returns the scales of a chart; the vertical one begins at 0 unless it is logarithmic. */
export function scalesOf(chart: Chart, frame: Frame): Scales {
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const { marks } of chart.series) {
    for (const mark of marks) {
      x0 = Math.min(x0, mark.x0);
      x1 = Math.max(x1, mark.x1);
      y1 = Math.max(y1, mark.y1);
      if (mark.y1 > 0) y0 = Math.min(y0, mark.y1);
    }
  }
  if (chart.x.labels) x1 = Math.max(x1, (frame.right - frame.left) / WIDEST_PLACE);
  for (const line of chart.lines ?? []) y1 = Math.max(y1, line.y);
  if (chart.top !== undefined) y1 = Math.min(y1, chart.top);
  const isLog = chart.y.isLog === true && y0 < y1;
  // Room above the highest value, so that its mark and label are whole.
  const high = isLog ? y1 * 1.3 : y1 > 0 ? y1 * 1.06 : 1;
  return {
    x: scaleOf(x0, x1, frame.left, frame.right, chart.x.isLog === true && x0 > 0),
    y: scaleOf(isLog ? y0 / 1.3 : 0, high, frame.bottom, frame.top, isLog),
  };
}

export function placed({ marks }: Series, scales: Scales): Placed[] {
  const { x, y } = scales;
  const clamped = (value: number): number => Math.max(y.low, Math.min(y.high, value));
  return marks.map((mark) => ({
    mark,
    left: place(x, mark.x0),
    right: Math.max(place(x, mark.x1), place(x, mark.x0) + 1),
    top: place(y, clamped(mark.y1)),
    bottom: place(y, clamped(mark.y0)),
    isCut: mark.y1 > y.high,
  }));
}

const NEAR = 12;

/** Returns the mark nearest to a point: sideways within `NEAR` pixels, then the nearest value. */
export function nearest(all: readonly Placed[], x: number, y: number): Placed | null {
  let best: Placed | null = null;
  let least = Infinity;
  for (const one of all) {
    const aside = Math.max(0, one.left - x, x - one.right);
    if (aside > NEAR) continue;
    const isInside = y >= one.top && y <= one.bottom;
    // Small ones in front: of two that contain the point, that with the nearer end.
    const away = aside * 100 + (isInside ? 0 : 10) + Math.abs(y - one.top) / 10;
    if (away < least) [best, least] = [one, away];
  }
  return best;
}

function at(value: number): string {
  return value.toFixed(1);
}

/** Returns the outline of a series as one SVG path: thousands of elements would be slow. */
export function outline(kind: Series["kind"], all: readonly Placed[]): string {
  if (kind === "points") {
    return all.map((one) => `M${at((one.left + one.right) / 2 - 2)} ${at(one.top - 2)}h4v4h-4z`).join("");
  }
  if (kind === "bars") {
    return all.map(({ left, right, top, bottom }) => `M${at(left)} ${at(bottom)}V${at(Math.min(top, bottom - 0.5))}H${at(right)}V${at(bottom)}z`).join("");
  }
  return all
    .map((one, i) => {
      const joins = i > 0 && Math.abs((all[i - 1]?.right ?? 0) - one.left) < 1.5;
      return `${joins ? `V${at(one.top)}` : `M${at(one.left)} ${at(one.top)}`}H${at(one.right)}`;
    })
    .join("");
}
