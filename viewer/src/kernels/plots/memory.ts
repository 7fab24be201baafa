/** The memory diagram: places of boxes and of the arrows between them. Pure. */

import type { MemoryEdge, MemoryNode } from "../data/document";

export interface Box {
  readonly node: MemoryNode;
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

export interface Arrow {
  readonly edge: MemoryEdge;
  readonly x0: number;
  readonly y0: number;
  readonly x1: number;
  readonly y1: number;
  readonly width: number;
  /** The middle of the label. */
  readonly labelX: number;
  readonly labelY: number;
}

export interface Diagram {
  readonly boxes: readonly Box[];
  readonly arrows: readonly Arrow[];
  readonly width: number;
  readonly height: number;
}

/** Column, and the rows from the first to the last that a box fills. */
type Place = readonly [column: number, first: number, last: number];

const ROWS = 8;
const PLACES: Readonly<Record<string, Place>> = {
  kernel: [0, 0, 7],
  global: [1, 0, 0],
  local: [1, 1, 1],
  texture: [1, 2, 2],
  surface: [1, 3, 3],
  async_copy: [1, 4, 4],
  cluster_shared: [1, 5, 5],
  tma: [1, 6, 6],
  l1: [2, 0, 5],
  shared: [2, 7, 7],
  l2: [3, 0, 7],
  system: [4, 0, 0],
  peer: [4, 1, 1],
  dram: [4, 2, 7],
};
const LEFTS = [0, 190, 410, 650, 880];
const WIDTHS = [84, 118, 118, 110, 136];
const ROW_PX = 74;
const GAP_PX = 12;
const WIDEST_PX = 9;
export const DIAGRAM_WIDTH = 1020;

/** Returns the diagram. Rows without a box are left out; unknown boxes come last, below the others. */
export function diagramOf(nodes: readonly MemoryNode[], edges: readonly MemoryEdge[]): Diagram {
  const placed = placesOf(nodes);
  const rows = rowsOf([...placed.values()]);
  const boxes = nodes.map((node): Box => {
    const [column, first, last] = placed.get(node.id) as Place;
    const own = rows.filter((row) => row >= first && row <= last);
    const top = rows.indexOf(own[0] as number) * ROW_PX;
    return { node, left: LEFTS[column] ?? 0, top, width: WIDTHS[column] ?? 100, height: own.length * ROW_PX - GAP_PX };
  });
  return { boxes, arrows: arrowsOf(boxes, edges), width: DIAGRAM_WIDTH, height: rows.length * ROW_PX };
}

/** The rows that boxes of one row need, and one for every other box. */
function rowsOf(places: readonly Place[]): number[] {
  const rows = new Set(places.filter(([, first, last]) => first === last).map(([, first]) => first));
  for (const [, first, last] of places) {
    if (![...rows].some((row) => row >= first && row <= last)) rows.add(first);
  }
  return [...rows].sort((a, b) => a - b);
}

function placesOf(nodes: readonly MemoryNode[]): Map<string, Place> {
  let extra = ROWS;
  return new Map(nodes.map(({ id }) => [id, PLACES[id] ?? ([1, extra, extra++] as const)]));
}

function arrowsOf(boxes: readonly Box[], edges: readonly MemoryEdge[]): Arrow[] {
  const known = new Map(boxes.map((box) => [box.node.id, box]));
  const pairs = new Map<string, MemoryEdge[]>();
  for (const edge of edges) {
    const key = [edge.from, edge.to].sort().join(" ");
    if (known.has(edge.from) && known.has(edge.to)) pairs.set(key, [...(pairs.get(key) ?? []), edge]);
  }
  return [...pairs.values()].flatMap((pair) => pair.map((edge, at) => arrowOf(known, edge, at, pair.length)));
}

function arrowOf(boxes: ReadonlyMap<string, Box>, edge: MemoryEdge, at: number, count: number): Arrow {
  const [from, to] = [boxes.get(edge.from) as Box, boxes.get(edge.to) as Box];
  const width = edge.ratio === null ? 1.5 : 1.5 + WIDEST_PX * Math.max(0, Math.min(1, edge.ratio));
  const part = (at + 1) / (count + 1);
  if (from.left === to.left) return below(from, to, { edge, width, part });
  const isRight = from.left < to.left;
  const x0 = isRight ? from.left + from.width : from.left;
  const x1 = isRight ? to.left : to.left + to.width;
  const top = Math.max(from.top, to.top);
  const bottom = Math.min(from.top + from.height, to.top + to.height);
  const shared = bottom > top;
  const y0 = shared ? top + part * (bottom - top) : from.top + part * from.height;
  const y1 = shared ? y0 : to.top + part * to.height;
  return { edge, x0, y0, x1, y1, width, labelX: (x0 + x1) / 2, labelY: (y0 + y1) / 2 };
}

/** An arrow between two boxes of one column. */
function below(from: Box, to: Box, { edge, width, part }: { edge: MemoryEdge; width: number; part: number }): Arrow {
  const isDown = from.top < to.top;
  const x = from.left + part * from.width;
  const y0 = isDown ? from.top + from.height : from.top;
  const y1 = isDown ? to.top : to.top + to.height;
  return { edge, x0: x, y0, x1: x, y1, width, labelX: x, labelY: (y0 + y1) / 2 };
}
