/** Runs in a worker: base64 -> gzip -> rows with running totals. Bundled as text, started from a Blob. */

import {
  type Bounds,
  buffersOfEvents,
  checkPart,
  type EventData,
  EventsBuilder,
  eventsOf,
  type RowBase,
  type StoredPart,
} from "./events";
import type { PartSpec } from "./head";
import { base64Bytes, inflate } from "./inflate";
import { binsOf, type CounterBins } from "./counter-bins";
import { buildPyramid, type Pyramid } from "./pyramid";

/** The parts of one row in a block, of `partCount` parts with `count` events in total. */
export interface RowOrder extends RowBase {
  readonly row: number;
  readonly count: number;
  readonly partCount: number;
  readonly parts: readonly { readonly place: number; readonly spec: PartSpec }[];
}

export interface FinishedRow {
  readonly row: number;
  readonly events: EventData;
  readonly pyramid: Pyramid | null;
  /** Of a counter with many samples. */
  readonly bins: CounterBins | null;
}

export interface Order {
  readonly block: number;
  readonly packed: string | Uint8Array;
  readonly rawBytes: number;
  readonly rows: readonly RowOrder[];
  readonly isIdle: Uint8Array;
  /** The category of each name. */
  readonly categories: Uint8Array;
  readonly bounds: Bounds;
  readonly wantsBytes: boolean;
  /** Blocks of a group share rows: one worker decodes them all. */
  readonly group?: number;
}

export interface Delivery {
  readonly block: number;
  /** Rows that this block completes. */
  readonly rows: readonly FinishedRow[];
  readonly failed: readonly { readonly row: number; readonly reason: string }[];
  readonly bytes: Uint8Array | null;
  readonly error: string | null;
}

const reason = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** A row with missing parts. */
interface Unfinished {
  readonly builder: EventsBuilder;
  /** Parts that arrived early. */
  readonly early: Map<number, StoredPart>;
  next: number;
}

/** Executes orders in sequence. Keeps rows that span several blocks until they are complete. */
export class Decoder {
  private readonly unfinished = new Map<number, Unfinished>();
  private last: Promise<unknown> = Promise.resolve();

  /** Executes one order. Returns errors instead of throwing them. */
  deliver(order: Order): Promise<Delivery> {
    const delivery = this.last.then(() => this.carryOut(order));
    this.last = delivery;
    return delivery;
  }

  private async carryOut(order: Order): Promise<Delivery> {
    const { block } = order;
    const rows: FinishedRow[] = [];
    const failed: { row: number; reason: string }[] = [];
    try {
      const packed = typeof order.packed === "string" ? base64Bytes(order.packed) : order.packed;
      const bytes = await inflate(packed, order.rawBytes);
      for (const row of order.rows) {
        try {
          const finished = this.addParts(row, bytes, order);
          if (finished) rows.push(finished);
        } catch (error) {
          this.unfinished.delete(row.row);
          failed.push({ row: row.row, reason: reason(error) });
        }
      }
      return { block, rows, failed, bytes: order.wantsBytes ? bytes : null, error: null };
    } catch (error) {
      return { block, rows, failed, bytes: null, error: reason(error) };
    }
  }

  private addParts(order: RowOrder, bytes: Uint8Array, { isIdle, categories, bounds }: Order): FinishedRow | null {
    const { row } = order;
    for (const { spec } of order.parts) checkPart(bytes.length, spec);
    let state = this.unfinished.get(row);
    if (!state) {
      state = { builder: new EventsBuilder(order, order.count, isIdle, bounds), early: new Map(), next: 0 };
      this.unfinished.set(row, state);
    }
    for (const { place, spec } of order.parts) state.early.set(place, { bytes, spec });
    for (let part = state.early.get(state.next); part; part = state.early.get(state.next)) {
      state.early.delete(state.next++);
      state.builder.add(part.bytes, part.spec);
    }
    if (state.next < order.partCount) return null;
    this.unfinished.delete(row);
    const events = state.builder.finish();
    if (order.kind === "counter") {
      const bins = binsOf(eventsOf(events), { start: bounds.start_ns, end: bounds.end_ns });
      return { row, events, bins, pyramid: null };
    }
    const pyramid = buildPyramid(eventsOf(events), bounds.start_ns, bounds.end_ns, categories);
    return { row, events, pyramid, bins: null };
  }
}

function buffersOfRow({ events, pyramid, bins }: FinishedRow): ArrayBuffer[] {
  const views = [...(pyramid ? [pyramid.busy, pyramid.long] : []), ...(bins ? [bins.mean, bins.least, bins.most] : [])];
  const levels = pyramid ? [pyramid, ...(pyramid.coarser ?? [])] : [];
  const names = levels.flatMap((bins) => [bins.from, bins.key, bins.ns, bins.name, bins.longestNs]);
  const buffers = [...views, ...names].map((view) => view.buffer as ArrayBuffer);
  return [...buffersOfEvents(events), ...buffers];
}

export function buffersOfDelivery(delivery: Delivery): ArrayBuffer[] {
  const buffers = new Set(delivery.rows.flatMap(buffersOfRow));
  if (delivery.bytes) buffers.add(delivery.bytes.buffer as ArrayBuffer);
  return [...buffers];
}

interface WorkerScope {
  onmessage: ((event: { data: Order }) => void) | null;
  postMessage(delivery: Delivery, transfer: ArrayBuffer[]): void;
  readonly WorkerGlobalScope?: unknown;
}

const scope = globalThis as unknown as WorkerScope;
if (scope.WorkerGlobalScope !== undefined) {
  const decoder = new Decoder();
  scope.onmessage = (event) => {
    void decoder
      .deliver(event.data)
      .then((delivery) => scope.postMessage(delivery, buffersOfDelivery(delivery)));
  };
}
