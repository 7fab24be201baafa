/** The data of the page of memory: `src/warpline/viewer/memory_report.py` writes them. */

import type { Part } from "../../data/page-blocks";

/** What a block can be named after. */
export const BYS = ["kind", "module", "line", "operator"] as const;
export type By = (typeof BYS)[number];

export const BY_TITLES: Readonly<Record<By, string>> = { kind: "Kind", module: "Module", line: "Line", operator: "Operator" };

export interface Peak {
  /** The state after the allocation that reached it. */
  readonly state: number;
  readonly time_ns: number;
  readonly allocated_bytes: number;
  readonly reserved_bytes: number | null;
}

/** Memory of one process in one place. */
export interface PoolSpec {
  readonly label: string;
  readonly device_bytes: number | null;
  readonly peak: Peak;
  /** Number of blocks that are in `rest` only. */
  readonly left_out: number;
  /** time: of each state. State 0 is before the first allocation or free, state n after the n-th. */
  readonly states: Part;
  /** state, bytes: changes of the reserved bytes. */
  readonly reserved: Part;
  /** state, bytes: changes of the allocated bytes that are in no block. */
  readonly rest: Part;
  /** start, length, bytes, and places of texts; a block is in use from state start, for length states. */
  readonly blocks: Part;
  /** Number of the block with `Texts`. */
  readonly texts_block: number;
}

export type NamedSpan = readonly [name: string, startNs: number, endNs: number];

export interface Texts extends Readonly<Record<By, readonly string[]>> {
  readonly stack: readonly string[];
  readonly steps: readonly NamedSpan[];
  readonly phases: readonly NamedSpan[];
}

/** A recording. */
export interface Side {
  readonly name: string;
  readonly pools: readonly PoolSpec[];
}

export interface Head {
  readonly schema_version: number;
  readonly title: string;
  readonly notes: readonly string[];
  /** What the layers are named after at first. */
  readonly by: By;
  /** One recording, or before and after. */
  readonly sides: readonly Side[];
  readonly blocks: readonly { readonly raw_bytes: number }[];
}

/** Parses the head of the page. Throws an Error if it is of another version or damaged. */
export function readHead(text: string): Head {
  const head = JSON.parse(text) as Head;
  if (head.schema_version !== 1) throw new Error("The data of this report has another version than its script. Create the report again.");
  return head;
}
