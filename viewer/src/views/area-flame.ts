/** The flame graph of an area: the stacks of each thread and the GPU work launched below them. Pure. */

import type { Span } from "../base/span";
import { endOf, type Events } from "../data/events";
import { type Flame, type FlameNode, rootOf } from "./flame";

/** The events of one thread, row by row: ranges, then operators, then calls. */
export interface ThreadEvents {
  readonly label: string;
  readonly rows: readonly Events[];
}

/** GPU work of one launching call. */
export interface Launched {
  /** The index of the thread or `UNKNOWN`, and the start of the call. */
  readonly thread: number;
  readonly time: number;
  readonly name: number;
  readonly ns: number;
}

interface Growing {
  readonly names: number[];
  readonly weights: [cpu: number, gpu: number];
  count: number;
  readonly children: Map<number, Growing>;
}

const WEIGHTS = ["CPU time", "GPU time"] as const;
const HOST = 0;
const DEVICE = 1;
/** The thread of work whose launching call is not known. */
export const UNKNOWN = -1;

function sprout(name: number): Growing {
  return { names: name < 0 ? [] : [name], weights: [0, 0], count: 0, children: new Map() };
}

function childOf(node: Growing, name: number): Growing {
  let child = node.children.get(name);
  if (!child) {
    child = sprout(name);
    node.children.set(name, child);
  }
  return child;
}

/**
 * Returns the events of an area as a tree: threads, below them their open events, outermost first, and below
 * the launching call its GPU work. CPU times are clipped to the area. GPU work counts as given.
 *
 * An event is inside another of its thread if that is open from its start to its end. Of two equal intervals, the
 * one in the earlier row is the outer one. `isMerged`: merge numbered names, see `withoutCounters`.
 */
export function flameOfArea(
  threads: readonly ThreadEvents[],
  launched: readonly Launched[],
  area: Span,
  textOf: (name: number) => string,
  isMerged = true,
): Flame {
  const texts: Texts = { of: textOf, isMerged };
  const byThread = new Map<number, Launched[]>();
  for (const one of launched) {
    const own = byThread.get(one.thread);
    if (own) own.push(one);
    else byThread.set(one.thread, [one]);
  }
  const trees = threads.map(({ label, rows }, place) => {
    const own = (byThread.get(place) ?? []).sort((a, b) => a.time - b.time);
    return finished(grown(rows, own, area), texts, label);
  });
  const unknown = byThread.get(UNKNOWN);
  if (unknown) {
    const tree = sprout(-1);
    for (const one of unknown) addWork(tree, [], one);
    trees.push(finished(tree, texts, "launching call not recorded"));
  }
  const filled = trees.filter((one) => one.weights.some((weight) => weight > 0));
  return { weights: WEIGHTS, root: rootOf(filled) };
}

interface Open {
  readonly node: Growing;
  readonly end: number;
}

function addWork(root: Growing, open: readonly Open[], { name, ns }: Launched): void {
  root.weights[DEVICE] += ns;
  for (const { node } of open) node.weights[DEVICE] += ns;
  const leaf = childOf(open.at(-1)?.node ?? root, name);
  leaf.weights[DEVICE] += ns;
  leaf.count++;
}

function grown(rows: readonly Events[], launched: readonly Launched[], area: Span): Growing {
  const root = sprout(-1);
  const open: Open[] = [];
  let next = 0;
  const work = (until: number): void => {
    for (let one = launched[next]; one && one.time < until; one = launched[++next]) {
      while (open.length && (open[open.length - 1]?.end ?? 0) <= one.time) open.pop();
      addWork(root, open, one);
    }
  };
  visitInOrder(rows, (name, start, end) => {
    work(start);
    for (let top = open.at(-1); top && (top.end < end || top.end <= start); top = open.at(-1)) open.pop();
    const above = open.at(-1)?.node ?? root;
    const node = childOf(above, name);
    const inside = Math.max(0, Math.min(end, area.end) - Math.max(start, area.start));
    node.weights[HOST] += inside;
    if (inside > 0 || (start >= area.start && start < area.end)) node.count++;
    if (above === root) root.weights[HOST] += inside;
    open.push({ node, end });
  });
  work(Number.POSITIVE_INFINITY);
  return root;
}

/** Visits all events by start, then by falling duration, then by row; each row is already sorted by start. */
function visitInOrder(
  rows: readonly Events[],
  visit: (name: number, start: number, end: number) => void,
): void {
  let left = rows.filter((events) => events.count > 0).map((events) => ({ events, at: 0, start: events.start[0], end: endOf(events, 0) }));
  while (left.length) {
    let first = left[0] as (typeof left)[number];
    for (const one of left) {
      if (one.start < first.start || (one.start === first.start && one.end > first.end)) first = one;
    }
    const { events } = first;
    visit(events.name[first.at], first.start, first.end);
    if (++first.at === events.count) left = left.filter((one) => one !== first);
    else {
      first.start = events.start[first.at];
      first.end = endOf(events, first.at);
    }
  }
}

interface Texts {
  readonly of: (name: number) => string;
  readonly isMerged: boolean;
}

const LEAST_COUNTERS = 3;

/**
 * Merges numbered siblings, such as steps: three or more names that differ only in their numbers
 * and occur less than twice on average. The table `layers` does the same.
 */
function withoutCounters(
  children: readonly Growing[],
  texts: Texts,
): { readonly label: string; readonly node: Growing }[] {
  const groups = new Map<string, Growing[]>();
  for (const child of children) {
    const label = child.names.map(texts.of)[0]?.replace(/\d+/g, "*") ?? "";
    groups.set(label, [...(groups.get(label) ?? []), child]);
  }
  return [...groups].flatMap(([label, group]) => {
    const count = group.reduce((sum, one) => sum + one.count, 0);
    const isCounter = texts.isMerged && group.length >= LEAST_COUNTERS && count < 2 * group.length;
    if (isCounter) return [{ label, node: joined(group) }];
    return group.map((node) => ({ label: node.names.map(texts.of)[0] ?? "", node }));
  });
}

function joined(group: readonly Growing[]): Growing {
  const all = sprout(-1);
  for (const one of group) addTo(all, one);
  return all;
}

function addTo(all: Growing, one: Growing): void {
  for (const name of one.names) if (!all.names.includes(name)) all.names.push(name);
  all.weights[HOST] += one.weights[HOST];
  all.weights[DEVICE] += one.weights[DEVICE];
  all.count += one.count;
  for (const [name, child] of one.children) addTo(childOf(all, name), child);
}

function finished(node: Growing, texts: Texts, label: string): FlameNode {
  const children = withoutCounters([...node.children.values()], texts)
    .map((child) => finished(child.node, texts, child.label))
    .filter((child) => child.weights.some((weight) => weight > 0))
    .sort((a, b) => Math.max(...b.weights) - Math.max(...a.weights));
  return { label, names: node.names, weights: node.weights, count: node.count, children };
}
