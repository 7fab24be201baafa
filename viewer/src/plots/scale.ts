/** Scales of plots: data to pixels, and round values for axes. Pure. */

import { clockText, valueText } from "../base/units";

export interface Scale {
  readonly low: number;
  readonly high: number;
  /** Pixels of `low` and `high`. */
  readonly from: number;
  readonly to: number;
  readonly isLog: boolean;
}

/** Returns a scale; on a logarithmic one, `low` must be above 0. */
export function scaleOf(low: number, high: number, from: number, to: number, isLog = false): Scale {
  return { low, high: high > low ? high : low + 1, from, to, isLog };
}

export function place(scale: Scale, value: number): number {
  const { low, high, from, to, isLog } = scale;
  const part = isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return from + part * (to - from);
}

/** The base of a unit's round numbers: bytes are counted in powers of two. */
function baseOf(unit: string): number {
  return unit === "bytes" ? 2 : 10;
}

/** Returns the least round number of a base that is not below `least`. */
export function roundStep(least: number, base: number): number {
  if (base === 2) return 2 ** Math.ceil(Math.log2(least));
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5, 10].find((times) => times * power >= least * 0.999999) ?? 10) * power;
}

/** Returns round values of a scale, at most about `most` of them. */
export function ticks(scale: Scale, unit: string, most: number): number[] {
  const { low, high, isLog } = scale;
  const base = baseOf(unit);
  if (isLog) {
    const first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
    const last = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
    if (base === 10 && last - first < most / 3) return fineTicks(scale);
    const step = Math.max(1, Math.ceil((last - first + 1) / most));
    return Array.from({ length: Math.max(0, Math.floor((last - first) / step) + 1) }, (_, i) => base ** (first + i * step));
  }
  // Counts and nanoseconds have no fractions.
  const step = Math.max(roundStep((high - low) / most, base), unit === "count" || unit === "ns" ? 1 : 0);
  const found: number[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step + 0); // never -0
  return found;
}

/** Returns 1, 2, and 5 times the powers of ten of a logarithmic scale. */
function fineTicks({ low, high }: Scale): number[] {
  const found: number[] = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
    found.push(...[1, 2, 5].map((times) => times * power).filter((value) => value >= low && value <= high));
  }
  return found;
}

/** Returns the texts of values on an axis: without trailing zeros, and times with enough digits to differ. */
export function tickTexts(values: readonly number[], unit: string, isLog = false): string[] {
  const [first = 0, second = first + 1] = values;
  const most = Math.max(...values.map(Math.abs));
  const text = (value: number): string => (unit === "ns" && !isLog ? clockText(value, second - first, most) : valueText(value, unit));
  return values.map((value) => (value === 0 ? "0" : text(value).replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "")));
}
