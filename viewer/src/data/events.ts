/** The events of a row in memory: sorted arrays with running totals. */

import { checkColumn, decodeColumn, decodeInto, smallIntegers } from "./columns";
import type { ColumnSpec, PartSpec, RowKind } from "./head";

export type NamePlaces = Uint16Array | Uint32Array;

/**
 * Events of one row, sorted by start; they do not overlap.
 *
 * `start` is in ns. `before[i]` is the total duration of the events before `i`: the duration of event i is
 * `before[i + 1] - before[i]`, and that of any run of events takes one subtraction. `busy` is the
 * same for busy segments only in state rows, otherwise `before` itself.
 */
export interface Events {
  readonly count: number;
  readonly start: Float64Array;
  readonly before: Float64Array;
  readonly busy: Float64Array;
  readonly name: NamePlaces;
  readonly row: Int32Array | null;
  readonly table: Uint8Array | null;
  /** Of a counter; NaN where there is no value. */
  readonly value: Float64Array | null;
  /** The lowest and highest values of samples that stand for several, with their mean in `value`. */
  readonly least?: Float64Array | null;
  readonly most?: Float64Array | null;
  readonly links: ReadonlyMap<string, Int32Array | Float64Array>;
}

/** The link of samples that is a time, ns, which may exceed 32 bits. */
export const WEIGHT = "weight";

export function endOf(events: Events, i: number): number {
  return events.start[i] + lengthOf(events, i);
}

export function lengthOf(events: Events, i: number): number {
  return events.before[i + 1] - events.before[i];
}

/** A piece of a stored column: drawing does not need it, so it is decoded on demand. */
interface PackedStretch {
  readonly at: number;
  readonly count: number;
  readonly bytes: Uint8Array;
  readonly column: ColumnSpec;
}

/** The result of a worker: decoded arrays for drawing, and the other columns as stored. */
export interface EventData {
  readonly count: number;
  readonly start: Float64Array;
  readonly before: Float64Array;
  readonly busy: Float64Array;
  readonly name: NamePlaces;
  readonly value: Float64Array | null;
  readonly least: Float64Array | null;
  readonly most: Float64Array | null;
  readonly packed: ReadonlyMap<string, readonly PackedStretch[]>;
}

/** Returns the buffers of events, to be transferred without a copy. */
export function buffersOfEvents(data: EventData): ArrayBuffer[] {
  const stretches = [...data.packed.values()].flat().map((stretch) => stretch.bytes);
  const views = [data.start, data.before, data.busy, data.name, data.value, data.least, data.most, ...stretches];
  return views.flatMap((view) => (view ? [view.buffer as ArrayBuffer] : []));
}

class LazyEvents implements Events {
  readonly count: number;
  readonly start: Float64Array;
  readonly before: Float64Array;
  readonly busy: Float64Array;
  readonly name: NamePlaces;
  readonly value: Float64Array | null;
  readonly least: Float64Array | null;
  readonly most: Float64Array | null;
  private packed: EventData["packed"];
  private ownRow: Int32Array | null = null;
  private ownTable: Uint8Array | null = null;
  private ownLinks: Events["links"] | null = null;

  constructor(data: EventData) {
    this.count = data.count;
    this.start = data.start;
    this.before = data.before;
    this.busy = data.busy;
    this.name = data.name;
    this.value = data.value;
    this.least = data.least;
    this.most = data.most;
    this.packed = data.packed;
  }

  get row(): Int32Array | null {
    this.ownRow ??= this.packed.has("row") ? this.unpacked("row", new Int32Array(this.count)) : null;
    return this.ownRow;
  }

  get table(): Uint8Array | null {
    this.ownTable ??= this.packed.has("table") ? this.unpacked("table", new Uint8Array(this.count)) : null;
    return this.ownTable;
  }

  get links(): Events["links"] {
    if (!this.ownLinks) {
      const names = [...this.packed.keys()].filter((name) => !OWN_COLUMNS.has(name));
      const decoded = names.map((name) => {
        const room = name === WEIGHT ? new Float64Array(this.count) : new Int32Array(this.count);
        return [name, this.unpacked(name, room.fill(-1))] as const;
      });
      this.ownLinks = new Map(decoded);
    }
    return this.ownLinks;
  }

  private unpacked<T extends Int32Array | Float64Array | Uint8Array>(name: string, values: T): T {
    for (const { at, count, bytes, column } of this.packed.get(name) ?? []) {
      decodeInto(values, at, bytes, 0, count, column);
    }
    // The stored bytes are no longer needed.
    this.packed = new Map([...this.packed].map(([key, own]) => [key, key === name ? [] : own]));
    return values;
  }
}

const OWN_COLUMNS: ReadonlySet<string> = new Set(["row", "table"]);

export function eventsOf(data: EventData): Events {
  return new LazyEvents(data);
}

export interface Bounds {
  readonly start_ns: number;
  readonly end_ns: number;
  readonly names: number;
}

/** The properties of a row that decoding needs. */
export interface RowBase {
  readonly label: string;
  readonly kind: RowKind;
}

export interface StoredPart {
  readonly bytes: Uint8Array;
  readonly spec: PartSpec;
}

/** Throws an Error unless a part's columns fit into a block of `length` bytes. */
export function checkPart(length: number, { offset, count, columns }: PartSpec): void {
  let at = offset;
  for (const column of columns) {
    checkColumn(length, at, count, column);
    at += count * column.planes;
  }
  if (count > 0 && columns.length === 0) throw new Error("A part has events but no columns.");
}

/** Decodes the parts of a row in time order; `isIdle[name]` is 1 for idle names. Throws an Error for invalid parts. */
export function decodeEvents(
  row: RowBase,
  parts: readonly StoredPart[],
  isIdle: Uint8Array,
  bounds: Bounds,
): Events {
  for (const { bytes, spec } of parts) checkPart(bytes.length, spec);
  const count = parts.reduce((sum, { spec }) => sum + spec.count, 0);
  const builder = new EventsBuilder(row, count, isIdle, bounds);
  for (const { bytes, spec } of parts) builder.add(bytes, spec);
  return eventsOf(builder.finish());
}

/** The columns of a counter's values. */
const VALUES: ReadonlySet<string> = new Set(["value", "least", "most"]);

/** Reused buffers for the gaps and durations of a part. */
let scratch = [new Uint32Array(0), new Uint32Array(0)] as const;

/** Builds the arrays of a row part by part in a single pass. */
export class EventsBuilder {
  private readonly start: Float64Array;
  private readonly before: Float64Array;
  private readonly name: NamePlaces;
  private readonly values = new Map<string, Float64Array>();
  private readonly packed = new Map<string, PackedStretch[]>();
  private at = 0;
  private end: number;

  constructor(
    private readonly row: RowBase,
    private readonly count: number,
    private readonly isIdle: Uint8Array,
    private readonly bounds: Bounds,
  ) {
    this.start = new Float64Array(count);
    this.before = new Float64Array(count + 1);
    this.name = bounds.names <= 65536 ? new Uint16Array(count) : new Uint32Array(count);
    this.end = bounds.start_ns;
  }

  /** Adds the next part in time. Throws an Error if it is invalid. */
  add(bytes: Uint8Array, part: PartSpec): void {
    checkPart(bytes.length, part);
    const { count } = part;
    if (this.at + count > this.count) throw new Error("A part has more events than its row.");
    if (scratch[0].length < count) scratch = [new Uint32Array(count), new Uint32Array(count)];
    let gap: Uint32Array | Float64Array = scratch[0].fill(0, 0, count);
    let duration: Uint32Array | Float64Array = scratch[1].fill(0, 0, count);
    let { offset } = part;
    for (const column of part.columns) {
      if (column.name === "gap") gap = integers(bytes, offset, count, column, scratch[0]);
      else if (column.name === "duration") duration = integers(bytes, offset, count, column, scratch[1]);
      else if (column.name === "name") this.addNames(bytes, offset, count, column);
      else if (VALUES.has(column.name)) this.addValues(column, decodeColumn(bytes, offset, count, column));
      else this.keep(bytes, offset, count, column);
      offset += count * column.planes;
    }
    this.addTimes(part, gap, duration);
    this.at += count;
  }

  private addTimes(
    part: PartSpec,
    gap: Uint32Array | Float64Array,
    duration: Uint32Array | Float64Array,
  ): void {
    const { start, before, at } = this;
    let total = before[at] as number;
    let least = this.end;
    let end = part.first_ns;
    for (let i = 0; i < part.count; i++) {
      const begin = end + (gap[i] as number);
      if (!(begin >= least)) this.refuse(at + i, "starts before the previous event ends");
      end = least = begin + (duration[i] as number);
      if (!(end >= begin)) this.refuse(at + i, "ends before it starts");
      start[at + i] = begin;
      before[at + i + 1] = total += duration[i] as number;
    }
    if (part.count > 0) this.end = end;
  }

  private addNames(bytes: Uint8Array, offset: number, count: number, column: ColumnSpec): void {
    const found = integers(bytes, offset, count, column, new Uint32Array(count));
    const most = this.bounds.names;
    for (let i = 0; i < count; i++) {
      if (!((found[i] as number) < most)) this.refuse(this.at + i, "has no name");
      this.name[this.at + i] = found[i] as number;
    }
  }

  private addValues({ name, encoding }: ColumnSpec, values: Float64Array): void {
    const all = this.values.get(name) ?? new Float64Array(this.count);
    this.values.set(name, all);
    all.set(encoding === "optional" ? values.map((value) => (value < 0 ? Number.NaN : value)) : values, this.at);
  }

  private keep(bytes: Uint8Array, offset: number, count: number, column: ColumnSpec): void {
    const own = this.packed.get(column.name) ?? [];
    own.push({ at: this.at, count, column, bytes: bytes.slice(offset, offset + count * column.planes) });
    this.packed.set(column.name, own);
  }

  /** Returns the row's events. Throws an Error if they exceed the recording. */
  finish(): EventData {
    const { count, start, before, name, packed, values } = this;
    if (this.at !== count) throw new Error(`${this.row.label}: events are missing.`);
    if (this.end > this.bounds.end_ns) {
      throw new Error(`${this.row.label}: events exceed the time range of the recording.`);
    }
    if (count > 0 && this.bounds.names === 0) this.refuse(0, "has no name");
    const busy = this.row.kind === "state" ? busyTotals(before, name, this.isIdle) : before;
    const of = (column: string): Float64Array | null => values.get(column) ?? null;
    return { count, start, before, busy, name, value: of("value"), least: of("least"), most: of("most"), packed };
  }

  private refuse(event: number, what: string): never {
    throw new Error(`${this.row.label}: event ${event} ${what}.`);
  }
}

/** Returns a column's values, in `room` if they are small, as most are. */
function integers(
  bytes: Uint8Array,
  offset: number,
  count: number,
  column: ColumnSpec,
  room: Uint32Array,
): Uint32Array | Float64Array {
  const isPlain = (column.encoding ?? "plain") === "plain";
  if (!isPlain || column.planes > 4) return decodeColumn(bytes, offset, count, column);
  smallIntegers(bytes, offset, count, column.planes, room);
  return room;
}

function busyTotals(before: Float64Array, name: NamePlaces, isIdle: Uint8Array): Float64Array {
  const busy = new Float64Array(before.length);
  let total = 0;
  for (let i = 0; i < name.length; i++) {
    if (!isIdle[name[i] as number]) total += before[i + 1] - before[i];
    busy[i + 1] = total;
  }
  return busy;
}
