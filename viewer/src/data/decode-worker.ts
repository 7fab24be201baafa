/** Runs in a worker: base64 -> gzip -> columns -> rows. Bundled as text, started from a Blob. */

import { type Bounds, buffersOf, decodePart, type Events, joinParts, type Part } from "./events";
import type { PartSpec, RowKind } from "./head";
import { base64Bytes, inflate } from "./inflate";
import { buildPyramid, type Pyramid } from "./pyramid";

/** The parts of one row that lie in a block; a row that lies there whole is finished there. */
export interface RowOrder {
  readonly row: number;
  readonly label: string;
  readonly kind: RowKind;
  readonly isWhole: boolean;
  readonly parts: readonly { readonly place: number; readonly spec: PartSpec }[];
}

export interface FinishedRow {
  readonly events: Events;
  readonly pyramid: Pyramid | null;
}

export interface Order {
  readonly block: number;
  readonly packed: string | Uint8Array;
  readonly rawBytes: number;
  readonly rows: readonly RowOrder[];
  readonly isIdle: Uint8Array;
  readonly bounds: Bounds;
  readonly wantsBytes: boolean;
}

export interface Delivery {
  readonly block: number;
  readonly rows: readonly ({ readonly row: number } & FinishedRow)[];
  readonly parts: readonly { readonly row: number; readonly place: number; readonly part: Part }[];
  readonly failed: readonly { readonly row: number; readonly reason: string }[];
  readonly bytes: Uint8Array | null;
  readonly error: string | null;
}

const reason = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Joins the parts of a row and sums it up. Throws an Error if they do not fit. */
export function finishRow(
  row: { readonly kind: RowKind; readonly label: string },
  parts: readonly Part[],
  isIdle: Uint8Array,
  bounds: Bounds,
): FinishedRow {
  const events = joinParts(row, parts, isIdle, bounds);
  const isSummed = row.kind !== "counter";
  return { events, pyramid: isSummed ? buildPyramid(events, bounds.start_ns, bounds.end_ns) : null };
}

/** Carries out one order; what fails is told, nothing is thrown. */
export async function deliver(order: Order): Promise<Delivery> {
  const rows: ({ row: number } & FinishedRow)[] = [];
  const parts: { row: number; place: number; part: Part }[] = [];
  const failed: { row: number; reason: string }[] = [];
  const { block, isIdle, bounds } = order;
  try {
    const packed = typeof order.packed === "string" ? base64Bytes(order.packed) : order.packed;
    const bytes = await inflate(packed, order.rawBytes);
    for (const one of order.rows) {
      try {
        const own = one.parts.map(({ spec }) => decodePart(bytes, spec));
        if (one.isWhole) rows.push({ row: one.row, ...finishRow(one, own, isIdle, bounds) });
        else {
          own.forEach((part, i) => {
            parts.push({ row: one.row, place: one.parts[i]?.place ?? 0, part });
          });
        }
      } catch (error) {
        failed.push({ row: one.row, reason: reason(error) });
      }
    }
    return { block, rows, parts, failed, bytes: order.wantsBytes ? bytes : null, error: null };
  } catch (error) {
    return { block, rows, parts, failed, bytes: null, error: reason(error) };
  }
}

function buffersOfRow({ events, pyramid }: FinishedRow): ArrayBuffer[] {
  const views = [
    ...[events.start, events.before, events.busy, events.name],
    ...[events.row, events.table, events.value],
    ...events.links.values(),
    ...(pyramid ? [pyramid.busy, pyramid.top, pyramid.topNs, pyramid.rest, pyramid.restNs] : []),
    pyramid?.long,
  ];
  return views.flatMap((view) => (view ? [view.buffer as ArrayBuffer] : []));
}

export function buffersOfDelivery(delivery: Delivery): ArrayBuffer[] {
  const buffers = new Set(delivery.rows.flatMap(buffersOfRow));
  for (const { part } of delivery.parts) for (const buffer of buffersOf(part)) buffers.add(buffer);
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
  scope.onmessage = (event) => {
    void deliver(event.data).then((delivery) =>
      scope.postMessage(delivery, buffersOfDelivery(delivery)),
    );
  };
}
