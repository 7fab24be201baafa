/** Flame graphs: trees of nested events, and the box of each node. Pure. */

import type { ResultTable } from "../data/head";

/** A node: all events with the same name below the same stack. */
export interface FlameNode {
  readonly label: string;
  /** Ids of the names of its events. */
  readonly names: readonly number[];
  /** The possible widths in the order of the graph's `weights`, ns. */
  readonly weights: readonly number[];
  readonly count: number;
  readonly children: readonly FlameNode[];
}

/** A graph: the titles of its possible widths, and the tree. The root is the total. */
export interface Flame {
  readonly weights: readonly string[];
  readonly root: FlameNode;
}

/** The columns of a result table for a flame graph. */
interface TableFlame {
  readonly label: string;
  readonly weights: readonly (readonly [column: string, title: string])[];
}

const TABLES: Readonly<Record<string, TableFlame>> = {
  layers: {
    label: "name",
    weights: [["device_busy_ns", "GPU time"], ["host_ns", "CPU time"]],
  },
  phases: { label: "path", weights: [["total_ns", "GPU time, busy and idle"], ["idle_ns", "GPU idle time"]] },
};

/** Returns the tree of a table with a depth column, or null for other tables. */
export function flameOfTable(
  name: string,
  table: ResultTable,
  namesOf: (line: number) => readonly number[],
): Flame | null {
  const spec = TABLES[name.split(":")[0] ?? ""];
  const place = (column: string): number => table.columns.findIndex((one) => one.name === column);
  const [depth, label, calls] = [place("depth"), place(spec?.label ?? ""), place("calls")];
  const weights = (spec?.weights ?? []).map(([column]) => place(column));
  if (!spec || depth < 0 || label < 0 || weights.includes(-1) || !table.rows.length) return null;
  const children: FlameNode[][] = [[]];
  table.rows.forEach((row, line) => {
    const level = Math.max(0, Math.min(children.length - 1, Number(row[depth]) || 0));
    const own: FlameNode[] = [];
    children[level]?.push({
      label: lastOfPath(table, line, label, depth),
      names: namesOf(line),
      weights: weights.map((at) => Number(row[at]) || 0),
      count: calls < 0 ? 0 : Number(row[calls]) || 0,
      children: own,
    });
    children.length = level + 1;
    children.push(own);
  });
  return { weights: spec.weights.map(([, title]) => title), root: rootOf(children[0] ?? []) };
}

/** Returns the last name of a path: the part after the path of its parent row. */
export function lastOfPath(table: ResultTable, line: number, column: number, depth: number): string {
  const own = String(table.rows[line]?.[column] ?? "").trim();
  const level = Number(table.rows[line]?.[depth]) || 0;
  for (let above = line - 1; above >= 0 && level > 0; above--) {
    if (Number(table.rows[above]?.[depth]) >= level) continue;
    const outer = String(table.rows[above]?.[column] ?? "").trim();
    return own.startsWith(`${outer}/`) ? own.slice(outer.length + 1) : own;
  }
  return own;
}

/** Returns the root of some trees, with their total time. */
export function rootOf(children: readonly FlameNode[], label = "all"): FlameNode {
  const size = Math.max(0, ...children.map((one) => one.weights.length));
  const weights = Array.from({ length: size }, (_, at) =>
    children.reduce((sum, one) => sum + (one.weights[at] ?? 0), 0),
  );
  return { label, names: [], weights, count: 0, children };
}

/** A node and its box: `x` and `width` are fractions of the graph's width. */
export interface FlameBox {
  readonly node: FlameNode;
  readonly path: readonly number[];
  readonly level: number;
  readonly x: number;
  readonly width: number;
}

/**
 * Places the nodes of a graph. Those of `zoomed`, a path of indices from the root, take the whole width, with the
 * children of the last one below. Nodes narrower than `least` are omitted. Where children take longer in total than
 * their parent, such as work on several streams, they share its width.
 */
export function flameBoxes(
  root: FlameNode,
  weight: number,
  zoomed: readonly number[],
  least = 0.0005,
): FlameBox[] {
  const boxes: FlameBox[] = [];
  const place = (node: FlameNode, path: readonly number[], x: number, width: number): void => {
    boxes.push({ node, path, level: path.length, x, width });
    const next = zoomed[path.length];
    const isAbove = next !== undefined && path.every((at, i) => at === zoomed[i]);
    if (isAbove) {
      const child = node.children[next];
      if (child) place(child, [...path, next], 0, 1);
      return;
    }
    const inside = node.children.reduce((sum, one) => sum + (one.weights[weight] ?? 0), 0);
    const scale = width / Math.max(node.weights[weight] ?? 0, inside, Number.MIN_VALUE);
    let at = x;
    node.children.forEach((child, i) => {
      const wide = (child.weights[weight] ?? 0) * scale;
      if (wide >= least) place(child, [...path, i], at, wide);
      at += wide;
    });
  };
  place(root, [], 0, 1);
  return boxes;
}

/** Returns the node at a path of indices, or the last existing node on it. */
export function nodeAt(root: FlameNode, path: readonly number[]): FlameNode {
  let node = root;
  for (const at of path) {
    const next = node.children[at];
    if (!next) break;
    node = next;
  }
  return node;
}

/** Returns the box that an arrow key moves to: parent, first child, or sibling. */
export function neighbour(boxes: readonly FlameBox[], at: number, key: string): number {
  const now = boxes[at];
  if (!now) return 0;
  const sameLevel = (one: FlameBox): boolean => one.level === now.level;
  const find = (wanted: (one: FlameBox) => boolean): number => boxes.findIndex(wanted);
  const found: Readonly<Record<string, () => number>> = {
    ArrowUp: () => find((one) => one.path.join() === now.path.slice(0, -1).join() && now.level > 0),
    ArrowDown: () => find((one) => one.level === now.level + 1 && one.path.slice(0, -1).join() === now.path.join()),
    ArrowLeft: () => boxes.findLastIndex((one, i) => i < at && sameLevel(one)),
    ArrowRight: () => boxes.findIndex((one, i) => i > at && sameLevel(one)),
    Home: () => 0,
  };
  const next = found[key]?.() ?? -1;
  return next < 0 ? at : next;
}
