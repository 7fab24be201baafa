/** Flame graphs: trees of what lies in what, and where each is drawn. Pure. */

import type { ResultTable } from "../data/head";

/** Something that ran, all its times under the same stack together. */
export interface FlameNode {
  readonly label: string;
  /** Ids of the names whose events it stands for. */
  readonly names: readonly number[];
  /** What widths can show, in the order of the graph's `weights`; ns. */
  readonly weights: readonly number[];
  readonly count: number;
  readonly children: readonly FlameNode[];
}

/** A graph: what widths can show, and the tree; its root stands for everything. */
export interface Flame {
  readonly weights: readonly string[];
  readonly root: FlameNode;
}

/** Which columns of a result table make a flame graph. */
interface TableFlame {
  readonly label: string;
  readonly weights: readonly (readonly [column: string, title: string])[];
}

const TABLES: Readonly<Record<string, TableFlame>> = {
  layers: {
    label: "name",
    weights: [["device_busy_ns", "GPU time"], ["host_ns", "Host time"]],
  },
  phases: { label: "path", weights: [["total_ns", "Device time"], ["idle_ns", "Idle inside"]] },
};

/** Returns the tree of a table whose rows say how deep they lie, or null if it is no such table. */
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

/** Returns the last name of a path: what follows the path of the row that it lies in. */
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

/** Returns the root over some trees: it takes as long as they do together. */
export function rootOf(children: readonly FlameNode[], label = "all"): FlameNode {
  const size = Math.max(0, ...children.map((one) => one.weights.length));
  const weights = Array.from({ length: size }, (_, at) =>
    children.reduce((sum, one) => sum + (one.weights[at] ?? 0), 0),
  );
  return { label, names: [], weights, count: 0, children };
}

/** A node where it is drawn: `x` and `width` in parts of the graph's width. */
export interface FlameBox {
  readonly node: FlameNode;
  readonly path: readonly number[];
  readonly level: number;
  readonly x: number;
  readonly width: number;
}

/**
 * Places the nodes of a graph: those of `zoomed`, a path of places from the root, over the whole width,
 * what lies in the last of them below. Nodes narrower than `least` are left out. Where children take longer
 * together than what they lie in, as work on several streams does, they share its width.
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

/** Returns the node at a path of places, or the last that there is on it. */
export function nodeAt(root: FlameNode, path: readonly number[]): FlameNode {
  let node = root;
  for (const at of path) {
    const next = node.children[at];
    if (!next) break;
    node = next;
  }
  return node;
}

/** Returns the box that a key moves to: up to what it lies in, down into it, and to its sides. */
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
