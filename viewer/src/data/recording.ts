/** A recording in the page: the head, names and, as they arrive, the events of every row. */

import type { Blocks } from "./blocks";
import { decodeColumn } from "./columns";
import type { Decoders } from "./decoders";
import { type FinishedRow, finishRow, type RowOrder } from "./decode-worker";
import type { Bounds, Events, Part } from "./events";
import type { AttributeColumn, Head, ResultTable } from "./head";
import type { Pyramid } from "./pyramid";

export interface Names {
  readonly texts: readonly string[];
  readonly categories: readonly number[];
  readonly labels?: readonly (string | null)[];
}

export interface Overview {
  readonly bins: number;
  readonly coverage: Uint8Array;
  readonly category: Uint8Array;
}

export interface RowData {
  events: Events | null;
  pyramid: Pyramid | null;
  error: string | null;
}

/** An event by its place in the page. */
export interface Place {
  readonly row: number;
  readonly event: number;
}

export interface Attribute {
  readonly name: string;
  readonly unit: string;
  readonly doc: string;
  readonly value: number | string | null;
}

export class Recording {
  names: Names = { texts: [], categories: [] };
  overview: Overview | null = null;
  readonly rows: RowData[];
  readonly rowOf: ReadonlyMap<string, number>;
  private readonly byTable = new Map<string, TableIndex>();
  private readonly attributeBytes = new Map<number, Promise<Uint8Array>>();
  private readonly results = new Map<string, Promise<ResultTable>>();

  constructor(
    readonly head: Head,
    private readonly blocks: Blocks,
    private readonly decoders: Decoders,
  ) {
    this.rows = head.rows.map(() => ({ events: null, pyramid: null, error: null }));
    this.rowOf = new Map(head.rows.map((row, place) => [row.id, place]));
  }

  async loadOverview(): Promise<void> {
    const bytes = await this.bytesOf(0);
    const bins = this.head.overview_bins;
    const size = bins * this.head.rows.length;
    if (bytes.length !== 2 * size) throw new Error("The overview has not the size that the file says.");
    this.overview = { bins, coverage: bytes.subarray(0, size), category: bytes.subarray(size) };
  }

  async loadNames(): Promise<void> {
    const names = JSON.parse(new TextDecoder().decode(await this.bytesOf(1))) as Names;
    if (names.texts.length !== names.categories.length) {
      throw new Error("The names of the file and their categories differ in number.");
    }
    this.names = names;
  }

  /** Loads every row's events; `arrived` is called with each row that is complete or failed. */
  async loadEvents(arrived: (row: number) => void): Promise<void> {
    const parts: (Part | undefined)[][] = this.head.rows.map((row) => row.parts.map(() => undefined));
    const isIdle = this.idleNames();
    const load = async (block: number, rows: RowOrder[]): Promise<void> => {
      try {
        const delivery = await this.decoders.order({
          ...{ block, rows, isIdle, bounds: this.bounds(), wantsBytes: false },
          packed: await this.blocks.get(block),
          rawBytes: this.rawBytes(block),
        });
        if (delivery.error) throw new Error(delivery.error);
        for (const { row, ...finished } of delivery.rows) this.finish(row, finished);
        for (const { row, place, part } of delivery.parts) (parts[row] as Part[])[place] = part;
        for (const { row, reason } of delivery.failed) this.fail(row, reason);
      } catch (error) {
        for (const { row } of rows) this.fail(row, (error as Error).message);
      }
      for (const { row, isWhole } of rows) {
        if (!isWhole) this.joinIfComplete(row, parts, isIdle);
        if (this.rows[row]?.events || this.rows[row]?.error) arrived(row);
      }
    };
    await Promise.all([...this.rowsByBlock()].map(([block, rows]) => load(block, rows)));
  }

  private rowsByBlock(): Map<number, RowOrder[]> {
    const orders = new Map<number, RowOrder[]>();
    this.head.rows.forEach(({ label, kind, parts }, row) => {
      const isWhole = parts.every((part) => part.block === parts[0]?.block);
      for (const block of new Set(parts.map((part) => part.block))) {
        const own = parts.flatMap((spec, place) => (spec.block === block ? [{ place, spec }] : []));
        const list = orders.get(block) ?? [];
        list.push({ row, label, kind, isWhole, parts: own });
        orders.set(block, list);
      }
    });
    return orders;
  }

  private joinIfComplete(row: number, parts: (Part | undefined)[][], isIdle: Uint8Array): void {
    const own = parts[row] ?? [];
    const spec = this.head.rows[row];
    if (!spec || own.length === 0 || own.includes(undefined)) return;
    try {
      this.finish(row, finishRow(spec, own as Part[], isIdle, this.bounds()));
    } catch (error) {
      this.fail(row, (error as Error).message);
    }
    parts[row] = [];
  }

  private finish(row: number, { events, pyramid }: FinishedRow): void {
    const data = this.rows[row];
    if (!data) return;
    data.events = events;
    data.pyramid = pyramid;
    this.byTable.clear();
  }

  private bounds(): Bounds {
    const { start_ns, end_ns } = this.head;
    return { start_ns, end_ns, names: this.names.texts.length };
  }

  /** Tells for every name whether its category is idle time. */
  idleNames(): Uint8Array {
    const { categories } = this.head;
    return Uint8Array.from(this.names.categories, (place) =>
      categories[place]?.kind === "idle" ? 1 : 0,
    );
  }

  /** Returns the id of an event, stable for this recording. */
  idOf({ row, event }: Place): string {
    const events = this.rows[row]?.events;
    const spec = this.head.rows[row];
    if (!events || !spec) return "";
    const table = events.table ? events.table[event] : spec.table;
    if (!events.row || table === null || table === undefined) return `${spec.id}#${event}`;
    return `${this.head.tables[table]}:${events.row[event]}`;
  }

  /** Finds an event by its id; null if it is not among the rows that have arrived. */
  find(id: string): Place | null {
    const made = /^(.+)#(\d+)$/.exec(id);
    if (made) {
      const row = this.rowOf.get(made[1] as string);
      const event = Number(made[2]);
      const events = row === undefined ? null : this.rows[row]?.events;
      return row !== undefined && events && event < events.count ? { row, event } : null;
    }
    const [, table, number] = /^([a-z_]+):(\d+)$/.exec(id) ?? [];
    return table === undefined ? null : this.findRow(table, Number(number));
  }

  /** Finds the event that is a row of a table. */
  findRow(table: string, row: number): Place | null {
    return this.indexOf(table).find(row);
  }

  /** Returns the events whose column `link` points at a row of that link's table. */
  pointingAt(link: string, row: number): Place[] {
    const key = `${link}>`;
    let index = this.byTable.get(key);
    if (!index) {
      index = new TableIndex(this, (events) => {
        const own = events.links.get(link);
        return own ? { row: own, keep: () => true } : null;
      });
      this.byTable.set(key, index);
    }
    return index.findAll(row);
  }

  private indexOf(table: string): TableIndex {
    let index = this.byTable.get(table);
    if (!index) {
      const wanted = this.head.tables.indexOf(table);
      index = new TableIndex(this, (events, place) => {
        const { table: tables, row } = events;
        if (!row) return null;
        if (tables) return { row, keep: (i) => tables[i] === wanted };
        return this.head.rows[place]?.table === wanted ? { row, keep: () => true } : null;
      });
      this.byTable.set(table, index);
    }
    return index;
  }

  /** Reads what the file says about a row of a table. */
  async attributes(table: string, row: number): Promise<Attribute[]> {
    const spec = this.head.attributes.find((one) => one.table === table);
    if (!spec || row >= spec.count) return [];
    let bytes = this.attributeBytes.get(spec.block);
    if (!bytes) {
      bytes = this.bytesOf(spec.block);
      this.attributeBytes.set(spec.block, bytes);
    }
    const raw = await bytes;
    let offset = spec.offset;
    return spec.columns.map((column) => {
      const value = decodeColumn(raw, offset, spec.count, column)[row] as number;
      offset += spec.count * column.planes;
      return { name: column.name, unit: column.unit, doc: column.doc, value: this.shown(column, value) };
    });
  }

  private shown(column: AttributeColumn, value: number): number | string | null {
    const optional = column.encoding?.startsWith("optional") ?? false;
    if (Number.isNaN(value) || (optional && value < 0)) return null;
    if (column.texts) return this.names.texts[value] ?? null;
    return column.labels?.[String(value)] ?? value;
  }

  result(name: string): Promise<ResultTable> {
    let found = this.results.get(name);
    if (!found) {
      const spec = this.head.results.find((one) => one.name === name);
      found = spec
        ? this.bytesOf(spec.block).then((raw) => JSON.parse(new TextDecoder().decode(raw)) as ResultTable)
        : Promise.reject(new Error(`The file has no table ${name}.`));
      this.results.set(name, found);
    }
    return found;
  }

  private async bytesOf(block: number): Promise<Uint8Array> {
    const delivery = await this.decoders.order({
      block,
      packed: await this.blocks.get(block),
      rawBytes: this.rawBytes(block),
      rows: [],
      isIdle: new Uint8Array(0),
      bounds: this.bounds(),
      wantsBytes: true,
    });
    if (!delivery.bytes) throw new Error(delivery.error ?? "A block could not be read.");
    return delivery.bytes;
  }

  private rawBytes(block: number): number {
    const spec = this.head.blocks[block];
    if (!spec) throw new Error(`The file has no block ${block}.`);
    return spec.raw_bytes;
  }

  private fail(row: number, reason: string): void {
    const data = this.rows[row];
    if (data) data.error ??= reason;
  }
}

type Selector = (
  events: Events,
  row: number,
) => { readonly row: Int32Array; readonly keep: (event: number) => boolean } | null;

/** Finds events by a number that they carry: sorted once, when first asked. */
class TableIndex {
  private readonly numbers: Float64Array;
  private readonly row: Uint32Array;
  private readonly event: Uint32Array;

  constructor(recording: Recording, select: Selector) {
    const numbers: number[] = [];
    const rows: number[] = [];
    const places: number[] = [];
    recording.rows.forEach((data, place) => {
      const chosen = data.events && select(data.events, place);
      if (!data.events || !chosen) return;
      for (let i = 0; i < data.events.count; i++) {
        const number = chosen.row[i] as number;
        if (number < 0 || !chosen.keep(i)) continue;
        numbers.push(number);
        rows.push(place);
        places.push(i);
      }
    });
    const order = Uint32Array.from(numbers.keys()).sort(
      (a, b) => (numbers[a] as number) - (numbers[b] as number),
    );
    this.numbers = Float64Array.from(order, (i) => numbers[i] as number);
    this.row = Uint32Array.from(order, (i) => rows[i] as number);
    this.event = Uint32Array.from(order, (i) => places[i] as number);
  }

  find(number: number): Place | null {
    return this.findAll(number, 1)[0] ?? null;
  }

  findAll(number: number, most = 10_000): Place[] {
    const found: Place[] = [];
    let low = 0;
    let high = this.numbers.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.numbers[middle] < number) low = middle + 1;
      else high = middle;
    }
    for (let i = low; this.numbers[i] === number && found.length < most; i++) {
      found.push({ row: this.row[i], event: this.event[i] });
    }
    return found;
  }
}
