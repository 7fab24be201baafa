/** The roofline: ceilings and points in pixels, on two logarithmic axes. Pure. */

import { valueText } from "../../base/units";
import { place, scaleOf, type Scale } from "../../plots/scale";
import type { Ceiling, Roofline, RooflinePoint } from "../data/document";
import { withUnit } from "./values";

export interface Roof {
  readonly kind: Ceiling["kind"];
  /** What it is of: a precision or a level of memory. */
  readonly name: string;
  readonly source: string;
  readonly rate: number;
  readonly text: string;
  readonly x0: number;
  readonly y0: number;
  readonly x1: number;
  readonly y1: number;
}

export interface RoofLabel {
  readonly text: string;
  readonly x: number;
  readonly y: number;
  /** Degrees by which the text is turned, as its line is. */
  readonly angle: number;
  readonly anchor: "start" | "end";
}

export interface RoofPoint {
  readonly point: RooflinePoint;
  readonly x: number;
  readonly y: number;
  readonly text: string;
}

export interface RooflinePlot {
  readonly x: Scale;
  readonly y: Scale;
  readonly roofs: readonly Roof[];
  readonly labels: readonly RoofLabel[];
  readonly points: readonly RoofPoint[];
}

export interface Room {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

const LABEL_PX = 13;
const MARGIN = 3; // factor between the outermost point or ridge and the edge

export function ceilingName(ceiling: Ceiling): string {
  return ceiling.name ?? ceiling.precision ?? ceiling.level ?? ceiling.kind;
}

export function ceilingRate(ceiling: Ceiling): number {
  return ceiling.flop_per_s ?? ceiling.bytes_per_s ?? 0;
}

export function ceilingText(ceiling: Ceiling): string {
  const rate = ceiling.kind === "compute" ? withUnit(ceilingRate(ceiling), "flop_per_s") : valueText(ceilingRate(ceiling), "bytes_per_s");
  return `${rate} (${sourceName(ceiling)})`;
}

export function sourceName(ceiling: Ceiling): string {
  return ceiling.source === "measured_clock" ? "measured, at this clock" : ceiling.source;
}

export function precisionName(point: RooflinePoint): string {
  return point.name ?? point.precision;
}

export function pointText(point: RooflinePoint): string {
  const intensity = point.flop_per_byte === null ? "" : `, ${valueText(point.flop_per_byte, "none")} FLOP/byte`;
  return `${precisionName(point)}, ${point.level}: ${withUnit(point.flop_per_s, "flop_per_s")}${intensity}`;
}

/** Returns the plot, or null if nothing can be drawn: without a point or without a ceiling. */
export function rooflinePlot(roofline: Roofline, room: Room): RooflinePlot | null {
  const shown = roofline.points.filter((one) => one.flop_per_byte !== null && one.flop_per_byte > 0 && one.flop_per_s > 0);
  const ceilings = roofline.ceilings.filter((one) => ceilingRate(one) > 0);
  const compute = ceilings.filter(({ kind }) => kind === "compute").map(ceilingRate);
  const bandwidth = ceilings.filter(({ kind }) => kind === "bandwidth").map(ceilingRate);
  if (!shown.length || !compute.length || !bandwidth.length) return null;
  const [top, fastest] = [Math.max(...compute), Math.max(...bandwidth)];
  const ridges = bandwidth.map((rate) => top / rate);
  const across = [...shown.map((one) => one.flop_per_byte as number), ...ridges];
  const up = [...shown.map((one) => one.flop_per_s), Math.min(...compute) / MARGIN];
  const x = scaleOf(Math.min(...across) / MARGIN, Math.max(...across) * MARGIN, room.left, room.right, true);
  const y = scaleOf(Math.min(...up) / MARGIN, top * MARGIN, room.bottom, room.top, true);
  const roofs = ceilings.map((ceiling) => roofOf(ceiling, { x, y, top, fastest }));
  return {
    x,
    y,
    roofs,
    labels: labelsOf(roofs, room),
    points: shown.map((point) => ({ point, x: place(x, point.flop_per_byte as number), y: place(y, point.flop_per_s), text: pointText(point) })),
  };
}

interface Extent {
  readonly x: Scale;
  readonly y: Scale;
  readonly top: number;
  readonly fastest: number;
}

/** A bandwidth rises until the highest compute ceiling; a compute ceiling begins at the fastest bandwidth. */
function roofOf(ceiling: Ceiling, { x, y, top, fastest }: Extent): Roof {
  const rate = ceilingRate(ceiling);
  const [from, to] =
    ceiling.kind === "bandwidth"
      ? [Math.max(x.low, y.low / rate), Math.min(top / rate, x.high)]
      : [Math.max(x.low, rate / fastest), x.high];
  const height = (at: number): number => place(y, ceiling.kind === "bandwidth" ? rate * at : rate);
  return {
    kind: ceiling.kind,
    name: ceilingName(ceiling),
    source: ceiling.source,
    rate,
    text: ceilingText(ceiling),
    x0: place(x, from),
    y0: height(from),
    x1: place(x, to),
    y1: height(to),
  };
}

/** One label for all ceilings of a name, on the highest of them; those of compute ceilings keep apart. */
function labelsOf(roofs: readonly Roof[], room: Room): RoofLabel[] {
  const groups = new Map<string, Roof[]>();
  for (const roof of roofs) {
    const key = `${roof.kind} ${roof.name}`;
    groups.set(key, [...(groups.get(key) ?? []), roof]);
  }
  const flat: RoofLabel[] = [];
  const rising: RoofLabel[] = [];
  for (const group of groups.values()) {
    const ordered = [...group].sort((one, other) => other.rate - one.rate);
    const highest = ordered[0] as Roof;
    const text = `${highest.name} ${ordered.map((roof) => roof.text).join(", ")}`;
    if (highest.kind === "compute") flat.push({ text, x: room.right - 2, y: highest.y0 - 4, angle: 0, anchor: "end" });
    else {
      const angle = (Math.atan2(highest.y1 - highest.y0, highest.x1 - highest.x0) * 180) / Math.PI;
      const part = 0.06;
      rising.push({ text, x: highest.x0 + part * (highest.x1 - highest.x0) - 4, y: highest.y0 + part * (highest.y1 - highest.y0) - 5, angle, anchor: "start" });
    }
  }
  flat.sort((one, other) => other.y - one.y);
  let last = Infinity;
  const apart = flat.map((label) => {
    last = Math.min(label.y, last - LABEL_PX);
    return { ...label, y: last };
  });
  return [...apart, ...rising];
}
