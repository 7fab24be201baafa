/** Decodes the page's blocks on demand: each is gzipped, and is kept once it was needed. */

import { base64Bytes, inflate } from "../../data/inflate";
import type { Head } from "./document";
import { type Load, loadPool, type Pool } from "./pool";

/** Finds the text of a block in the page; null if it is missing. */
export type FindBlock = (block: number) => string | null;

/** Returns a source of blocks from the elements of the page. */
export function blocksOf(page: ParentNode): FindBlock {
  return (block) => page.querySelector(`script[data-block="${block}"]`)?.textContent ?? null;
}

export class Store {
  readonly #blocks = new Map<number, Promise<Uint8Array>>();
  readonly #pools = new Map<string, Promise<Pool>>();

  constructor(
    readonly head: Head,
    private readonly find: FindBlock,
  ) {}

  /** Resolves to the memory of one process in one place of a recording. Rejects if the file is truncated. */
  pool(side: number, place: number): Promise<Pool> {
    const key = `${side} ${place}`;
    const spec = this.head.sides[side]?.pools[place];
    if (!spec) return Promise.reject(new Error("There is no such memory in this report."));
    const known = this.#pools.get(key) ?? loadPool(spec, this.#load);
    this.#pools.set(key, known);
    return known;
  }

  readonly #load: Load = (block) => {
    const known = this.#blocks.get(block) ?? this.#decode(block);
    this.#blocks.set(block, known);
    return known;
  };

  async #decode(block: number): Promise<Uint8Array> {
    const packed = this.find(block);
    const info = this.head.blocks[block];
    if (packed === null || !info) throw new Error(`Block ${block} is missing: the file is truncated. Copy the file again, or create the report again.`);
    return inflate(base64Bytes(packed), info.raw_bytes);
  }
}
