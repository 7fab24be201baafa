/** Texts of the page's values, by the units of its data. */

import { bytesText, countText, shareText, shortCountText, timeText, valueText } from "../../base/units";
import type { Cell } from "../data/document";

export const NONE = "–";

export function shareOrNone(ratio: number | null | undefined): string {
  return ratio === null || ratio === undefined ? NONE : shareText(ratio);
}

export function timeOrNone(ns: number | null | undefined): string {
  return ns === null || ns === undefined ? NONE : timeText(ns);
}

export function sizeText(size: readonly number[] | null): string {
  return size ? size.join(" × ") : NONE;
}

/** Formats a value with its unit: "41.3 us", "98.0%", "4.19 M sectors", "32 registers/thread". */
export function withUnit(value: Cell | undefined, unit: string): string {
  if (value === null || value === undefined) return NONE;
  if (typeof value !== "number") return valueText(value, "none");
  switch (unit) {
    case "ns":
      return timeText(value);
    case "ratio":
      return shareText(value);
    case "%":
      return shareText(value / 100);
    case "byte":
    case "bytes":
    case "byte/block":
      return bytesText(value);
    case "byte/s":
    case "byte/second":
    case "byte/ns":
    case "bytes_per_s":
      return valueText(unit === "byte/ns" ? value * 1e9 : value, "bytes_per_s");
    case "flop_per_s":
      return shortCountText(value, "FLOP/s");
    case "hz":
      return `${countText(value / 1e6)} MHz`;
    default:
      return counted(value, unit === "count" || unit === "none" ? "" : unit);
  }
}

const MEASURED = /^(ns|ratio|%|hz|bytes?(\/\w+)?|\w+_per_s)$/;

/** Formats a value whose label names what is counted: "32" for registers per thread. */
export function underLabel(value: Cell | undefined, unit: string): string {
  return withUnit(value, MEASURED.test(unit) ? unit : "");
}

/** Formats a number for a heading of its own: large ones shortened, small ones with their digits. */
function counted(value: number, unit: string): string {
  const text = Math.abs(value) >= 10_000 ? shortCountText(value) : Number.isInteger(value) || Math.abs(value) >= 1000 ? countText(value) : valueText(value, "none");
  return unit === "" ? text : `${text} ${unit}`;
}

/** Formats the whole value, for a tooltip. */
export function exactText(value: Cell | undefined, unit: string): string {
  if (typeof value !== "number") return withUnit(value, unit);
  const number = Number.isInteger(value) ? countText(value) : String(value);
  return unit === "" || unit === "count" || unit === "none" ? number : `${number} ${unit}`;
}
