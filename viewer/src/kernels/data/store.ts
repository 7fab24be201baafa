/** Decodes the page's blocks on demand: each is gzipped JSON, and is kept once it was needed. */

import { base64Bytes, inflate } from "../../data/inflate";
import type { Code, Head, Kernel, Row } from "./document";

type Value = number | string | null;
type Packed = Omit<Kernel, "metrics"> & { readonly metrics: readonly Value[] };

/** Returns values by name, without those that were not collected. */
export function named(names: readonly string[], values: readonly Value[]): Record<string, Value> {
  return Object.fromEntries(names.flatMap((name, at) => (values[at] === null ? [] : [[name, values[at] as Value]])));
}

/** Finds the text of a block in the page; null if it is missing. */
export type FindBlock = (block: number) => string | null;

/** Returns a source of blocks from the elements of the page. */
export function blocksOf(page: ParentNode): FindBlock {
  return (block) => page.querySelector(`script[data-block="${block}"]`)?.textContent ?? null;
}

export class Store {
  readonly #known = new Map<number, Promise<unknown>>();

  constructor(
    readonly head: Head,
    private readonly find: FindBlock,
  ) {}

  /** Resolves to the rows of the summary. Rejects if the file is truncated. */
  rows(): Promise<readonly Row[]> {
    return this.#block(this.head.rows_block) as Promise<readonly Row[]>;
  }

  kernel(row: Row): Promise<Kernel> | null {
    if (row.block_number === null) return null;
    return (this.#block(row.block_number) as Promise<Packed>).then((packed) => ({ ...packed, metrics: named(this.head.metrics, packed.metrics) }));
  }

  code(place: number): Promise<Code> | null {
    const row = this.head.code[place];
    return row ? (this.#block(row.block_number) as Promise<Code>) : null;
  }

  #block(block: number): Promise<unknown> {
    const known = this.#known.get(block) ?? this.#decode(block);
    this.#known.set(block, known);
    return known;
  }

  async #decode(block: number): Promise<unknown> {
    const packed = this.find(block);
    const info = this.head.blocks[block];
    if (packed === null || !info) throw new Error(`Block ${block} is missing: the file is truncated. Copy the file again, or create the report again.`);
    const raw = await inflate(base64Bytes(packed), info.raw_bytes);
    return JSON.parse(new TextDecoder().decode(raw));
  }
}
