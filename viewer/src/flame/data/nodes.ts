/** The nodes of a tree, decoded. */

import { columnOf, type PageBlocks } from "../../data/page-blocks";
import { KINDS, type Labels, type ViewSpec } from "./document";

/** Callers come before what they call. */
export interface Nodes {
  readonly thread: Float64Array;
  /** The caller's node; -1 without one. */
  readonly parent: Int32Array;
  readonly label: Float64Array;
  /** Time and number of the stacks that end in each node. */
  readonly self: Float64Array;
  readonly count: Float64Array;
}

export interface Loaded {
  readonly spec: ViewSpec;
  readonly labels: Labels;
  readonly nodes: Nodes;
}

const PYTHON = KINDS.indexOf("python");
/** Kinds of what runs below the innermost frame, and of notes such as `[no backtrace]`. */
const KEPT: ReadonlySet<number> = new Set([KINDS.indexOf("other"), KINDS.indexOf("gpu"), KINDS.indexOf("os"), PYTHON]);
const NO_PYTHON = "[no Python frames]";

export async function loadNodes(spec: ViewSpec, page: PageBlocks): Promise<Loaded> {
  const [found, labels] = await Promise.all([page.columns(spec.nodes), page.json(spec.texts_block)]);
  const caller = columnOf(found, "caller");
  return {
    spec,
    labels: labels as Labels,
    nodes: {
      thread: columnOf(found, "thread"),
      parent: Int32Array.from(caller, (distance, at) => (distance ? at - distance : -1)),
      label: columnOf(found, "label"),
      self: columnOf(found, "self"),
      count: columnOf(found, "count"),
    },
  };
}

/**
 * Leaves out frames that are not Python: their time counts for the nearest Python frame above, or for a node
 * `[no Python frames]` of the thread. Kernels and OS calls stay, below that frame.
 */
export function pythonOnly({ spec, labels, nodes }: Loaded): Loaded {
  const none = labels.name.length;
  const place = new Int32Array(nodes.parent.length); // of each node: itself, or the nearest kept one above
  const kept: { thread: number; parent: number; label: number; self: number; count: number }[] = [];
  const outside = new Map<number, number>(); // the node without Python frames of each thread
  const outsideOf = (thread: number): number => {
    const known = outside.get(thread);
    if (known !== undefined) return known;
    outside.set(thread, kept.push({ thread, parent: -1, label: none, self: 0, count: 0 }) - 1);
    return kept.length - 1;
  };
  for (let at = 0; at < place.length; at++) {
    const [parent, label, thread] = [nodes.parent[at] as number, nodes.label[at] as number, nodes.thread[at] as number];
    const above = parent < 0 ? -1 : (place[parent] as number);
    const kind = labels.kind[label] as number;
    const [self, count] = [nodes.self[at] as number, nodes.count[at] as number];
    if (kind === PYTHON || (KEPT.has(kind) && parent < 0)) place[at] = kept.push({ thread, parent: above, label, self, count }) - 1;
    else if (KEPT.has(kind)) place[at] = kept.push({ thread, parent: above < 0 ? outsideOf(thread) : above, label, self, count }) - 1;
    else if (count || self) {
      const owner = kept[above < 0 ? outsideOf(thread) : above];
      if (owner) [owner.self, owner.count] = [owner.self + self, owner.count + count];
      place[at] = above;
    } else place[at] = above;
  }
  return {
    spec,
    labels: {
      name: [...labels.name, NO_PYTHON],
      module: [...labels.module, ""],
      line: [...labels.line, 0],
      kind: [...labels.kind, 0],
      function: [...labels.function, labels.function.reduce((most, one) => Math.max(most, one), -1) + 1],
    },
    nodes: {
      thread: Float64Array.from(kept, (one) => one.thread),
      parent: Int32Array.from(kept, (one) => one.parent),
      label: Float64Array.from(kept, (one) => one.label),
      self: Float64Array.from(kept, (one) => one.self),
      count: Float64Array.from(kept, (one) => one.count),
    },
  };
}
