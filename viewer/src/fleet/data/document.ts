/** The data of the page of a fleet: `src/warpline/viewer/fleet_report.py` writes them, and `fleet_comparison_report.py` those of two. */

import { columnOf, type FindBlock, PageBlocks, type Part } from "../../data/page-blocks";
import { type Compared, type ComparedHead, readCompared } from "./compared";

export interface Rank {
  readonly name: string;
  readonly host: string | null;
  /** Whether others wait for it. */
  readonly late: boolean;
}

export interface Head {
  readonly kind: "job";
  readonly title: string;
  readonly ranks: readonly Rank[];
  /** Names of the columns: steps, or the whole recording. */
  readonly steps: readonly string[];
  /** The least difference that has the strongest color, ns. */
  readonly least_ns: number;
  /** step, exposed, wait, caused: by rank, then step, ns; NaN where a rank lacks a step. */
  readonly grid: Part;
  readonly blocks_of_ranks: readonly string[];
  /** exposed: by late block, then waiting block, ns per step. */
  readonly between: Part;
  readonly blocks: readonly { readonly raw_bytes: number }[];
}

export interface Data {
  readonly kind: "job";
  readonly head: Head;
  readonly step: Float64Array;
  readonly exposed: Float64Array;
  readonly wait: Float64Array;
  readonly caused: Float64Array;
  readonly between: Float64Array;
}

/** Reads the page. Rejects if it is of another version or damaged. */
export async function readData(text: string, find: FindBlock): Promise<Data | Compared> {
  const head = JSON.parse(text) as (Head | ComparedHead) & { readonly schema_version: number };
  if (head.schema_version !== 1) throw new Error("The data of this page has another version than its script. Create the page again.");
  if (head.kind === "comparison") return readCompared(head, find);
  const blocks = new PageBlocks(find, head.blocks);
  const [grid, between] = await Promise.all([blocks.columns(head.grid), blocks.columns(head.between)]);
  return {
    kind: "job",
    head,
    step: columnOf(grid, "step"),
    exposed: columnOf(grid, "exposed"),
    wait: columnOf(grid, "wait"),
    caused: columnOf(grid, "caused"),
    between: columnOf(between, "exposed"),
  };
}
