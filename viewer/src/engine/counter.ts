/** Counters: per pixel the mean over time as a line, and the range between minimum and maximum as a faint band. */

import { upperBound } from "../base/search";
import { counterText } from "../base/units";
import { averages, averagesOfBins, type CounterPicture } from "../data/counter-bins";
import type { RowSpec } from "../data/head";
import type { RowData } from "../data/recording";
import type { Pen } from "./surface";
import { lengthOfSpan, type Span, xToTime } from "./view";

const LINE_PX = 1.5;
const DOT_PX = 4;
const LABEL_PX = 11;
const AREA = 0.16;
const BAND = 0.4;
const PLATE = 0.6; // behind texts

export interface CounterRoom {
  readonly width: number;
  readonly top: number;
  readonly height: number;
  readonly colour: string;
  readonly text: string;
  readonly background: string;
  readonly axes?: CommonAxes | undefined;
}

/** The values at the bottom and at the top of a counter's row. */
export interface Axis {
  readonly low: number;
  readonly high: number;
}

/** The upper ends of axes that another recording has in common with this one, by row id. */
export type CommonAxes = ReadonlyMap<string, number>;

/** Returns the axis: it has all values of the recording, and 0. */
export function axisOf(row: RowSpec, common?: CommonAxes): Axis {
  const high = common?.get(row.id) ?? row.axis_max ?? row.max ?? 1;
  return { low: Math.min(0, row.min ?? 0), high: Math.max(0, high) };
}

/** Returns mean and extremes of a counter per pixel, or null before its samples arrive. */
export function pictureOfCounter(data: RowData, span: Span, width: number): CounterPicture | null {
  if (data.counter) return averagesOfBins(data.counter, span, width);
  const { bins, events } = data;
  if (bins && lengthOfSpan(span) / width >= bins.binNs) return averagesOfBins(bins, span, width);
  return events && averages(events, span, width);
}

/** The values of a counter in a pixel, and their time: of the sample if there is one, otherwise of the pixel. */
export interface CounterPoint extends Span {
  readonly mean: number;
  readonly least: number;
  readonly most: number;
}

/** Returns the values in the pixel at `x`, null where there is none. */
export function counterAt(data: RowData, span: Span, width: number, x: number): CounterPoint | null {
  const start = xToTime(Math.floor(x), span, width);
  const pixel = { start, end: start + lengthOfSpan(span) / width };
  const picture = pictureOfCounter(data, pixel, 1);
  const [mean, least, most] = [picture?.mean[0], picture?.least[0], picture?.most[0]];
  if (mean === undefined || least === undefined || most === undefined || Number.isNaN(mean)) return null;
  return { mean, least, most, ...(sampleAround(data, pixel) ?? pixel) };
}

/** Returns the time of the sample that covers a pixel, null if there are several. */
function sampleAround({ events, counter }: RowData, { start, end }: Span): Span | null {
  if (!events || counter) return null;
  const at = upperBound(events.start, start) - 1;
  const until = events.start[at + 1];
  return at >= 0 && until !== undefined && until >= end ? { start: events.start[at] as number, end: until } : null;
}

export function drawCounter(pen: Pen, picture: CounterPicture, row: RowSpec, room: CounterRoom): void {
  const width = Math.ceil(room.width);
  const { mean, least, most } = picture;
  const { low, high } = axisOf(row, room.axes);
  const bottom = room.top + room.height;
  const y = (value: number): number =>
    bottom - Math.max(0, Math.min(1, (value - low) / Math.max(1e-12, high - low))) * (room.height - LINE_PX);
  const isConstant = isFlat(picture); // its area would look like a filled row
  pen.fillStyle = room.colour;
  if (!isConstant) {
    pen.globalAlpha = AREA;
    fillColumns(pen, width, (x) => y(mean[x]), () => bottom);
    pen.globalAlpha = BAND;
    fillColumns(pen, width, (x) => y(most[x]), (x) => y(least[x]));
    pen.globalAlpha = 1;
  }
  const before = (x: number): number => (x > 0 && !Number.isNaN(mean[x - 1]) ? y(mean[x - 1]) : y(mean[x]));
  fillColumns(pen, width, (x) => Math.min(y(mean[x]), before(x)) - LINE_PX, (x) => Math.max(y(mean[x]), before(x)));
  let peak = -1;
  for (let x = 0; x < width; x++) if (most[x] > (peak < 0 ? Number.NEGATIVE_INFINITY : most[peak])) peak = x;
  if (peak >= 0 && !isConstant) drawPeak(pen, most[peak], row, peak, y(most[peak]), room);
}

/** Fills the pixels between two curves; a column that is like the one before is drawn with it. NaN is left out. */
function fillColumns(pen: Pen, width: number, top: (x: number) => number, bottom: (x: number) => number): void {
  let [begin, above, below] = [0, Number.NaN, Number.NaN];
  for (let x = 0; x <= width; x++) {
    const [now, low] = x < width ? [top(x), bottom(x)] : [Number.NaN, Number.NaN];
    if (now === above && low === below) continue;
    if (below > above) pen.fillRect(begin, above, x - begin, below - above);
    [begin, above, below] = [x, now, low];
  }
}

/** Returns whether all values in view are the same. */
function isFlat({ least, most }: CounterPicture): boolean {
  const first = most.find((value) => !Number.isNaN(value)) ?? 0;
  return most.every((value, x) => Number.isNaN(value) || (value === first && least[x] === first));
}

/** Marks the highest value in view. */
function drawPeak(pen: Pen, value: number, row: RowSpec, x: number, y: number, room: CounterRoom): void {
  const text = `peak ${counterText(value, row.unit)}`;
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.fillRect(x - DOT_PX / 2, y - LINE_PX / 2 - DOT_PX / 2, DOT_PX, DOT_PX);
  const wide = pen.measureText(text).width;
  const at = x + DOT_PX + 2 + wide <= room.width ? x + DOT_PX + 2 : x - DOT_PX - 2 - wide;
  const [left, middle] = [Math.max(0, at), Math.min(y + LABEL_PX * 0.7, room.top + room.height - LABEL_PX / 2)];
  pen.globalAlpha = PLATE;
  pen.fillStyle = room.background;
  pen.fillRect(left, middle - LABEL_PX / 2, wide, LABEL_PX);
  pen.globalAlpha = 1;
  pen.fillStyle = room.text;
  pen.fillText(text, left, middle);
}
