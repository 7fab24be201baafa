/** The kernels of the page, whose blocks are JSON. */

import { type FindBlock, PageBlocks } from "../../data/page-blocks";
import type { Code, Head, Kernel, Row } from "./document";

type Value = number | string | null;
type Packed = Omit<Kernel, "metrics"> & { readonly metrics: readonly Value[] };

/** Returns values by name, without those that were not collected. */
export function named(names: readonly string[], values: readonly Value[]): Record<string, Value> {
  return Object.fromEntries(names.flatMap((name, at) => (values[at] === null ? [] : [[name, values[at] as Value]])));
}

export class Store {
  readonly #page: PageBlocks;

  constructor(
    readonly head: Head,
    find: FindBlock,
  ) {
    this.#page = new PageBlocks(find, head.blocks);
  }

  /** Resolves to the rows of the summary. Rejects if the file is truncated. */
  rows(): Promise<readonly Row[]> {
    return this.#page.json(this.head.rows_block) as Promise<readonly Row[]>;
  }

  kernel(row: Row): Promise<Kernel> | null {
    if (row.block_number === null) return null;
    return (this.#page.json(row.block_number) as Promise<Packed>).then((packed) => ({ ...packed, metrics: named(this.head.metrics, packed.metrics) }));
  }

  code(place: number): Promise<Code> | null {
    const row = this.head.code[place];
    return row ? (this.#page.json(row.block_number) as Promise<Code>) : null;
  }
}
