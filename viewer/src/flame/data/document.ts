/** The data of the page of flame graphs: `src/warpline/viewer/flame_report.py` writes them. */

import type { Part } from "../../data/page-blocks";

/** What a label is: `derived/flame/profiles.LabelKind`. */
export const KINDS = ["other", "native", "kernel", "python", "gpu", "os"] as const;
export type Kind = (typeof KINDS)[number];

/** What nodes are called; each list has an entry per label. */
export interface Labels {
  readonly name: readonly string[];
  /** A Python file or a library; empty if there is none. */
  readonly module: readonly string[];
  /** 0 if unknown. */
  readonly line: readonly number[];
  /** Places in `KINDS`. */
  readonly kind: readonly number[];
  /** Labels that differ only in their line have the same number. */
  readonly function: readonly number[];
}

/** The tree of one kind of time. */
export interface ViewSpec {
  readonly of: string;
  readonly title: string;
  readonly meaning: string;
  readonly threads: readonly string[];
  /** thread, caller (distance to the caller's node, 0 without one), label, self (ns), count; callers come first. */
  readonly nodes: Part;
  /** Number of the block with `Labels`. */
  readonly texts_block: number;
}

export interface Head {
  readonly schema_version: number;
  readonly title: string;
  readonly notes: readonly string[];
  /** What is shown at first. */
  readonly of: string;
  readonly python_only: boolean;
  readonly views: readonly ViewSpec[];
  readonly blocks: readonly { readonly raw_bytes: number }[];
}

/** Parses the head of the page. Throws an Error if it is of another version or damaged. */
export function readHead(text: string): Head {
  const head = JSON.parse(text) as Head;
  if (head.schema_version !== 1) throw new Error("The data of this report has another version than its script. Create the report again.");
  return head;
}
