/** The layers of the stack plot: which names have one, and their bytes in each column of pixels. Pure. */

import type { By } from "../data/document";
import type { Pool } from "../data/pool";

/** Names with a layer of their own; the others share one. */
export const MOST_LAYERS = 11;
export const OTHERS = "Others";
/** Blocks without a name. */
export const NAMELESS: Readonly<Record<By, string>> = {
  kind: "Unknown", module: "Outside modules", line: "Without a Python stack", operator: "Outside operators",
};
export const EARLIER = "Before recording";
/** That, and the blocks that a huge recording leaves out. */
export const UNLISTED = "Not listed";

export type Axis = "time" | "events";

/** The color of a layer: 0 to `MOST_LAYERS` - 1, and those of what has no name of its own. */
export type Color = number | "rest" | "earlier";

/** The layers, from the bottom. */
export interface Layering {
  readonly by: By;
  readonly names: readonly string[];
  readonly colors: readonly Color[];
  /** The layer of bytes that are in no block; null without such bytes. */
  readonly rest: string | null;
}

/** Returns the layer of each text of a pool, and last that of blocks without one. */
export function layersOfTexts(pool: Pool, layering: Layering): Int32Array {
  const place = new Map(layering.names.map((name, at) => [name, at]));
  const others = place.get(OTHERS) ?? -1;
  const found = pool.texts[layering.by].map((text) => place.get(text) ?? others);
  return Int32Array.from([...found, place.get(NAMELESS[layering.by]) ?? others]);
}

/** Returns the layer of a block. */
export function layerOf(layers: Int32Array, code: number): number {
  return layers[code < 0 ? layers.length - 1 : code] as number;
}

interface Sum {
  name: string;
  /** Bytes at the peaks, and on average. */
  peak: number;
  whole: number;
}

/**
 * Returns the layers of pools that share a plot. The names with the most bytes, at the peaks or on average, have their
 * own, and what is in use for long is below.
 */
export function layeringOf(pools: readonly Pool[], by: By): Layering {
  const sums = new Map<string, Sum>();
  const nameless = NAMELESS[by];
  let [isNameless, hasEarlier] = [false, false];
  for (const { spec, texts, blocks, rest, time } of pools) {
    const own = texts[by].map((name) => ({ name, peak: 0, whole: 0 }));
    isNameless ||= texts[by].includes(nameless);
    const codes = blocks.codes[by];
    for (let at = 0; at < codes.length; at++) {
      const code = codes[at] as number;
      if (code < 0) isNameless = true;
      const sum = own[code];
      if (!sum) continue;
      const [start, end, bytes] = [blocks.start[at] as number, blocks.end[at] as number, blocks.bytes[at] as number];
      if (start <= spec.peak.state && spec.peak.state < end) sum.peak += bytes;
      sum.whole += (bytes * (Math.min(end, time.length) - start)) / time.length;
    }
    for (const { name, peak, whole } of own) {
      const sum = sums.get(name) ?? { name, peak: 0, whole: 0 };
      sums.set(name, { name, peak: sum.peak + peak, whole: sum.whole + whole });
    }
    hasEarlier ||= rest.some((bytes) => bytes !== 0);
  }
  const size = ({ peak, whole }: Sum): number => Math.max(peak, whole);
  sums.delete(nameless);
  const ranked = [...sums.values()].sort((a, b) => size(b) - size(a));
  const own = ranked.slice(0, MOST_LAYERS);
  const stacked = own.toSorted((a, b) => b.whole - a.whole).map(({ name }) => name);
  const rest = !hasEarlier ? null : pools.some(({ spec }) => spec.left_out > 0) ? UNLISTED : EARLIER;
  const first = rest === null ? [] : [rest];
  const last = [...(ranked.length > own.length ? [OTHERS] : []), ...(isNameless ? [nameless] : [])];
  return { by, rest, names: [...first, ...stacked, ...last], colors: [...first.map(() => "earlier" as const), ...stacked.map((_, at) => at), ...last.map(() => "rest" as const)] };
}

/** Returns where a state is on the axis. */
export function xOf(pool: Pool, axis: Axis, state: number): number {
  return axis === "events" ? state : (pool.time[state] as number);
}

/** Returns the last state at or before a place of the axis; 0 before all. */
export function stateAt(pool: Pool, axis: Axis, x: number): number {
  if (axis === "events") return Math.max(0, Math.min(pool.time.length - 1, Math.floor(x)));
  let [low, high] = [0, pool.time.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((pool.time[middle] as number) <= x) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

/**
 * Returns for each column of pixels the state with the most bytes in it: nothing that is shown hides a peak. Columns
 * beyond the recording have -1.
 */
export function statesOfColumns(pool: Pool, axis: Axis, low: number, high: number, width: number): Int32Array {
  const found = new Int32Array(width).fill(-1);
  const last = pool.time.length - 1;
  const step = (high - low) / width;
  let state = stateAt(pool, axis, low);
  for (let column = 0; column < width; column++) {
    const [from, until] = [low + column * step, low + (column + 1) * step];
    if (until <= xOf(pool, axis, 0) || from > xOf(pool, axis, last) + (axis === "events" ? 1 : 0)) continue;
    while (state < last && xOf(pool, axis, state + 1) <= from) state++;
    let best = state;
    while (state < last && xOf(pool, axis, state + 1) < until) {
      state++;
      if ((pool.allocated[state] as number) > (pool.allocated[best] as number)) best = state;
    }
    found[column] = best;
  }
  return found;
}

/** Returns the bytes of each layer in each column. */
export function bytesOfColumns(pool: Pool, layering: Layering, states: Int32Array): Float64Array[] {
  const width = states.length;
  const found = layering.names.map(() => new Float64Array(width + 1));
  const layers = layersOfTexts(pool, layering);
  const first = firstColumns(states, pool.time.length);
  const { start, end, bytes } = pool.blocks;
  const codes = pool.blocks.codes[layering.by];
  for (let at = 0; at < start.length; at++) {
    const from = first[start[at] as number] as number;
    const until = first[Math.min(end[at] as number, pool.time.length)] as number;
    if (from === until) continue;
    const layer = found[layerOf(layers, codes[at] as number)] as Float64Array;
    layer[from] += bytes[at] as number;
    layer[until] -= bytes[at] as number;
  }
  for (const layer of found) for (let column = 1; column < width; column++) layer[column] += layer[column - 1] as number;
  const earlier = layering.rest === null ? -1 : layering.names.indexOf(layering.rest);
  const shown = found.map((layer) => layer.subarray(0, width));
  states.forEach((state, column) => {
    if (state < 0) for (const layer of shown) layer[column] = 0;
    else if (earlier >= 0) (shown[earlier] as Float64Array)[column] += pool.rest[state] as number;
  });
  return shown;
}

/** Returns for each state the first column that shows it or a later one. */
function firstColumns(states: Int32Array, count: number): Int32Array {
  const found = new Int32Array(count + 1);
  let column = 0;
  while (column < states.length && (states[column] as number) < 0) column++;
  let end = states.length;
  while (end > column && (states[end - 1] as number) < 0) end--;
  for (let state = 0; state <= count; state++) {
    while (column < end && (states[column] as number) < state) column++;
    found[state] = column;
  }
  return found;
}

/** Returns the bytes of each layer in one state. */
export function bytesOfState(pool: Pool, layering: Layering, state: number): number[] {
  return bytesOfColumns(pool, layering, Int32Array.of(state)).map((layer) => layer[0] as number);
}

/** Returns the places of blocks in use in a state, the largest first; only those of a layer, unless it is null. */
export function blocksOfState(pool: Pool, layering: Layering, state: number, layer: number | null): number[] {
  const layers = layersOfTexts(pool, layering);
  const { start, end, bytes, codes } = pool.blocks;
  const found: number[] = [];
  for (let at = 0; at < start.length; at++) {
    if ((start[at] as number) > state) break; // sorted by start
    if ((end[at] as number) > state && (layer === null || layerOf(layers, codes[layering.by][at] as number) === layer)) found.push(at);
  }
  return found.sort((a, b) => (bytes[b] as number) - (bytes[a] as number) || a - b);
}
