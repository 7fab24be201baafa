/** The graph that is drawn: branches are nodes with equal callers, made when they are needed. Pure. */

import type { Labels } from "../data/document";
import type { Loaded, Nodes } from "../data/nodes";

export interface Options {
  /** Whether threads are apart. */
  readonly byThread: boolean;
  /** Whether lines of one function are apart. */
  readonly byLine: boolean;
  /** Whether a branch has its callers instead of what it calls. */
  readonly isInverted: boolean;
  /** The only thread; -1 for all. */
  readonly thread: number;
}

/** Nodes with the same label below the same branch. */
export interface Branch {
  /** Identifies it among its siblings: a function or label, or a thread; -1 for the root. */
  readonly key: number;
  /** A label of its nodes; -1 for the root and for threads. */
  readonly label: number;
  readonly thread: number;
  readonly total: number;
  /** Time of the stacks that end here; of inverted graphs, that begin here. */
  readonly self: number;
  readonly count: number;
  readonly nodes: readonly number[];
  /** Where the time of each of `nodes` comes from in inverted graphs. */
  readonly origins: readonly number[];
}

const ROOT = -1;

export class Graph {
  readonly labels: Labels;
  readonly root: Branch;
  readonly #nodes: Nodes;
  readonly #first: Int32Array;
  readonly #callees: Int32Array;
  readonly #total: Float64Array;
  readonly #below: Float64Array;
  readonly #children = new WeakMap<Branch, readonly Branch[]>();

  constructor(
    loaded: Loaded,
    readonly options: Options,
  ) {
    this.labels = loaded.labels;
    this.#nodes = loaded.nodes;
    const { parent, self, count, thread } = loaded.nodes;
    this.#total = self.slice();
    this.#below = count.slice();
    this.#first = new Int32Array(parent.length + 1);
    const roots: number[] = [];
    const ends: number[] = [];
    for (let at = parent.length - 1; at >= 0; at--) {
      const above = parent[at] as number;
      if (above >= 0) {
        this.#total[above] = (this.#total[above] as number) + (this.#total[at] as number);
        this.#below[above] = (this.#below[above] as number) + (this.#below[at] as number);
        this.#first[above + 1] = (this.#first[above + 1] as number) + 1;
      }
      if (options.thread >= 0 && thread[at] !== options.thread) continue;
      if (above < 0) roots.push(at);
      if (self[at] || count[at]) ends.push(at);
    }
    for (let at = 0; at < parent.length; at++) this.#first[at + 1] = (this.#first[at + 1] as number) + (this.#first[at] as number);
    this.#callees = new Int32Array(this.#first[parent.length] as number);
    const next = this.#first.slice();
    for (let at = 0; at < parent.length; at++) {
      const above = parent[at] as number;
      if (above < 0) continue;
      this.#callees[next[above] as number] = at;
      next[above] = (next[above] as number) + 1;
    }
    roots.reverse();
    ends.reverse();
    this.root = this.#branch(ROOT, ROOT, ROOT, options.isInverted ? ends : roots, ends);
  }

  /** Returns what is below a branch, the longest first. */
  children(branch: Branch): readonly Branch[] {
    const known = this.#children.get(branch);
    if (known) return known;
    const found = this.#grouped(branch);
    found.sort((a, b) => b.total - a.total || a.key - b.key);
    this.#children.set(branch, found);
    return found;
  }

  /** Returns the branches on a path of keys, the root first; fewer if some do not exist. */
  along(path: readonly number[]): readonly Branch[] {
    const found = [this.root];
    for (const key of path) {
      const next = this.children(found[found.length - 1] as Branch).find((one) => one.key === key);
      if (!next) break;
      found.push(next);
    }
    return found;
  }

  /** Returns the time of the stacks with a label that a function accepts, each once. */
  timeOf(isMeant: (label: number) => boolean): number {
    const { parent, label, self, thread } = this.#nodes;
    const meant = Uint8Array.from(this.labels.name, (_, at) => (isMeant(at) ? 1 : 0));
    const covered = new Uint8Array(parent.length);
    let sum = 0;
    for (let at = 0; at < parent.length; at++) {
      const above = parent[at] as number;
      covered[at] = meant[label[at] as number] || (above >= 0 && covered[above]) ? 1 : 0;
      if (covered[at] && (this.options.thread < 0 || thread[at] === this.options.thread)) sum += self[at] as number;
    }
    return sum;
  }

  /** Returns the nodes of a branch in the tree of callers, without those above it; null for all. */
  nodesOf(branch: Branch): readonly number[] | null {
    return branch === this.root ? null : branch.nodes;
  }

  #keyOf(node: number): number {
    const label = this.#nodes.label[node] as number;
    return this.options.byLine ? label : (this.labels.function[label] as number);
  }

  #grouped(branch: Branch): Branch[] {
    const { isInverted, byThread } = this.options;
    if (branch === this.root && byThread) return this.#groups(branch.nodes, branch.origins, (node) => this.#nodes.thread[node] as number, true);
    const isTop = branch.label === ROOT;
    if (isTop || !isInverted) {
      const nodes = isTop ? branch.nodes : branch.nodes.flatMap((node) => this.#calleesOf(node));
      return this.#groups(nodes, isInverted ? branch.origins : [], (node) => this.#keyOf(node), false);
    }
    const nodes: number[] = [];
    const origins: number[] = [];
    branch.nodes.forEach((node, at) => {
      const above = this.#nodes.parent[node] as number;
      if (above < 0) return;
      nodes.push(above);
      origins.push(branch.origins[at] as number);
    });
    return this.#groups(nodes, origins, (node) => this.#keyOf(node), false);
  }

  #calleesOf(node: number): number[] {
    return [...this.#callees.subarray(this.#first[node] as number, this.#first[node + 1] as number)];
  }

  #groups(nodes: readonly number[], origins: readonly number[], keyOf: (node: number) => number, areThreads: boolean): Branch[] {
    const groups = new Map<number, { nodes: number[]; origins: number[] }>();
    nodes.forEach((node, at) => {
      const key = keyOf(node);
      let group = groups.get(key);
      if (!group) groups.set(key, (group = { nodes: [], origins: [] }));
      group.nodes.push(node);
      if (this.options.isInverted) group.origins.push(origins[at] as number);
    });
    return [...groups].map(([key, group]) => {
      const first = group.nodes[0] as number;
      return this.#branch(key, areThreads ? ROOT : (this.#nodes.label[first] as number), areThreads ? key : ROOT, group.nodes, group.origins);
    });
  }

  #branch(key: number, label: number, thread: number, nodes: readonly number[], origins: readonly number[]): Branch {
    const { self, count, parent } = this.#nodes;
    const { isInverted } = this.options;
    let [total, own, number] = [0, 0, 0];
    nodes.forEach((node, at) => {
      if (isInverted) {
        const origin = origins[at] as number;
        total += self[origin] as number;
        number += count[origin] as number;
        if ((parent[node] as number) < 0 && label !== ROOT) own += self[origin] as number;
      } else {
        total += this.#total[node] as number;
        number += this.#below[node] as number;
        if (label !== ROOT) own += self[node] as number;
      }
    });
    return { key, label, thread, total, self: own, count: number, nodes, origins: isInverted ? origins : [] };
  }
}

/** A branch and its box; `x` and `width` are in pixels. */
export interface Box {
  readonly branch: Branch;
  readonly path: readonly number[];
  readonly level: number;
  readonly x: number;
  readonly width: number;
}

/** Places the branches of a graph. Those on the path `zoomed` take the whole width; others below `least` are left out. */
export function boxesOf(graph: Graph, zoomed: readonly number[], width: number, least = 0.5): Box[] {
  const above = graph.along(zoomed);
  const boxes: Box[] = above.map((branch, level) => ({ branch, path: zoomed.slice(0, level), level, x: 0, width }));
  const open = [boxes[boxes.length - 1] as Box];
  for (let box = open.pop(); box; box = open.pop()) {
    const { branch, path, level, x } = box;
    const scale = branch.total > 0 ? box.width / branch.total : 0;
    let at = x;
    for (const child of graph.children(branch)) {
      const wide = child.total * scale;
      if (wide < least) break; // the longest come first
      const own = { branch: child, path: [...path, child.key], level: level + 1, x: at, width: wide };
      boxes.push(own);
      open.push(own);
      at += wide;
    }
  }
  return boxes;
}

/** The box that contains a point, in pixels. */
export function boxAt(boxes: readonly Box[], x: number, level: number): Box | null {
  return boxes.find((box) => box.level === level && x >= box.x && x < box.x + box.width) ?? null;
}

/** Returns the path that an arrow key leads to from a path: caller, longest callee, or sibling. */
export function neighbour(graph: Graph, path: readonly number[], key: string): readonly number[] {
  const branches = graph.along(path);
  const here = branches[branches.length - 1] as Branch;
  if (key === "ArrowUp") return path.slice(0, -1);
  if (key === "ArrowDown") {
    const child = graph.children(here)[0];
    return child ? [...path, child.key] : path;
  }
  const siblings = branches.length > 1 ? graph.children(branches[branches.length - 2] as Branch) : [];
  const next = siblings[siblings.indexOf(here) + (key === "ArrowLeft" ? -1 : 1)];
  return next ? [...path.slice(0, -1), next.key] : path;
}

/** The time of a function in a part of the tree; recursive calls count once. */
export interface FunctionTime {
  readonly label: number;
  readonly self: number;
  readonly total: number;
}

/** Returns the functions below some nodes, the longest self time first; null means all nodes of the thread. */
export function functionsBelow({ nodes, labels }: Loaded, chosen: readonly number[] | null, thread: number): FunctionTime[] {
  const { parent, label, self } = nodes;
  const size = parent.length;
  const isIn = new Uint8Array(size);
  for (const node of chosen ?? []) isIn[node] = 1;
  const found = new Map<number, { label: number; self: number; total: number }>();
  const total = self.slice();
  for (let at = size - 1; at >= 0; at--) {
    const above = parent[at] as number;
    if (above >= 0) total[above] = (total[above] as number) + (total[at] as number);
  }
  for (let at = 0; at < size; at++) {
    const above = parent[at] as number;
    if (chosen ? above >= 0 && isIn[above] : thread < 0 || nodes.thread[at] === thread) isIn[at] = 1;
    if (!isIn[at]) continue;
    const key = labels.function[label[at] as number] as number;
    let sum = found.get(key);
    if (!sum) found.set(key, (sum = { label: label[at] as number, self: 0, total: 0 }));
    sum.self += self[at] as number;
    let outer = above;
    while (outer >= 0 && isIn[outer] && labels.function[label[outer] as number] !== key) outer = parent[outer] as number;
    if (outer < 0 || !isIn[outer]) sum.total += total[at] as number;
  }
  return [...found.values()].sort((a, b) => b.self - a.self || b.total - a.total || a.label - b.label);
}
