/** Decoding of tiles: CONTAINER.md, section 7. */

import { decodeColumn } from "./columns";
import type { CounterPicture } from "./counter-bins";
import { type Bounds, decodeEvents, type Events } from "./events";
import type { ColumnSpec, RowSpec } from "./head";
import { type Categories, NO_NAME } from "./category-bins";

/** All events of a row that overlap the tile; `first` is the number of the first one in the row. */
export interface EventTile {
  readonly kind: "events";
  readonly first: number;
  readonly events: Events;
}

/** Sums of a row over the bins of a tile, and the events of at least 1.5 bins. */
export interface BinTile {
  readonly kind: "bins";
  /** Busy time inside each bin. */
  readonly busy: Float64Array;
  /** The category with the most busy time in each bin: a representative name, and its time. */
  readonly top: Uint32Array;
  readonly topNs: Float64Array;
  /** The same for idle time. */
  readonly rest: Uint32Array;
  readonly restNs: Float64Array;
  readonly wide: readonly WideEvent[];
}

export interface WideEvent {
  readonly start: number;
  readonly length: number;
  readonly name: number;
}

/** Mean and extremes of a counter in each bin; NaN where it has no value. */
export interface CounterTile extends CounterPicture {
  readonly kind: "counter";
}

export type RowTile = EventTile | BinTile | CounterTile;

interface Columns {
  readonly offset: number;
  readonly count: number;
  readonly columns: readonly ColumnSpec[];
}

interface ToldRow extends Partial<Columns> {
  readonly row: number;
  readonly first?: number;
  readonly first_ns?: number;
  readonly bins?: number;
  readonly wide?: number;
  readonly counter?: number;
}

interface TileHead {
  readonly rows: readonly ToldRow[];
  readonly bins?: Columns;
  readonly wide?: Columns;
  readonly counters?: Columns;
}

/** The context for decoding. */
export interface TileBase {
  readonly rows: readonly RowSpec[];
  readonly bins: number;
  readonly isIdle: Uint8Array;
  readonly categories: Categories;
  readonly bounds: Bounds;
}

/** Decodes a tile that starts at `startNs`: its content per row. Throws an Error for invalid data. */
export function decodeTile(bytes: Uint8Array, startNs: number, base: TileBase): Map<number, RowTile> {
  const { head, data } = framed(bytes);
  const read = (columns: Columns | undefined): Map<string, Float64Array> => readColumns(data, columns);
  const [bins, wide, counters] = [read(head.bins), read(head.wide), read(head.counters)];
  const found = new Map<number, RowTile>();
  let wideAt = 0;
  for (const told of head.rows) {
    if (told.counter !== undefined) found.set(told.row, counterTile(counters, told.counter, base.bins));
    else if (told.bins !== undefined) {
      const count = told.wide ?? 0;
      found.set(told.row, binTile(bins, told.bins, base.bins, wideEvents(wide, wideAt, count, startNs)));
      wideAt += count;
    } else found.set(told.row, eventTile(data, told, base));
  }
  return found;
}

/** Decodes excerpts of rows, in row order. */
export function decodeCut(bytes: Uint8Array, base: TileBase): Events[] {
  const { head, data } = framed(bytes);
  return head.rows.map((told) => eventTile(data, told, base).events);
}

function framed(bytes: Uint8Array): { head: TileHead; data: Uint8Array } {
  if (bytes.length < 4) throw new Error("A tile is truncated.");
  const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  if (4 + size > bytes.length) throw new Error("A tile is truncated.");
  const text = new TextDecoder().decode(bytes.subarray(4, 4 + size));
  return { head: JSON.parse(text) as TileHead, data: bytes.subarray(4 + size) };
}

function readColumns(data: Uint8Array, spec: Columns | undefined): Map<string, Float64Array> {
  const found = new Map<string, Float64Array>();
  if (!spec) return found;
  let { offset } = spec;
  for (const column of spec.columns) {
    found.set(column.name, decodeColumn(data, offset, spec.count, column));
    offset += spec.count * column.planes;
  }
  return found;
}

function column(columns: Map<string, Float64Array>, name: string): Float64Array {
  const found = columns.get(name);
  if (!found) throw new Error(`A tile has no column ${name}.`);
  return found;
}

function counterTile(columns: Map<string, Float64Array>, place: number, bins: number): CounterTile {
  const [from, to] = [place * bins, (place + 1) * bins];
  return {
    kind: "counter",
    mean: column(columns, "mean").subarray(from, to),
    least: column(columns, "least").subarray(from, to),
    most: column(columns, "most").subarray(from, to),
  };
}

function binTile(
  columns: Map<string, Float64Array>,
  place: number,
  bins: number,
  wide: readonly WideEvent[],
): BinTile {
  const own = (name: string): Float64Array => column(columns, name).subarray(place * bins, (place + 1) * bins);
  const names = (name: string): Uint32Array => Uint32Array.from(own(name), (one) => (one < 0 ? NO_NAME : one));
  return {
    ...{ kind: "bins", wide, busy: own("busy"), topNs: own("top_ns"), restNs: own("rest_ns") },
    ...{ top: names("top"), rest: names("rest") },
  };
}

function wideEvents(
  columns: Map<string, Float64Array>,
  from: number,
  count: number,
  startNs: number,
): WideEvent[] {
  if (count === 0) return [];
  const [start, length, name] = ["start", "duration", "name"].map((one) => column(columns, one));
  return Array.from({ length: count }, (_, i) => ({
    start: startNs + (start?.[from + i] as number),
    length: length?.[from + i] as number,
    name: name?.[from + i] as number,
  }));
}

function eventTile(data: Uint8Array, told: ToldRow, base: TileBase): EventTile {
  const row = base.rows[told.row];
  if (!row) throw new Error("A tile refers to an unknown row.");
  const spec = {
    ...{ block: 0, offset: told.offset ?? 0, count: told.count ?? 0 },
    ...{ first_ns: told.first_ns ?? 0, columns: told.columns ?? [] },
  };
  const parts = spec.count ? [{ bytes: data, spec }] : [];
  return { kind: "events", first: told.first ?? 0, events: decodeEvents(row, parts, base.isIdle, base.bounds) };
}
