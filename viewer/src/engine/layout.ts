/** The visible rows, their positions, and their order. Pure. */

import type { RowSpec } from "../data/head";

export interface LayoutState {
  readonly collapsed: ReadonlySet<string>;
  readonly hidden: ReadonlySet<string>;
  readonly pinned: readonly string[];
}

/** A row on the screen; y is relative to its zone, pinned or scrolled. */
export interface PlacedRow {
  readonly row: number;
  readonly y: number;
  readonly height: number;
  readonly indent: number;
  readonly hasChildren: boolean;
  readonly isCollapsed: boolean;
  /** The row whose events are drawn: a collapsed group shows one of its rows. */
  readonly shows: number | null;
}

export interface Layout {
  readonly pinned: readonly PlacedRow[];
  readonly pinnedHeight: number;
  readonly scrolled: readonly PlacedRow[];
  readonly scrolledHeight: number;
}

const HEIGHTS: Readonly<Record<RowSpec["kind"], number>> = {
  group: 22,
  state: 26,
  step: 18,
  stream: 20,
  phase: 18,
  range: 18,
  op: 18,
  api: 18,
  os: 18,
  sample: 18,
  thread: 18,
  mark: 16,
  limit: 18,
  counter: 38,
};

export function rowHeight(row: RowSpec): number {
  return HEIGHTS[row.kind] ?? 18;
}

/** The tree of rows for layouts; built once. */
export interface RowTree {
  readonly rows: readonly RowSpec[];
  readonly parent: Int32Array;
  readonly children: readonly (readonly number[])[];
}

export function rowTree(rows: readonly RowSpec[]): RowTree {
  const places = new Map(rows.map((row, place) => [row.id, place]));
  const parent = Int32Array.from(rows, (row, place) => {
    const found = row.parent === null ? undefined : places.get(row.parent);
    return found !== undefined && found < place ? found : -1;
  });
  const children: number[][] = rows.map(() => []);
  parent.forEach((above, place) => {
    if (above >= 0) children[above]?.push(place);
  });
  return { rows, parent, children };
}

export function layoutRows(tree: RowTree, state: LayoutState): Layout {
  const pinned: PlacedRow[] = [];
  let pinnedHeight = 0;
  for (const id of state.pinned) {
    const row = tree.rows.findIndex((one) => one.id === id);
    if (row < 0 || state.hidden.has(id)) continue;
    const placed = place(tree, state, row, pinnedHeight, 0);
    pinned.push(placed);
    pinnedHeight += placed.height;
  }
  const scrolled: PlacedRow[] = [];
  let y = 0;
  const indents = new Int32Array(tree.rows.length).fill(-1); // -1: not shown
  const apart = new Set(state.pinned);
  tree.rows.forEach((row, at) => {
    const above = tree.parent[at];
    const isUnder = above >= 0;
    const parentShown = !isUnder || (indents[above] >= 0 && !isClosed(tree, state, above));
    if (!parentShown || state.hidden.has(row.id)) return;
    indents[at] = isUnder ? indents[above] + 1 : 0;
    if (apart.has(row.id) && row.kind !== "group") return;
    const placed = place(tree, state, at, y, indents[at]);
    scrolled.push(placed);
    y += placed.height;
  });
  return { pinned, pinnedHeight, scrolled, scrolledHeight: y };
}

const MOST_GROWTH = 2;

/** Returns the layout with rows that are up to twice as high, where they leave some of the height empty. */
export function filled(layout: Layout, height: number): Layout {
  const all = [...layout.pinned, ...layout.scrolled];
  const growing = all.reduce((sum, one) => sum + (one.hasChildren ? 0 : one.height), 0);
  const spare = height - layout.pinnedHeight - layout.scrolledHeight;
  if (spare <= 0 || growing === 0) return layout;
  const growth = Math.min(MOST_GROWTH, 1 + spare / growing);
  const [pinned, pinnedHeight] = stacked(layout.pinned, growth);
  const [scrolled, scrolledHeight] = stacked(layout.scrolled, growth);
  return { pinned, pinnedHeight, scrolled, scrolledHeight };
}

/** Returns rows one below the other, all but the heads of groups grown, and their height. */
function stacked(rows: readonly PlacedRow[], growth: number): readonly [PlacedRow[], number] {
  let y = 0;
  const grown = rows.map((one) => {
    const height = one.hasChildren ? one.height : Math.floor(one.height * growth);
    y += height;
    return { ...one, y: y - height, height };
  });
  return [grown, y];
}

function isClosed(tree: RowTree, state: LayoutState, row: number): boolean {
  return state.collapsed.has(tree.rows[row]?.id ?? "");
}

function place(
  tree: RowTree,
  state: LayoutState,
  row: number,
  y: number,
  indent: number,
): PlacedRow {
  const spec = tree.rows[row] as RowSpec;
  const hasChildren = (tree.children[row]?.length ?? 0) > 0;
  const isCollapsed = hasChildren && state.collapsed.has(spec.id);
  const shows = spec.kind !== "group" ? row : isCollapsed ? busiest(tree, row) : null;
  return { row, y, height: rowHeight(spec), indent, hasChildren, isCollapsed, shows };
}

const UNFIT: ReadonlySet<RowSpec["kind"]> = new Set(["thread", "group", "counter", "step"]);

/** Returns the row that represents a group: its state row, otherwise the row with the most time. */
function busiest(tree: RowTree, group: number): number | null {
  let best: number | null = null;
  let most = -1;
  const look = (row: number): void => {
    const spec = tree.rows[row] as RowSpec;
    const weight = spec.kind === "state" ? Number.MAX_VALUE : (spec.busy_ns ?? spec.count);
    if (!UNFIT.has(spec.kind) && weight > most) {
      most = weight;
      best = row;
    }
    for (const child of tree.children[row] ?? []) look(child);
  };
  look(group);
  return best;
}

/** Returns the placed row at a y position of the drawing area, or null. */
export function rowAt(layout: Layout, y: number, scrollTop: number): PlacedRow | null {
  const [rows, at] =
    y < layout.pinnedHeight
      ? [layout.pinned, y]
      : [layout.scrolled, y - layout.pinnedHeight + scrollTop];
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const row = rows[middle] as PlacedRow;
    if (row.y + row.height <= at) low = middle + 1;
    else high = middle;
  }
  const found = rows[low];
  return found && found.y <= at ? found : null;
}

/** Returns the position of a row, relative to the top of the drawing area; null if it is not shown. */
export function topOfRow(layout: Layout, row: number, scrollTop: number): PlacedRow | null {
  const own = layout.pinned.find((one) => one.row === row);
  if (own) return own;
  const found = layout.scrolled.find((one) => one.row === row);
  return found ? { ...found, y: found.y + layout.pinnedHeight - scrollTop } : null;
}
