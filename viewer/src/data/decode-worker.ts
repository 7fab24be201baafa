/** Runs in a worker: base64 -> gzip -> columns. Bundled as text and started from a Blob. */

import { buffersOf, decodePart, type Part } from "./events";
import { base64Bytes, inflate } from "./inflate";
import type { PartSpec } from "./head";

export interface Order {
  readonly block: number;
  readonly packed: string | Uint8Array;
  readonly rawBytes: number;
  readonly parts: readonly { readonly row: number; readonly place: number; readonly spec: PartSpec }[];
  readonly wantsBytes: boolean;
}

export interface Delivery {
  readonly block: number;
  readonly parts: readonly { readonly row: number; readonly place: number; readonly part: Part }[];
  readonly failed: readonly { readonly row: number; readonly reason: string }[];
  readonly bytes: Uint8Array | null;
  readonly error: string | null;
}

const reason = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Carries out one order; what fails is told, nothing is thrown. */
export async function deliver(order: Order): Promise<Delivery> {
  const parts: { row: number; place: number; part: Part }[] = [];
  const failed: { row: number; reason: string }[] = [];
  try {
    const packed = typeof order.packed === "string" ? base64Bytes(order.packed) : order.packed;
    const bytes = await inflate(packed, order.rawBytes);
    for (const { row, place, spec } of order.parts) {
      try {
        parts.push({ row, place, part: decodePart(bytes, spec) });
      } catch (error) {
        failed.push({ row, reason: reason(error) });
      }
    }
    return { block: order.block, parts, failed, bytes: order.wantsBytes ? bytes : null, error: null };
  } catch (error) {
    return { block: order.block, parts, failed, bytes: null, error: reason(error) };
  }
}

export function buffersOfDelivery(delivery: Delivery): ArrayBuffer[] {
  const buffers = delivery.parts.flatMap(({ part }) => buffersOf(part));
  if (delivery.bytes) buffers.push(delivery.bytes.buffer as ArrayBuffer);
  return buffers;
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
