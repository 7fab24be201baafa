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
  /** The index of the thread, and the start of the call. */
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
  const trees = threads.map(({ label, rows }, place) => {
    const own = launched.filter((one) => one.thread === place).sort((a, b) => a.time - b.time);
    return finished(grown(rows, own, area), texts, label);
  });
  const unknown = launched.filter((one) => one.thread < 0);
  if (unknown.length) {
    const tree = sprout(-1);
    for (const one of unknown) addWork([tree], one);
    trees.push(finished(tree, texts, "launching call not recorded"));
  }
  const filled = trees.filter((one) => one.weights.some((weight) => weight > 0));
  return { weights: WEIGHTS, root: rootOf(filled) };
}

function addWork(stack: readonly Growing[], { name, ns }: Launched): void {
  for (const node of stack) node.weights[DEVICE] += ns;
  const leaf = childOf(stack[stack.length - 1] as Growing, name);
  leaf.weights[DEVICE] += ns;
  leaf.count++;
}

function grown(rows: readonly Events[], launched: readonly Launched[], area: Span): Growing {
  const root = sprout(-1);
  const order = inOrder(rows);
  const open: { readonly node: Growing; readonly end: number }[] = [];
  const nodes = (): Growing[] => [root, ...open.map((one) => one.node)];
  let next = 0;
  const work = (until: number): void => {
    for (let one = launched[next]; one && one.time < until; one = launched[++next]) {
      while (open.length && (open[open.length - 1]?.end ?? 0) <= one.time) open.pop();
      addWork(nodes(), one);
    }
  };
  for (const [row, event] of order) {
    const events = rows[row] as Events;
    const [start, end] = [events.start[event], endOf(events, event)];
    work(start);
    for (let top = open.at(-1); top && (top.end < end || top.end <= start); top = open.at(-1)) open.pop();
    const above = open.at(-1)?.node ?? root;
    const node = childOf(above, events.name[event]);
    const inside = Math.max(0, Math.min(end, area.end) - Math.max(start, area.start));
    node.weights[HOST] += inside;
    if (inside > 0 || (start >= area.start && start < area.end)) node.count++;
    if (above === root) root.weights[HOST] += inside;
    open.push({ node, end });
  }
  work(Number.POSITIVE_INFINITY);
  return root;
}

/** Returns all events as [row, event], sorted by start, then by falling duration, then by row. */
function inOrder(rows: readonly Events[]): (readonly [number, number])[] {
  const all = rows.flatMap((events, row) =>
    Array.from({ length: events.count }, (_, event) => [row, event] as const),
  );
  const start = ([row, event]: readonly [number, number]): number => (rows[row] as Events).start[event];
  const end = ([row, event]: readonly [number, number]): number => endOf(rows[row] as Events, event);
  return all.sort((a, b) => start(a) - start(b) || end(b) - end(a) || a[0] - b[0]);
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
