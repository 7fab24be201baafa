/** A recording in the page: the head, the names, and the events of every row as they arrive. */

import { signal } from "@preact/signals";
import type { Span } from "../base/span";
import type { Answers } from "./answers";
import type { Blocks } from "./blocks";
import { decodeValue } from "./columns";
import type { CounterBins } from "./counter-bins";
import type { Decoders } from "./decoders";
import type { FinishedRow, RowOrder } from "./decode-worker";
import { type Bounds, type Events, eventsOf } from "./events";
import { decodeSums, type ExactSums } from "./exact-sums";
import type { AttributeColumn, Head, ResultTable, SumsSpec, TilesSpec } from "./head";
import { LocalAnswers } from "./local-answers";
import type { Pyramid } from "./pyramid";
import { RemoteAnswers } from "./remote-answers";
import type { TileBase } from "./tile";
import type { TileSource } from "./tile-source";
import { decodeStacks, type Stacks } from "./stacks";
import { Tiles } from "./tiles";

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
  /** The bins of a counter whose samples are not in the page. */
  counter?: CounterBins | null;
  /** Bins of a counter with many samples in the page. */
  bins?: CounterBins | null;
  /** The sums of a row of which the file lacks events. */
  sums?: ExactSums;
}

export interface Attribute {
  readonly name: string;
  readonly unit: string;
  readonly doc: string;
  readonly value: number | string | null;
}

interface BlockOrder {
  readonly block: number;
  readonly group: number;
  readonly rows: readonly RowOrder[];
}

export class Recording {
  names: Names = { texts: [], categories: [] };
  overview: Overview | null = null;
  rows: RowData[];
  private readonly toldHead;
  rowOf: ReadonlyMap<string, number>;
  readonly answers: Answers;
  /** Called when more tiles have arrived, with an error or null. */
  onTiles: (error: Error | null) => void = () => undefined;
  private readonly local = new LocalAnswers(this);
  private tiles: Tiles | null = null;
  private readonly attributeBytes = new Map<number, Promise<Uint8Array>>();
  private readonly results = new Map<string, Promise<ResultTable>>();
  private ownStacks: Promise<Stacks> | null = null;

  constructor(
    head: Head,
    private blocks: Blocks,
    private readonly decoders: Decoders,
    private readonly source: TileSource | null = null,
  ) {
    this.toldHead = signal(head);
    this.answers = source && head.tiles ? new RemoteAnswers(source, () => this.tileBase()) : this.local;
    this.rows = head.rows.map(() => ({ events: null, pyramid: null, error: null }));
    this.rowOf = new Map(head.rows.map((row, place) => [row.id, place]));
  }

  /** The head; views that read it follow when the server knows more. */
  get head(): Head {
    return this.toldHead.value;
  }

  /** Takes over a later head of the same rows, with the diagnosis and its tables. */
  async renew(head: Head): Promise<void> {
    if (head.rows.length !== this.rows.length) throw new Error("The page has other rows than the server: reload it.");
    this.results.clear();
    this.toldHead.value = head;
    await this.loadNames();
  }

  /** Takes over a later picture of a recording in progress: other rows and events. */
  async follow(head: Head, blocks: Blocks): Promise<void> {
    const next = new Recording(head, blocks, this.decoders);
    await next.loadNames();
    await next.loadEvents(() => undefined);
    for (const kept of [this.attributeBytes, this.results]) kept.clear();
    this.local.forget();
    [this.names, this.rows, this.rowOf, this.blocks] = [next.names, next.rows, next.rowOf, blocks];
    this.ownStacks = null;
    this.toldHead.value = head;
  }

  /** Returns the text of the page as the server has it now; null without a server. */
  async page(): Promise<string | null> {
    return this.source ? this.source.page() : null;
  }

  async loadOverview(): Promise<void> {
    const bytes = await this.bytesOf(0);
    const bins = this.head.overview_bins;
    const size = bins * this.head.rows.length;
    if (bytes.length !== 2 * size) throw new Error("The size of the overview differs from its declared size.");
    this.overview = { bins, coverage: bytes.subarray(0, size), category: bytes.subarray(size) };
  }

  async loadNames(): Promise<void> {
    const names = JSON.parse(new TextDecoder().decode(await this.bytesOf(1))) as Names;
    if (names.texts.length !== names.categories.length) {
      throw new Error("The file has different numbers of names and categories.");
    }
    this.names = names;
  }

  /** Loads the events of all rows. Calls `arrived` for each row that is complete or failed. */
  async loadEvents(arrived: (row: number) => void): Promise<void> {
    if (this.head.tiles && this.source) return this.startTiles(this.head.tiles, this.source);
    const isIdle = this.idleNames();
    const categories = Uint8Array.from(this.names.categories);
    const load = async ({ block, rows, group }: BlockOrder): Promise<void> => {
      try {
        const delivery = await this.decoders.order({
          ...{ block, rows, group, isIdle, categories, bounds: this.bounds(), wantsBytes: false },
          packed: await this.blocks.get(block),
          rawBytes: this.rawBytes(block),
        });
        this.blocks.forget?.(block);
        if (delivery.error) throw new Error(delivery.error);
        for (const finished of delivery.rows) this.finish(finished);
        for (const { row, reason } of delivery.failed) this.fail(row, reason);
      } catch (error) {
        for (const { row } of rows) this.fail(row, (error as Error).message);
      }
      for (const { row } of rows) {
        if (this.rows[row]?.events || this.rows[row]?.error) arrived(row);
      }
    };
    await Promise.all([...this.ordersOfBlocks().map(load), this.loadSums()]);
  }

  private async loadSums(): Promise<void> {
    const blocks = new Map<number, Promise<Uint8Array>>();
    const load = async (spec: SumsSpec, row: number): Promise<void> => {
      const bytes = blocks.get(spec.block) ?? this.bytesOf(spec.block);
      blocks.set(spec.block, bytes);
      try {
        const sums = decodeSums(await bytes, spec, this.head, this.names.categories);
        Object.assign(this.rows[row] as RowData, { sums });
      } catch (error) {
        this.fail(row, (error as Error).message);
      }
    };
    await Promise.all(this.head.rows.flatMap(({ sums }, row) => (sums ? [load(sums, row)] : [])));
  }

  private startTiles(grid: TilesSpec, source: TileSource): Promise<void> {
    let error: Error | null = null;
    this.tiles = new Tiles(
      grid,
      this.tileBase(),
      source,
      () => this.onTiles(error),
      (found) => {
        if (found?.message !== error?.message) this.onTiles(found);
        error = found;
      },
    );
    return this.tiles.start();
  }

  private tileBase(): TileBase {
    const { rows, tiles } = this.head;
    const { categories } = this.names;
    return { rows, bins: tiles?.bins ?? 0, isIdle: this.idleNames(), categories, bounds: this.bounds() };
  }

  /** Whether the picture has its full detail. */
  get isSettled(): boolean {
    return this.tiles?.isSettled ?? true;
  }

  /** Prepares rows for drawing. Requests missing tiles of a tiled recording. */
  prepare(rows: readonly number[], span: Span, width: number): void {
    if (!this.tiles) return;
    this.tiles.want(rows, span, width);
    for (const row of rows) {
      const data = this.rows[row];
      const window = this.tiles.window(row, span, width);
      if (data && window) Object.assign(data, window);
    }
  }

  /** Returns the pending computation; null when it has finished and the page has more. */
  async pending(): Promise<string | null> {
    if (!this.head.pending || !this.source) return null;
    return ((await this.source.state()) as { readonly pending: string | null }).pending;
  }

  /** Returns the rows of each block. Blocks that share rows, directly or indirectly, are one group. */
  private ordersOfBlocks(): BlockOrder[] {
    const orders = new Map<number, { block: number; group: number; rows: RowOrder[] }>();
    this.head.rows.forEach(({ label, kind, parts }, row) => {
      const count = parts.reduce((sum, part) => sum + part.count, 0);
      const blocks = [...new Set(parts.map((part) => part.block))];
      for (const block of blocks) {
        const own = parts.flatMap((spec, place) => (spec.block === block ? [{ place, spec }] : []));
        const order = orders.get(block) ?? { block, group: block, rows: [] };
        order.rows.push({ row, label, kind, count, partCount: parts.length, parts: own });
        orders.set(block, order);
      }
      const groups = new Set(blocks.map((block) => orders.get(block)?.group));
      if (groups.size < 2) return;
      for (const order of orders.values()) if (groups.has(order.group)) order.group = blocks[0] as number;
    });
    return [...orders.values()];
  }

  private finish({ row, events, pyramid, bins }: FinishedRow): void {
    const data = this.rows[row];
    if (!data) return;
    data.events = eventsOf(events);
    data.pyramid = pyramid;
    data.bins = bins;
    this.local.forget();
  }

  private bounds(): Bounds {
    const { start_ns, end_ns } = this.head;
    return { start_ns, end_ns, names: this.names.texts.length };
  }

  /** Returns, for every name, whether its category is idle time. */
  idleNames(): Uint8Array {
    const { categories } = this.head;
    return Uint8Array.from(this.names.categories, (place) =>
      categories[place]?.kind === "idle" ? 1 : 0,
    );
  }

  /** Returns the attributes of a table row. */
  async attributes(table: string, row: number): Promise<readonly Attribute[]> {
    if (this.source && this.head.tiles) {
      const told = (await this.source.ask("attributes", { table, row })) as readonly Attribute[] | null;
      return told ?? [{ name: "more", unit: "none", doc: "", value: "available once the diagnosis is ready" }];
    }
    const spec = this.head.attributes.find((one) => one.table === table);
    if (!spec || row >= spec.count) return [];
    let bytes = this.attributeBytes.get(spec.block);
    if (!bytes) {
      bytes = this.bytesOf(spec.block);
      this.attributeBytes.set(spec.block, bytes);
      bytes.catch(() => this.attributeBytes.delete(spec.block)); // the next call asks again
    }
    const raw = await bytes;
    let offset = spec.offset;
    return spec.columns.map((column) => {
      const value = decodeValue(raw, offset, spec.count, column, row);
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

  /** Whether a table has been requested and has not failed. */
  hasResult(name: string): boolean {
    return this.results.has(name);
  }

  result(name: string): Promise<ResultTable> {
    let found = this.results.get(name);
    if (!found) {
      const spec = this.head.results.find((one) => one.name === name);
      found = spec
        ? this.bytesOf(spec.block).then((raw) => JSON.parse(new TextDecoder().decode(raw)) as ResultTable)
        : Promise.reject(new Error(`The file has no table ${name}.`));
      this.results.set(name, found);
      found.catch(() => this.results.delete(name)); // the next call asks again
    }
    return found;
  }

  /** Returns the stacks of samples; null without samples. */
  async stacks(): Promise<Stacks | null> {
    const spec = this.head.stacks;
    if (!spec) return null;
    this.ownStacks ??= this.bytesOf(spec.block).then((bytes) => decodeStacks(bytes, spec));
    this.ownStacks.catch(() => (this.ownStacks = null)); // the next call asks again
    return this.ownStacks;
  }

  private async bytesOf(block: number): Promise<Uint8Array> {
    const delivery = await this.decoders.order({
      block,
      packed: await this.blocks.get(block),
      rawBytes: this.rawBytes(block),
      rows: [],
      isIdle: new Uint8Array(0),
      categories: new Uint8Array(0),
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
