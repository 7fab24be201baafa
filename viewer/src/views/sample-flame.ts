/** The flame graph of the samples of an area: the stacks of each thread. */

import type { Span } from "../base/span";
import { type Events, WEIGHT } from "../data/events";
import type { Stacks } from "../data/stacks";
import type { Area } from "../engine/draw";
import { MOST_EVENTS } from "./area-source";
import { type Flame, type FlameNode, rootOf } from "./flame";
import type { Model } from "./model";

/** The link of a sample to its stack. */
const STACK = "stack";
/** What the samples of a kind are about. */
const TIMES: Readonly<Record<string, string>> = { "cpu-samples": "CPU time", "python-samples": "Time" };

/** The rows of samples by their kind, which is the end of their ids: "cpu-samples". */
export function sampleKinds(model: Model): readonly { readonly key: string; readonly label: string }[] {
  const found = new Map<string, string>();
  for (const { id, kind, label } of model.recording.head.rows) {
    if (kind === "sample") found.set(id.slice(id.lastIndexOf("/") + 1), label);
  }
  return [...found].map(([key, label]) => ({ key, label }));
}

/** Returns the flame graph of the samples of one kind in an area, or null if there are too many. */
export async function sampleFlame(model: Model, area: Area, kind: string): Promise<Flame | null> {
  const { answers, head, names } = model.recording;
  const all = head.rows.flatMap((row, place) => (row.kind === "sample" && row.id.endsWith(`/${kind}`) ? [place] : []));
  const chosen = threadsOf(model, area);
  const rows = all.filter((place) => chosen === null || chosen.has(head.rows[place]?.thread ?? -1));
  const [stacks, events] = await Promise.all([model.recording.stacks(), answers.events(rows, area.span, MOST_EVENTS)]);
  if (!events || !stacks) return events ? { weights: [TIMES[kind] ?? "Time"], root: rootOf([]) } : null;
  const threads = events.map((own, at) => ({ label: model.labelApart(model.tree.parent[rows[at] ?? 0] ?? -1), events: own }));
  return flameOfSamples(threads, stacks, area.span, TIMES[kind] ?? "Time", (name) => names.texts[name] ?? "");
}

/** Returns the threads of an area with rows of threads in it; null for all threads. */
function threadsOf(model: Model, area: Area): ReadonlySet<number> | null {
  if (area.rows === null) return null;
  const { rows } = model.recording.head;
  const threads = new Set([...area.rows].flatMap((place) => rows[place]?.thread ?? []));
  return threads.size ? threads : null;
}

interface Growing {
  readonly name: number;
  ns: number;
  count: number;
  readonly children: Map<number, Growing>;
}

/**
 * Returns the stacks of samples as a tree: threads, below them frames, outermost first. Samples that were taken in the
 * area count with all the time that they represent, as in `warpline flame --filter-time`.
 */
export function flameOfSamples(
  threads: readonly { readonly label: string; readonly events: Events }[],
  stacks: Stacks,
  area: Span,
  title: string,
  textOf: (name: number) => string,
): Flame {
  const trees = threads.map(({ label, events }) => {
    const root: Growing = { name: -1, ns: 0, count: 0, children: new Map() };
    for (const [stack, { ns, count }] of sumsOf(events, area)) {
      const frames: number[] = [];
      for (let at = stack; at >= 0; at = stacks.parent[at] ?? -1) frames.push(stacks.name[at] as number);
      let node = root;
      node.ns += ns;
      for (let at = frames.length - 1; at >= 0; at--) {
        const name = frames[at] as number;
        let child = node.children.get(name);
        if (!child) node.children.set(name, (child = { name, ns: 0, count: 0, children: new Map() }));
        child.ns += ns;
        child.count += count;
        node = child;
      }
    }
    return finished(root, label, textOf);
  });
  return { weights: [title], root: rootOf(trees.filter((one) => (one.weights[0] ?? 0) > 0)) };
}

/** Returns the time and the number of the samples of each stack in an area. */
function sumsOf(events: Events, area: Span): ReadonlyMap<number, { ns: number; count: number }> {
  const sums = new Map<number, { ns: number; count: number }>();
  const stackOf = events.links.get(STACK);
  const weightOf = events.links.get(WEIGHT);
  for (let at = 0; at < events.count; at++) {
    const start = events.start[at] as number;
    const [stack, ns] = [stackOf?.[at] ?? -1, weightOf?.[at] ?? 0];
    if (start < area.start || start >= area.end || stack < 0) continue;
    const sum = sums.get(stack);
    if (sum) [sum.ns, sum.count] = [sum.ns + ns, sum.count + 1];
    else sums.set(stack, { ns, count: 1 });
  }
  return sums;
}

function finished(node: Growing, label: string, textOf: (name: number) => string): FlameNode {
  const children = [...node.children.values()]
    .map((child) => finished(child, textOf(child.name), textOf))
    .sort((a, b) => (b.weights[0] ?? 0) - (a.weights[0] ?? 0));
  return { label, names: node.name < 0 ? [] : [node.name], weights: [node.ns], count: node.count, children };
}
