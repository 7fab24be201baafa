/** The data to draw a row in view, assembled from its tiles of any level. */

import { averages, type CounterBins } from "./counter-bins";
import { endOf, type Events, lengthOf } from "./events";
import { type Categories, CategoryBinsWriter, keyOf, NO_NAME } from "./category-bins";
import type { Pyramid } from "./pyramid";
import type { BinTile, EventTile, RowTile, WideEvent } from "./tile";

const WIDE_BINS = 1.5;

/** A tile and its position: `bins` bins of `2 ** level` ns, starting at `start`. */
export interface PlacedTile {
  readonly tile: RowTile;
  readonly level: number;
  readonly start: number;
}

export interface RowWindow {
  readonly events: Events;
  readonly pyramid: Pyramid | null;
  readonly counter: CounterBins | null;
}

/** The bins of a window: `count` of `2 ** level` ns. */
export interface WindowGrid {
  readonly start: number;
  readonly level: number;
  readonly count: number;
  /** Bins per tile. */
  readonly perTile: number;
}

/**
 * Assembles tiles: `tiles[i]` is the best available data for the i-th tile of the window, or null.
 * The window has events if all of them are known, otherwise bins.
 */
export function joinTiles(
  tiles: readonly (PlacedTile | null)[],
  grid: WindowGrid,
  categories: Categories,
  isIdle: Uint8Array | null,
): RowWindow {
  const known = tiles.filter((one) => one !== null);
  if (known.length === tiles.length && known.every(({ tile }) => tile.kind === "events")) {
    const events = joinEvents(known.map(({ tile }) => tile as EventTile), isIdle);
    return { events, pyramid: null, counter: null };
  }
  if (known.some(({ tile }) => tile.kind === "counter")) {
    return { events: joinEvents([], null), pyramid: null, counter: joinCounters(tiles, grid) };
  }
  return joinBins(tiles, grid, categories, isIdle);
}

function joinEvents(tiles: readonly EventTile[], isIdle: Uint8Array | null): Events {
  const pieces: { readonly events: Events; readonly from: number }[] = [];
  let next = -1; // the number of the first missing event
  let count = 0;
  for (const { events, first } of tiles) {
    const from = Math.max(0, next - first);
    if (from >= events.count) continue;
    pieces.push({ events, from });
    count += events.count - from;
    next = first + events.count;
  }
  const joined = room(count, pieces.some(({ events }) => events.value !== null));
  let at = 0;
  for (const { events, from } of pieces) {
    joined.start.set(events.start.subarray(from), at);
    joined.name.set(events.name.subarray(from), at);
    if (events.value) joined.value?.set(events.value.subarray(from), at);
    for (let i = from; i < events.count; i++, at++) addLength(joined, at, lengthOf(events, i), isIdle);
  }
  return joined;
}

interface Room extends Events {
  readonly name: Uint32Array;
}

function room(count: number, hasValue = false): Room {
  const before = new Float64Array(count + 1);
  return {
    ...{ count, before, busy: new Float64Array(count + 1), start: new Float64Array(count) },
    ...{ name: new Uint32Array(count), value: hasValue ? new Float64Array(count) : null },
    ...{ row: null, table: null, links: new Map<string, Int32Array>() },
  };
}

function addLength({ before, busy, name }: Room, i: number, length: number, isIdle: Uint8Array | null): void {
  before[i + 1] = before[i] + length;
  busy[i + 1] = busy[i] + (isIdle?.[name[i]] ? 0 : length);
}

function wideOnly(wide: readonly WideEvent[], isIdle: Uint8Array | null): Events {
  const sorted = [...wide].sort((a, b) => a.start - b.start);
  const distinct = sorted.filter((one, i) => one.start !== sorted[i - 1]?.start);
  const joined = room(distinct.length);
  distinct.forEach(({ start, length, name }, i) => {
    joined.start[i] = start;
    joined.name[i] = name;
    addLength(joined, i, length, isIdle);
  });
  return joined;
}

function joinBins(
  tiles: readonly (PlacedTile | null)[],
  grid: WindowGrid,
  categories: Categories,
  isIdle: Uint8Array | null,
): RowWindow {
  const sums = new BinSums(grid, categories);
  tiles.forEach((placed, place) => {
    if (!placed) return;
    if (placed.tile.kind === "events") sums.addEvents(placed.tile.events, place, isIdle);
    if (placed.tile.kind === "bins") sums.addBins(placed.tile, placed, place);
  });
  const events = wideOnly(sums.wide, isIdle);
  return { events, pyramid: sums.pyramid(events), counter: null };
}

/** Collects sums by bin. */
class BinSums {
  readonly wide: WideEvent[] = [];
  private readonly binNs: number;
  private readonly busy: Float64Array;
  private readonly names: CategoryBinsWriter;

  constructor(
    private readonly grid: WindowGrid,
    private readonly categories: Categories,
  ) {
    this.binNs = 2 ** grid.level;
    this.busy = new Float64Array(grid.count + 1);
    this.names = new CategoryBinsWriter(grid.count, this.binNs);
  }

  /** Adds the bins of a tile of this level or a wider one, clipped to a slot. */
  addBins(tile: BinTile, { level, start }: PlacedTile, place: number): void {
    const { grid, binNs } = this;
    const share = 2 ** (grid.level - level);
    const from = place * grid.perTile;
    const offset = (grid.start - start) / binNs + from;
    for (let i = 0; i < grid.perTile; i++) {
      const bin = Math.floor((offset + i) * share);
      const at = from + i;
      this.busy[at + 1] = tile.busy[bin] * share;
      this.addName(at, tile.top[bin], tile.topNs[bin] * share, false);
      this.addName(at, tile.rest[bin], tile.restNs[bin] * share, true);
    }
    this.wide.push(...tile.wide);
  }

  /** Adds events, clipped to a slot. */
  addEvents(events: Events, place: number, isIdle: Uint8Array | null): void {
    const { grid, binNs } = this;
    const low = grid.start + place * grid.perTile * binNs;
    const high = low + grid.perTile * binNs;
    for (let i = 0; i < events.count; i++) {
      const [start, end] = [events.start[i], endOf(events, i)];
      if (start >= high || (end <= low && start < low)) continue;
      const length = end - start;
      if (length >= WIDE_BINS * binNs) this.wide.push({ start, length, name: events.name[i] });
      const isBusy = length === 0 || !isIdle?.[events.name[i]];
      const last = Math.min(high, end);
      let bin = Math.floor((Math.max(low, start) - grid.start) / binNs);
      do {
        const edge = grid.start + bin * binNs;
        const inside = Math.min(last, edge + binNs) - Math.max(start, edge, low);
        if (isBusy) this.busy[bin + 1] += Math.max(0, inside);
        this.addName(bin, events.name[i], Math.max(0, inside), !isBusy);
        bin++;
      } while (grid.start + bin * binNs < last);
    }
  }

  private addName(bin: number, name: number, inside: number, isIdle: boolean): void {
    if (name === NO_NAME) return;
    this.names.add(bin, keyOf(this.categories[name] ?? 0, isIdle), inside, name, inside);
  }

  /** Returns the sums with running totals; no more can be added. */
  pyramid(events: Events): Pyramid {
    const { busy, grid } = this;
    for (let i = 0; i < grid.count; i++) busy[i + 1] += busy[i];
    const long = Uint32Array.from({ length: events.count }, (_, i) => i);
    return { ...this.names.finish(), start_ns: grid.start, busy, long, isAlone: true };
  }
}

function joinCounters(tiles: readonly (PlacedTile | null)[], grid: WindowGrid): CounterBins {
  const binNs = 2 ** grid.level;
  const mean = new Float64Array(grid.count).fill(Number.NaN);
  const least = new Float64Array(grid.count).fill(Number.NaN);
  const most = new Float64Array(grid.count).fill(Number.NaN);
  tiles.forEach((placed, place) => {
    if (!placed) return;
    const from = place * grid.perTile;
    const start = grid.start + from * binNs;
    if (placed.tile.kind === "events") {
      const end = start + grid.perTile * binNs;
      const found = averages(placed.tile.events, { start, end }, grid.perTile);
      mean.set(found.mean, from);
      least.set(found.least, from);
      most.set(found.most, from);
    }
    if (placed.tile.kind !== "counter") return;
    const share = 2 ** (grid.level - placed.level);
    const offset = (start - placed.start) / binNs;
    for (let i = 0; i < grid.perTile; i++) {
      const bin = Math.floor((offset + i) * share);
      mean[from + i] = placed.tile.mean[bin];
      least[from + i] = placed.tile.least[bin];
      most[from + i] = placed.tile.most[bin];
    }
  });
  return { start_ns: grid.start, binNs, mean, least, most };
}
