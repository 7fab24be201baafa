/** The tiles of a view: which are needed, which have arrived, and what to draw meanwhile. */

import type { Span } from "../base/span";
import type { TilesSpec } from "./head";
import { decodeTile, type RowTile, type TileBase } from "./tile";
import type { TileSource } from "./tile-source";
import { joinTiles, type PlacedTile, type RowWindow } from "./window";

const MOST_TILES = 4000; // cached rows of tiles, about 20 kB each
const AT_ONCE = 4;
const ROWS_AT_ONCE = 32;
const KEPT_LEVELS = 2; // the widest levels are never evicted
const AGAIN_MS = 1000;

interface Wish {
  readonly level: number;
  readonly index: number;
  readonly rows: readonly number[];
}

interface View {
  readonly level: number;
  readonly first: number;
  readonly last: number;
}

interface Kept {
  readonly key: string;
  readonly window: RowWindow;
}

/** Returns the level whose bins are at most one pixel wide, and the tiles that overlap the span. */
export function viewOf(span: Span, width: number, grid: TilesSpec, endNs: number): View {
  const pixelNs = Math.max(Number.MIN_VALUE, (span.end - span.start) / Math.max(1, width));
  const level = Math.max(0, Math.min(grid.levels - 1, Math.floor(Math.log2(pixelNs))));
  const tileNs = grid.bins * 2 ** level;
  const most = Math.ceil((endNs - grid.start_ns) / tileNs) - 1;
  const first = Math.max(0, Math.min(most, Math.floor((span.start - grid.start_ns) / tileNs)));
  const last = Math.max(first, Math.min(most, Math.ceil((span.end - grid.start_ns) / tileNs) - 1));
  return { level, first, last };
}

export class Tiles {
  /** Rows of tiles by `ROW/LEVEL/INDEX`, in order of use. */
  private readonly cache = new Map<string, RowTile>();
  private readonly widest = new Map<string, RowTile>();
  private readonly windows = new Map<number, Kept>();
  private readonly running = new Map<string, AbortController>();
  private readonly changes = new Map<number, number>(); // per row, the number of tiles that have arrived
  private wishes: Wish[] = [];
  private isResting = false;

  constructor(
    private readonly grid: TilesSpec,
    private readonly base: TileBase,
    private readonly source: TileSource,
    private readonly arrived: () => void,
    private readonly failed: (error: Error | null) => void,
  ) {}

  /** Loads the widest tile of all rows, so that every view can be drawn. */
  async start(): Promise<void> {
    const rows = this.base.rows.flatMap((row, place) => (row.count > 0 ? [place] : []));
    const top = this.grid.levels - 1;
    for (let at = 0; at < rows.length; at += ROWS_AT_ONCE) {
      await this.load({ level: top, index: 0, rows: rows.slice(at, at + ROWS_AT_ONCE) });
    }
  }

  /** Returns the data to draw a row, or null if there is none yet. Requests nothing. */
  window(row: number, span: Span, width: number): RowWindow | null {
    const { level, first, last } = viewOf(span, width, this.grid, this.base.bounds.end_ns);
    const key = `${level}/${first}/${last}/${this.changes.get(row) ?? 0}`;
    const kept = this.windows.get(row);
    if (kept?.key === key) return kept.window;
    const tiles = Array.from({ length: last - first + 1 }, (_, i) => this.best(row, level, first + i));
    if (tiles.every((one) => one === null)) return null;
    const tileNs = this.grid.bins * 2 ** level;
    const window = joinTiles(
      tiles,
      {
        start: this.grid.start_ns + first * tileNs,
        ...{ level, count: tiles.length * this.grid.bins, perTile: this.grid.bins },
      },
      this.base.categories,
      this.base.rows[row]?.kind === "state" ? this.base.isIdle : null,
    );
    this.windows.set(row, { key, window });
    return window;
  }

  /** Requests the missing tiles of a view, then its neighbors. Drops the requests of earlier views. */
  want(rows: readonly number[], span: Span, width: number): void {
    const { level, first, last } = viewOf(span, width, this.grid, this.base.bounds.end_ns);
    const tileNs = this.grid.bins * 2 ** level;
    const most = Math.ceil((this.base.bounds.end_ns - this.grid.start_ns) / tileNs) - 1;
    const indices = Array.from({ length: last - first + 1 }, (_, i) => first + i);
    const beside = [last + 1, first - 1].filter((index) => index >= 0 && index <= most);
    const sorted = [...new Set(rows)].filter((row) => (this.base.rows[row]?.count ?? 0) > 0).sort((a, b) => a - b);
    const needed = indices.flatMap((index) => this.missing(sorted, level, index));
    this.wishes = needed.length ? needed : beside.flatMap((index) => this.missing(sorted, level, index));
    const wanted = new Set([...indices, ...beside].map((index) => `${level}/${index}`));
    for (const [key, request] of this.running) {
      if (!wanted.has(key.slice(0, key.lastIndexOf("/")))) request.abort();
    }
    this.proceed();
  }

  /** Whether all tiles of the last view have arrived. */
  get isSettled(): boolean {
    return this.running.size === 0 && this.wishes.length === 0 && !this.isResting;
  }

  private missing(rows: readonly number[], level: number, index: number): Wish[] {
    const lacking = rows.filter((row) => !this.isKnown(row, level, index));
    const wishes: Wish[] = [];
    for (let at = 0; at < lacking.length; at += ROWS_AT_ONCE) {
      wishes.push({ level, index, rows: lacking.slice(at, at + ROWS_AT_ONCE) });
    }
    return wishes;
  }

  /** Returns whether the best data has arrived: the tile itself, or all events around it. */
  private isKnown(row: number, level: number, index: number): boolean {
    const found = this.best(row, level, index);
    return found !== null && (found.level === level || found.tile.kind === "events");
  }

  /** Returns the tile, otherwise the nearest wider tile with all events, otherwise the nearest wider tile. */
  private best(row: number, level: number, index: number): PlacedTile | null {
    let wider: PlacedTile | null = null;
    for (let up = level, at = index; up < this.grid.levels; up++, at = Math.floor(at / 2)) {
      const tile = this.get(`${row}/${up}/${at}`);
      if (!tile) continue;
      const placed = { tile, level: up, start: this.grid.start_ns + at * this.grid.bins * 2 ** up };
      if (up === level || tile.kind === "events") return placed;
      wider ??= placed;
    }
    return wider;
  }

  private get(key: string): RowTile | undefined {
    const fixed = this.widest.get(key);
    if (fixed) return fixed;
    const tile = this.cache.get(key);
    if (!tile) return undefined;
    this.cache.delete(key);
    this.cache.set(key, tile);
    return tile;
  }

  private proceed(): void {
    while (this.running.size < AT_ONCE && !this.isResting) {
      const wish = this.wishes.shift();
      if (!wish) return;
      if (this.running.has(keyOf(wish))) continue;
      void this.load(wish).then(
        () => this.proceed(),
        () => this.proceed(),
      );
    }
  }

  private async load(wish: Wish): Promise<void> {
    const { level, index, rows } = wish;
    const request = new AbortController();
    this.running.set(keyOf(wish), request);
    try {
      const bytes = await this.source.tile(level, index, rows, request.signal);
      const start = this.grid.start_ns + index * this.grid.bins * 2 ** level;
      this.keep(decodeTile(bytes, start, this.base), level, index);
      this.failed(null);
      this.arrived();
    } catch (error) {
      if ((error as Error).name === "AbortError") return;
      this.failed(error as Error);
      this.rest();
    } finally {
      this.running.delete(keyOf(wish));
    }
  }

  private keep(found: ReadonlyMap<number, RowTile>, level: number, index: number): void {
    const cache = level >= this.grid.levels - KEPT_LEVELS ? this.widest : this.cache;
    for (const [row, tile] of found) {
      cache.set(`${row}/${level}/${index}`, tile);
      this.changes.set(row, (this.changes.get(row) ?? 0) + 1);
    }
    for (const key of this.cache.keys()) {
      if (this.cache.size <= MOST_TILES) break;
      this.cache.delete(key);
    }
  }

  /** Pauses requests after a failure; the next frame retries. */
  private rest(): void {
    this.isResting = true;
    this.wishes = [];
    setTimeout(() => {
      this.isResting = false;
      this.arrived();
    }, AGAIN_MS);
  }
}

function keyOf({ level, index, rows }: Wish): string {
  return `${level}/${index}/${rows[0]}`;
}
