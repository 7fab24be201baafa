/** The memory of the page, decoded on demand and kept once it was needed. */

import { type FindBlock, PageBlocks } from "../../data/page-blocks";
import type { Head } from "./document";
import { loadPool, type Pool } from "./pool";

export class Store {
  readonly #page: PageBlocks;
  readonly #pools = new Map<string, Promise<Pool>>();

  constructor(
    readonly head: Head,
    find: FindBlock,
  ) {
    this.#page = new PageBlocks(find, head.blocks);
  }

  /** Resolves to the memory of one process in one place of a recording. Rejects if the file is truncated. */
  pool(side: number, place: number): Promise<Pool> {
    const key = `${side} ${place}`;
    const spec = this.head.sides[side]?.pools[place];
    if (!spec) return Promise.reject(new Error("There is no such memory in this report."));
    const known = this.#pools.get(key) ?? loadPool(spec, this.#page);
    this.#pools.set(key, known);
    return known;
  }
}
