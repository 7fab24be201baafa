/** The only number -> text formatters. */

const TIMES: readonly (readonly [number, string])[] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

/** Writes a length of time with four significant digits: 41.25 µs. */
export function timeText(ns: number): string {
  const size = Math.abs(ns);
  for (const [unit, name] of TIMES) {
    if (size >= unit || unit === 1) return `${digits(ns / unit)} ${name}`;
  }
  return "0 ns";
}

/**
 * Writes an instant so exactly that neighbours `stepNs` apart differ; all instants up to `sizeNs`
 * get the same unit.
 */
export function instantText(ns: number, stepNs: number, sizeNs = Math.abs(ns)): string {
  const [unit, name] = TIMES.find(([one]) => stepNs >= one / 1000 && sizeNs >= one) ??
    TIMES.find(([one]) => stepNs >= one / 1000) ?? [1, "ns"];
  const places = Math.max(0, Math.min(9, Math.ceil(Math.log10(unit / stepNs) - 1e-9)));
  return `${(ns / unit).toFixed(places)} ${name}`;
}

export function shareText(share: number): string {
  if (!Number.isFinite(share)) return "–";
  const percent = share * 100;
  return `${percent !== 0 && Math.abs(percent) < 0.1 ? percent.toPrecision(1) : percent.toFixed(1)} %`;
}

export function countText(count: number): string {
  return String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, " ");
}

export function bytesText(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  while (Math.abs(bytes) >= 1024 && place < units.length - 1) {
    bytes /= 1024;
    place++;
  }
  return place === 0 ? `${bytes} B` : `${digits(bytes)} ${units[place]}`;
}

function digits(value: number): string {
  if (value === 0 || Number.isInteger(value)) return String(value);
  const places = 3 - Math.floor(Math.log10(Math.abs(value)));
  return value.toFixed(Math.max(0, Math.min(3, places)));
}

/** Writes a value of a column by its unit, as the command line does. */
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
      return `${bytesText(value)}/s`;
    default:
      return Number.isInteger(value) ? countText(value) : digits(value);
  }
}
