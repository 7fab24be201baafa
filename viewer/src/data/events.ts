/** The events of a row in memory: sorted arrays with running totals. */

import { decodeColumn, partBytes } from "./columns";
import type { PartSpec, RowSpec } from "./head";

/**
 * Events of one row, by start; they do not overlap.
 *
 * `start` ns; `before[i]` is the time that events before `i` take, so that the length of event i is
 * `before[i + 1] - before[i]` and that of any run of events one subtraction. `busy` is the same
 * for busy segments only in rows of states, otherwise `before` itself.
 */
export interface Events {
  readonly count: number;
  readonly start: Float64Array;
  readonly before: Float64Array;
  readonly busy: Float64Array;
  readonly name: Uint32Array;
  readonly row: Int32Array | null;
  readonly table: Uint8Array | null;
  readonly value: Float64Array | null;
  readonly links: ReadonlyMap<string, Int32Array>;
}

export function endOf(events: Events, i: number): number {
  return events.start[i] + lengthOf(events, i);
}

export function lengthOf(events: Events, i: number): number {
  return events.before[i + 1] - events.before[i];
}

/** The columns of one part, as a worker hands them over. */
export interface Part {
  readonly count: number;
  readonly start: Float64Array;
  readonly duration: Float64Array;
  readonly name: Uint32Array;
  readonly others: Readonly<Record<string, Float64Array | Int32Array>>;
}

/** Decodes one part from the inflated bytes of its block. */
export function decodePart(bytes: Uint8Array, part: PartSpec): Part {
  if (part.offset + partBytes(part.count, part.columns) > bytes.length) {
    throw new Error("A part reaches beyond its block.");
  }
  const found = new Map<string, Float64Array>();
  let offset = part.offset;
  for (const column of part.columns) {
    found.set(column.name, decodeColumn(bytes, offset, part.count, column));
    offset += part.count * column.planes;
  }
  const gap = found.get("gap") ?? new Float64Array(part.count);
  const duration = found.get("duration") ?? new Float64Array(part.count);
  const start = gap;
  let end = part.first_ns;
  for (let i = 0; i < part.count; i++) {
    const at = end + gap[i];
    start[i] = at;
    end = at + duration[i];
  }
  const others: Record<string, Float64Array | Int32Array> = {};
  for (const [name, values] of found) {
    if (name === "gap" || name === "duration" || name === "name") continue;
    others[name] = name === "value" ? values : Int32Array.from(values);
  }
  const names = found.get("name");
  const name = names ? Uint32Array.from(names) : new Uint32Array(part.count);
  return { count: part.count, start, duration, name, others };
}

/** Returns the buffers of a part, to be handed over without a copy. */
export function buffersOf(part: Part): ArrayBuffer[] {
  const arrays = [part.start, part.duration, part.name, ...Object.values(part.others)];
  return [...new Set(arrays.map((array) => array.buffer as ArrayBuffer))];
}

export interface Bounds {
  readonly start_ns: number;
  readonly end_ns: number;
  readonly names: number;
}

/**
 * Joins the parts of a row, in the order of the head.
 *
 * `isIdle[name]` tells which names of a row of states are idle. Throws an Error if the events are out
 * of order, out of bounds or of unknown names.
 */
export function joinParts(
  row: Pick<RowSpec, "kind" | "label">,
  parts: readonly Part[],
  isIdle: Uint8Array,
  bounds: Bounds,
): Events {
  const count = parts.reduce((sum, part) => sum + part.count, 0);
  const start = new Float64Array(count);
  const before = new Float64Array(count + 1);
  const name = new Uint32Array(count);
  let at = 0;
  let total = 0;
  for (const part of parts) {
    start.set(part.start, at);
    name.set(part.name, at);
    for (let i = 0; i < part.count; i++) {
      total += part.duration[i] as number;
      before[at + i + 1] = total;
    }
    at += part.count;
  }
  const events: Events = {
    count,
    start,
    before,
    busy: row.kind === "state" ? busyTotals(before, name, isIdle) : before,
    name,
    row: joined(parts, "row", count, Int32Array),
    table: joined(parts, "table", count, Uint8Array),
    value: joined(parts, "value", count, Float64Array),
    links: linksOf(parts, count),
  };
  check(row, events, bounds);
  return events;
}

function busyTotals(before: Float64Array, name: Uint32Array, isIdle: Uint8Array): Float64Array {
  const busy = new Float64Array(before.length);
  for (let i = 0; i < name.length; i++) {
    const length = before[i + 1] - before[i];
    busy[i + 1] = busy[i] + (isIdle[name[i] as number] ? 0 : length);
  }
  return busy;
}

interface Arrays<T> {
  new (length: number): T & { set(values: ArrayLike<number>, at: number): void };
}

function joined<T>(parts: readonly Part[], name: string, count: number, kind: Arrays<T>): T | null {
  if (!parts.some((part) => name in part.others)) return null;
  const values = new kind(count);
  let at = 0;
  for (const part of parts) {
    const own = part.others[name];
    if (own) values.set(own, at);
    at += part.count;
  }
  return values;
}

const OWN_COLUMNS = new Set(["row", "table", "value"]);

function linksOf(parts: readonly Part[], count: number): Map<string, Int32Array> {
  const names = new Set(parts.flatMap((part) => Object.keys(part.others)));
  const links = new Map<string, Int32Array>();
  for (const name of names) {
    if (OWN_COLUMNS.has(name)) continue;
    const values = new Int32Array(count).fill(-1);
    let at = 0;
    for (const part of parts) {
      const own = part.others[name];
      if (own) values.set(own, at);
      at += part.count;
    }
    links.set(name, values);
  }
  return links;
}

function check(row: { readonly label: string }, events: Events, bounds: Bounds): void {
  const { start, before, name, count } = events;
  let end = bounds.start_ns;
  for (let i = 0; i < count; i++) {
    const at = start[i];
    if (!(at >= end)) throw new Error(`${row.label}: event ${i} begins before the one before ends.`);
    if (name[i] >= bounds.names) throw new Error(`${row.label}: event ${i} has no name.`);
    end = at + before[i + 1] - before[i];
  }
  if (end > bounds.end_ns) throw new Error(`${row.label}: events reach beyond the recording.`);
}
