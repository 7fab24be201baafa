/** The only number formatters; they match those of the command line. */

type Units = readonly (readonly [size: number, name: string])[];

const TIMES: Units = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
const SIZES: Units = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
const COUNTS: Units = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
const RATES: Units = [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"], [1, "B/s"]];

/** Formats a number with three significant digits in a suitable unit. */
function scaled(value: number, units: Units): string {
  // At these limits, rounding to three digits would give 1000, 100.0, or 10.00.
  const last = units[units.length - 1] as Units[number];
  const [size, name] = units.find(([one]) => Math.abs(value) / one >= 0.9995) ?? last;
  if (size === 1 && Number.isInteger(value)) return `${value} ${name}`;
  const number = value / size;
  const places = Math.abs(number) < 9.995 ? 2 : Math.abs(number) < 99.95 ? 1 : 0;
  return `${number.toFixed(places)} ${name}`;
}

/** Formats a duration with three significant digits: 41.3 us. */
export function timeText(ns: number): string {
  return scaled(ns, TIMES);
}

/**
 * Formats a time with enough digits to distinguish times that are `stepNs` apart. All times up to
 * `sizeNs` get the same unit.
 */
export function instantText(ns: number, stepNs: number, sizeNs = Math.abs(ns)): string {
  const [unit, name] = TIMES.find(([one]) => stepNs >= one / 1000 && sizeNs >= one) ??
    TIMES.find(([one]) => stepNs >= one / 1000) ?? [1, "ns"];
  const places = Math.max(0, Math.min(9, Math.ceil(Math.log10(unit / stepNs) - 1e-9)));
  return `${(ns / unit).toFixed(places)} ${name}`;
}

/**
 * Formats a time of the page's clock: in the unit of the largest time, with enough digits to distinguish times that are
 * `stepNs` apart. 62,282,543 ns: "62.283 ms" for steps of 1 us, "62.282543 ms" for steps of 1 ns.
 */
export function clockText(ns: number, stepNs = 1, sizeNs = Math.abs(ns)): string {
  const [unit, name] = TIMES.find(([one]) => sizeNs >= one) ?? [1, "ns"];
  const places = Math.max(0, Math.ceil(Math.log10(unit / Math.max(1, stepNs)) - 1e-9));
  return `${(ns / unit).toFixed(places)} ${name}`;
}

export function shareText(share: number): string {
  if (!Number.isFinite(share)) return "–";
  const percent = share * 100;
  return `${percent !== 0 && Math.abs(percent) < 0.1 ? percent.toPrecision(1) : percent.toFixed(1)}%`;
}

export function countText(count: number): string {
  return String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Formats a large count with three significant digits: "4.19 M"; up to 9,999 it is exact. */
export function shortCountText(count: number, unit = ""): string {
  const isExact = Math.abs(count) < 10_000 && Number.isInteger(count);
  const text = isExact ? countText(count) : scaled(count, COUNTS);
  return unit === "" ? text.trimEnd() : isExact ? `${text} ${unit}` : `${text}${unit}`;
}

/** Formats a count with its noun: "1 row", "1,234 rows". */
export function plural(count: number, noun: string, nouns = `${noun}s`): string {
  return `${countText(count)} ${count === 1 ? noun : nouns}`;
}

/**
 * Formats a number that lies between two bounds: "41.3 us" if they are formatted the same, "≥ 41.3 us" if the upper one is
 * infinite, otherwise "41.3 to 43.0 us".
 */
export function boundsText(low: number, high: number, text: (value: number) => string): string {
  if (high === Number.POSITIVE_INFINITY) return `≥ ${text(low)}`;
  const [least, most] = [text(low), text(high)];
  if (least === most) return most;
  const [number, unit] = partsOf(least);
  return `${unit === partsOf(most)[1] || low === 0 ? number : least} to ${most}`;
}

/** Splits a text into its number and its unit, if it has one. */
function partsOf(text: string): readonly [number: string, unit: string] {
  const [, number, unit] = /^([\d.,-]*)(.*)$/.exec(text) ?? [];
  return [number ?? text, unit ?? ""];
}

export function bytesText(bytes: number): string {
  return scaled(bytes, SIZES);
}

function digits(value: number): string {
  if (value === 0 || Number.isInteger(value)) return String(value);
  const places = 3 - Math.floor(Math.log10(Math.abs(value)));
  return value.toFixed(Math.max(0, Math.min(3, places)));
}

/** Formats a value of a counter by the unit of its row. */
export function counterText(value: number, unit: string | null | undefined): string {
  switch (unit) {
    case "percent":
      return shareText(value / 100);
    case "hz":
      return `${countText(value / 1e6)} MHz`;
    case "w":
      return `${countText(value)} W`;
    case "c":
      return `${countText(value)} °C`;
    default:
      return valueText(value, unit ?? "none");
  }
}

/** Formats the end of an axis, which is a round number: without zeros behind the point. */
export function axisText(value: number, unit: string | null | undefined): string {
  return counterText(value, unit).replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}

/** Formats a value of a column by its unit, as the command line does. */
export function valueText(value: unknown, unit: string): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  switch (unit) {
    case "ns":
      return timeText(value);
    case "bytes":
    case "byte":
      return bytesText(value);
    case "ratio":
      return shareText(value);
    case "bytes_per_s":
      return scaled(value, RATES);
    case "count":
      return Number.isInteger(value) ? countText(value) : digits(value);
    default: // ids and sizes without a unit: 1,234 would not be found by a search
      return digits(value);
  }
}
