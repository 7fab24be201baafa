/** The data of the page of two jobs: `src/warpline/viewer/fleet_comparison_report.py` writes them. */

import { columnOf, type FindBlock, PageBlocks, type Part } from "../../data/page-blocks";

export interface Changed {
  readonly name: string;
  /** On both sides, only after, or only before. */
  readonly change: "both" | "new" | "gone";
  /** Its machine before and after; null if unknown. */
  readonly hosts: readonly [string | null, string | null];
  /** Whether the difference by itself was tested; then it may be chance, or is significant. */
  readonly may_be_chance: boolean;
  readonly is_significant: boolean;
  /** Whether it changed differently from most ranks. */
  readonly is_marked: boolean;
}

export interface ComparedHead {
  readonly kind: "comparison";
  /** What times are of: "per step", or "in all". */
  readonly unit: string;
  /** Relative difference of the step that counts as the same. */
  readonly tolerance: number;
  readonly ranks: readonly Changed[];
  /** The least difference that has the strongest color, ns. */
  readonly least_ns: number;
  /** own, step, wait, exposed_wait, caused of both sides: by rank, ns per step; NaN where unknown. */
  readonly times: Part;
  readonly blocks: readonly { readonly raw_bytes: number }[];
}

export const TIMES = ["own", "step", "wait", "exposed_wait", "caused"] as const;
export type Time = (typeof TIMES)[number];
type Times = Readonly<Record<Time, Float64Array>>;

export interface Compared {
  readonly kind: "comparison";
  readonly head: ComparedHead;
  readonly before: Times;
  readonly after: Times;
}

export async function readCompared(head: ComparedHead, find: FindBlock): Promise<Compared> {
  const columns = await new PageBlocks(find, head.blocks).columns(head.times);
  const side = (name: string) => Object.fromEntries(TIMES.map((time) => [time, columnOf(columns, `${name}_${time}`)])) as Times;
  return { kind: "comparison", head, before: side("before"), after: side("after") };
}
