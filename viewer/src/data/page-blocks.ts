/** The blocks of a page that reads all of its data when it needs them: each is gzipped, and kept once it was needed. */

import { decodeColumn } from "./columns";
import type { ColumnSpec } from "./head";
import { base64Bytes, inflate } from "./inflate";

/** Finds the text of a block in the page; null if it is missing. */
export type FindBlock = (block: number) => string | null;

/** Columns of one length in a block of the page. */
export interface Part {
  readonly block: number;
  readonly offset: number;
  readonly count: number;
  readonly columns: readonly ColumnSpec[];
}

/** Returns a source of blocks from the elements of the page. */
export function blocksOf(page: ParentNode): FindBlock {
  return (block) => page.querySelector(`script[data-block="${block}"]`)?.textContent ?? null;
}

/** Each method rejects if the file is truncated. */
export class PageBlocks {
  readonly #bytes = new Map<number, Promise<Uint8Array>>();
  readonly #values = new Map<number, Promise<unknown>>();

  constructor(
    private readonly find: FindBlock,
    private readonly sizes: readonly { readonly raw_bytes: number }[],
  ) {}

  /** Resolves to the bytes of a block. */
  readonly bytes = (block: number): Promise<Uint8Array> => {
    const known = this.#bytes.get(block) ?? this.#inflate(block);
    this.#bytes.set(block, known);
    return known;
  };

  /** Resolves to the value of a block of JSON, of which only the value is kept. */
  json(block: number): Promise<unknown> {
    const known = this.#values.get(block) ?? this.#inflate(block).then((raw) => JSON.parse(new TextDecoder().decode(raw)) as unknown);
    this.#values.set(block, known);
    return known;
  }

  /** Resolves to the columns of a part by name. */
  async columns(part: Part): Promise<Readonly<Record<string, Float64Array>>> {
    const bytes = await this.bytes(part.block);
    let offset = part.offset;
    const found: Record<string, Float64Array> = {};
    for (const spec of part.columns) {
      found[spec.name] = decodeColumn(bytes, offset, part.count, spec);
      offset += part.count * spec.planes;
    }
    return found;
  }

  async #inflate(block: number): Promise<Uint8Array> {
    const packed = this.find(block);
    const size = this.sizes[block];
    if (packed === null || !size) throw new Error(`Block ${block} is missing: the file is truncated. Copy the file again, or create the report again.`);
    return inflate(base64Bytes(packed), size.raw_bytes);
  }
}

/** Returns a column. Throws an Error if it is missing. */
export function columnOf(found: Readonly<Record<string, Float64Array>> | undefined, name: string): Float64Array {
  const values = found?.[name];
  if (!values) throw new Error(`Column ${name} is missing. Create the report again.`);
  return values;
}
