import { describe, expect, it } from "vitest";
import { encodeColumn, encodePart, joinBytes } from "../../dev/encode";
import { CATEGORIES, randomRow, type RandomRow } from "../../dev/events";
import { pictureRow, RowPicture } from "../engine/lod";
import { CategorySums, NO_NAME, sumBins } from "./category-bins";
import { endOf } from "./events";
import type { RowSpec, TilesSpec } from "./head";
import type { Pyramid } from "./pyramid";
import { bitsText } from "./remote-answers";
import { decodeTile, type TileBase } from "./tile";
import { rangesText, type TileSource } from "./tile-source";
import { Tiles, viewOf } from "./tiles";

const BINS = 16;
const MOST_EVENTS = 12;

interface Piece {
  readonly row: number;
  readonly inside: readonly number[];
}

interface OfCategory {
  ns: number;
  longest: number;
  name: number;
}

/** Sums events between two times by category in a plain loop; busy and idle time are separate. */
function sumsOf(row: RandomRow, inside: readonly number[], idle: number, low: number, high: number) {
  const found = { top: [] as (OfCategory | undefined)[], rest: [] as (OfCategory | undefined)[] };
  for (const i of inside) {
    const [begin, length, name] = [row.start[i] as number, row.duration[i] as number, row.name[i] as number];
    if (begin >= high || (begin + length <= low && begin < low)) continue;
    const part = Math.min(begin + length, high) - Math.max(begin, low);
    const sums = found[name === idle && length > 0 ? "rest" : "top"];
    const category = CATEGORIES[name] as number;
    const one = (sums[category] ??= { ns: 0, longest: -1, name });
    one.ns += part;
    if (part > one.longest) Object.assign(one, { longest: part, name });
  }
  return found;
}

/** Expects the color of a bin to be that of its category with the most time. */
function expectMost(row: RandomRow, idle: number, pyramid: Pyramid, bin: number): void {
  const low = pyramid.start_ns + bin * pyramid.binNs;
  const every = row.start.map((_, i) => i);
  const found = sumsOf(row, every, idle, low, low + pyramid.binNs);
  const sums = new CategorySums();
  sumBins(pyramid, bin, bin + 1, sums);
  for (const [kind, isIdle] of [["top", false], ["rest", true]] as const) {
    const name = sums.most(isIdle);
    const most = Math.max(-1, ...found[kind].flatMap((one) => (one ? [one.ns] : [])));
    if (most < 0) expect(name).toBe(NO_NAME);
    else expect(found[kind][CATEGORIES[name] as number]?.ns).toBe(most);
  }
}

/** Computes a server's tile of a row in plain loops. */
class SlowServer implements TileSource {
  readonly asked: string[] = [];
  fails = false;
  readonly late: (() => void)[] = [];
  isLate = false;

  constructor(
    private readonly rows: readonly RandomRow[],
    private readonly grid: TilesSpec,
    private readonly idle: number,
  ) {}

  async tile(level: number, index: number, rows: readonly number[], signal: AbortSignal): Promise<Uint8Array> {
    this.asked.push(`${level}/${index} ${rangesText(rows)}`);
    if (this.isLate) {
      await new Promise<void>((resolve, reject) => {
        this.late.push(resolve);
        signal.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
      });
    }
    if (this.fails) throw new Error("no answer");
    return this.encode(level, index, rows);
  }

  ask(): Promise<unknown> {
    return Promise.reject(new Error("not asked"));
  }
  events(): Promise<Uint8Array> {
    return Promise.reject(new Error("not asked"));
  }
  page(): Promise<string> {
    return Promise.resolve("");
  }

  state(): Promise<unknown> {
    return Promise.reject(new Error("not asked"));
  }

  private encode(level: number, index: number, rows: readonly number[]): Uint8Array {
    const binNs = 2 ** level;
    const start = this.grid.start_ns + index * BINS * binNs;
    const pieces = rows.map((row) => ({ row, inside: this.inside(row, start, start + BINS * binNs) }));
    const parts: Uint8Array[] = [];
    const size = (): number => parts.reduce((sum, part) => sum + part.length, 0);
    const told: object[] = [];
    const coarse: Piece[] = [];
    for (const { row, inside } of pieces) {
      const own = this.rows[row] as RandomRow;
      if (inside.length > MOST_EVENTS) {
        const wide = this.wide(own, inside, binNs).length;
        told.push({ row, bins: coarse.length, wide });
        coarse.push({ row, inside });
        continue;
      }
      if (inside.length === 0) {
        told.push({ row, first: 0, count: 0 });
        continue;
      }
      const pick = (values: readonly number[]): number[] => inside.map((i) => values[i] as number);
      const events = { start: pick(own.start), duration: pick(own.duration), name: pick(own.name) };
      const { spec, bytes } = encodePart(events, 0, size());
      parts.push(bytes);
      told.push({ row, first: inside[0], ...spec });
    }
    const head: Record<string, unknown> = { rows: told };
    if (coarse.length) {
      const columns = this.binColumns(coarse, start, binNs);
      head["bins"] = { offset: size(), count: coarse.length * BINS, columns: columns.map((one) => one.spec) };
      parts.push(...columns.map((one) => one.bytes));
      const wide = coarse.flatMap(({ row, inside }) => {
        const own = this.rows[row] as RandomRow;
        return this.wide(own, inside, binNs).map((i) => [
          (own.start[i] as number) - start,
          own.duration[i] as number,
          own.name[i] as number,
        ]);
      });
      const wideColumns = [
        encodeColumn("start", wide.map((one) => one[0] as number), "delta"),
        encodeColumn("duration", wide.map((one) => one[1] as number)),
        encodeColumn("name", wide.map((one) => one[2] as number)),
      ];
      head["wide"] = { offset: size(), count: wide.length, columns: wideColumns.map((one) => one.spec) };
      parts.push(...wideColumns.map((one) => one.bytes));
    }
    const text = new TextEncoder().encode(JSON.stringify(head));
    const length = new Uint8Array(4);
    new DataView(length.buffer).setUint32(0, text.length, true);
    return joinBytes([length, text, ...parts]);
  }

  private inside(row: number, start: number, end: number): number[] {
    const own = this.rows[row] as RandomRow;
    return own.start.flatMap((begin, i) => {
      const until = begin + (own.duration[i] as number);
      return begin < end && (until > start || begin >= start) ? [i] : [];
    });
  }

  private wide(own: RandomRow, inside: readonly number[], binNs: number): number[] {
    return inside.filter((i) => (own.duration[i] as number) >= 1.5 * binNs);
  }

  private binColumns(coarse: readonly Piece[], start: number, binNs: number) {
    const busy: number[] = [];
    const best = { top: [] as number[], rest: [] as number[] };
    const most = { top: [] as number[], rest: [] as number[] };
    for (const { row, inside } of coarse) {
      for (let bin = 0; bin < BINS; bin++) {
        const low = start + bin * binNs;
        const found = sumsOf(this.rows[row] as RandomRow, inside, this.idle, low, low + binNs);
        busy.push(found.top.reduce((sum, one) => sum + (one?.ns ?? 0), 0));
        for (const kind of ["top", "rest"] as const) {
          const first = found[kind].filter((one) => one !== undefined).sort((a, b) => b.ns - a.ns)[0];
          best[kind].push(first?.name ?? -1);
          most[kind].push(first?.ns ?? 0);
        }
      }
    }
    return [
      encodeColumn("busy", busy),
      encodeColumn("top", best.top, "optional"),
      encodeColumn("top_ns", most.top),
      encodeColumn("rest", best.rest, "optional"),
      encodeColumn("rest_ns", most.rest),
    ];
  }
}

const IDLE = 4;

interface Setup {
  readonly rows: readonly RandomRow[];
  readonly tiles: Tiles;
  readonly server: SlowServer;
  readonly end: number;
  readonly grid: TilesSpec;
  readonly errors: (string | null)[];
  readonly base: TileBase;
}

function setup(kind: "stream" | "state" = "stream", count = 900, many = 2): Setup {
  const rows = Array.from({ length: many }, (_, i) => randomRow(70 + i, count, kind));
  const end = Math.max(...rows.map((row) => endOf(row.events, count - 1)));
  const levels = Math.max(0, Math.ceil(Math.log2((end + 100) / BINS))) + 1;
  const grid = { bins: BINS, levels, start_ns: -100 };
  const specs = rows.map((_, i): RowSpec => ({
    ...{ id: `r${i}`, parent: null, label: `r${i}`, kind, count, parts: [] },
  }));
  const base = {
    ...{ rows: specs, bins: BINS, isIdle: Uint8Array.from([0, 0, 0, 0, 1]), categories: CATEGORIES },
    bounds: { start_ns: -100, end_ns: end, names: 5 },
  };
  const server = new SlowServer(rows, grid, kind === "state" ? IDLE : -1);
  const errors: (string | null)[] = [];
  const tiles = new Tiles(grid, base, server, () => undefined, (error) => errors.push(error?.message ?? null));
  return { rows, tiles, server, end, grid, errors, base };
}

/** Waits for all pending requests. */
async function settled(tiles: Tiles): Promise<void> {
  for (let i = 0; i < 200 && !tiles.isSettled; i++) await new Promise((resolve) => setTimeout(resolve));
}

function busyIn(row: RandomRow, isState: boolean, start: number, end: number): number {
  return row.start.reduce((sum, begin, i) => {
    if (isState && row.name[i] === IDLE) return sum;
    return sum + Math.max(0, Math.min(begin + (row.duration[i] as number), end) - Math.max(begin, start));
  }, 0);
}

describe("the level of a view", () => {
  const grid = { bins: 512, levels: 20, start_ns: -5 };

  it("has bins of at most a pixel, and no finer ones than it needs", () => {
    for (const [length, level] of [[1000, 0], [1999, 0], [2000, 1], [3999, 1], [4000, 2], [1e15, 19], [20, 0]]) {
      expect(viewOf({ start: 0, end: length as number }, 1000, grid, 1e9).level).toBe(level);
    }
  });

  it("names the tiles that the view reaches into, and none beyond the recording", () => {
    expect(viewOf({ start: -5, end: -5 + 512 }, 512, grid, 1e9)).toEqual({ level: 0, first: 0, last: 0 });
    expect(viewOf({ start: -4, end: -4 + 512 }, 512, grid, 1e9)).toEqual({ level: 0, first: 0, last: 1 });
    expect(viewOf({ start: 900, end: 1300 }, 400, grid, 1000)).toEqual({ level: 0, first: 1, last: 1 });
    expect(viewOf({ start: 5000, end: 5400 }, 400, grid, 1000)).toEqual({ level: 0, first: 1, last: 1 });
  });
});

describe.each(["stream", "state"] as const)("tiles of a %s", (kind) => {
  it("give the same busy time as the events, at every scale", async () => {
    const { rows, tiles, end } = setup(kind);
    await tiles.start();
    const width = 40;
    for (let length = end; length > 40; length /= 3) {
      for (const part of [0, 0.37, 0.9]) {
        const start = part * (end - length);
        const span = { start, end: start + length };
        tiles.want([0, 1], span, width);
        await settled(tiles);
        rows.forEach((row, place) => {
          const window = tiles.window(place, span, width);
          if (!window) throw new Error("nothing to draw");
          const { pyramid, events } = window;
          if (!pyramid) return;
          const bin = pyramid.binNs;
          for (let i = 0; i < pyramid.from.length - 1; i++) {
            const low = pyramid.start_ns + i * bin;
            const busy = pyramid.busy[i + 1] - pyramid.busy[i];
            expect(busy).toBeCloseTo(busyIn(row, kind === "state", low, low + bin), 3);
            const touches = row.start.some((begin, k) => {
              const until = begin + (row.duration[k] as number);
              return begin < low + bin && (until > low || begin >= low);
            });
            expect(pyramid.from[i + 1] > pyramid.from[i]).toBe(touches);
            expectMost(row, kind === "state" ? IDLE : -1, pyramid, i);
          }
          for (let i = 0; i < events.count; i++) expect(endOf(events, i) - events.start[i]).toBeGreaterThanOrEqual(1.5 * bin);
        });
      }
    }
  });

  it("draw what the events draw where all of them are known", async () => {
    const { rows, tiles, end } = setup(kind);
    await tiles.start();
    const width = 50;
    const [whole, cut] = [new RowPicture(), new RowPicture()];
    let exact = 0;
    for (let at = 0; at < end; at += end / 37) {
      const span = { start: at, end: at + end / 400 };
      tiles.want([0], span, width);
      await settled(tiles);
      const window = tiles.window(0, span, width);
      if (!window || window.pyramid) continue;
      exact++;
      const row = rows[0] as RandomRow;
      pictureRow(row.events, null, CATEGORIES, span, width, whole);
      pictureRow(window.events, null, CATEGORIES, span, width, cut);
      expect([...cut.share].map((one) => one.toFixed(5))).toEqual([...whole.share].map((one) => one.toFixed(5)));
      expect([...cut.top]).toEqual([...whole.top]);
      expect([...cut.rest]).toEqual([...whole.rest]);
      expect([...cut.rectStart.subarray(0, cut.rects)]).toEqual([...whole.rectStart.subarray(0, whole.rects)]);
      expect([...cut.rectEnd.subarray(0, cut.rects)]).toEqual([...whole.rectEnd.subarray(0, whole.rects)]);
    }
    expect(exact).toBeGreaterThan(5);
  });
});

describe("the cache of tiles", () => {
  it("asks for what is lacking once, then for the neighbours, and for nothing twice", async () => {
    const { tiles, server, end, grid } = setup();
    await tiles.start();
    expect(server.asked).toEqual([`${grid.levels - 1}/0 0-1`]);
    const span = { start: end * 0.4, end: end * 0.45 };
    tiles.want([1, 0, 1], span, BINS * 2);
    await settled(tiles);
    const view = viewOf(span, BINS * 2, grid, end);
    const first = server.asked.splice(0).slice(1);
    const tileCount = view.last - view.first + 1;
    expect(first).toEqual(Array.from({ length: tileCount }, (_, i) => `${view.level}/${view.first + i} 0-1`));
    tiles.want([0, 1], span, BINS * 2);
    await settled(tiles);
    expect(server.asked.splice(0)).toEqual([`${view.level}/${view.last + 1} 0-1`, `${view.level}/${view.first - 1} 0-1`]);
    tiles.want([0, 1], span, BINS * 2);
    await settled(tiles);
    expect(server.asked).toEqual([]);
  });

  it("draws a wider level until the finer one is there", async () => {
    const { tiles, server, end, rows } = setup();
    await tiles.start();
    server.isLate = true;
    const span = { start: end * 0.3, end: end * 0.34 };
    tiles.want([0], span, BINS);
    const before = tiles.window(0, span, BINS);
    const total = (window: typeof before): number => {
      const { pyramid } = window ?? {};
      if (!pyramid) return Number.NaN;
      return pyramid.busy[pyramid.from.length - 1];
    };
    const row = rows[0] as RandomRow;
    const [low, high] = [before?.pyramid?.start_ns ?? 0, (before?.pyramid?.start_ns ?? 0) + ((before?.pyramid?.from.length ?? 1) - 1) * (before?.pyramid?.binNs ?? 0)];
    expect(total(before)).toBeGreaterThan(0);
    for (const go of server.late.splice(0)) go();
    await settled(tiles);
    const after = tiles.window(0, span, BINS);
    expect(after).not.toBe(before);
    if (after?.pyramid) expect(total(after)).toBeCloseTo(busyIn(row, false, low, high), 3);
    expect(tiles.window(0, span, BINS)).toBe(after);
  });

  it("drops what an earlier view lacked", async () => {
    const { tiles, server, end, grid } = setup("stream", 900, 2);
    await tiles.start();
    server.isLate = true;
    const [one, other] = [{ start: 0, end: end / 50 }, { start: end * 0.8, end: end * 0.82 }];
    tiles.want([0], one, BINS * 8);
    const early = [...server.asked];
    tiles.want([0], other, BINS * 8);
    for (let i = 0; i < 30; i++) {
      for (const go of server.late.splice(0)) go();
      await new Promise((resolve) => setTimeout(resolve));
    }
    const late = server.asked.slice(early.length);
    const view = viewOf(other, BINS * 8, grid, end);
    for (const asked of late) {
      const index = Number(asked.split(/[/ ]/)[1]);
      expect(index).toBeGreaterThanOrEqual(view.first - 1);
      expect(index).toBeLessThanOrEqual(view.last + 1);
    }
    expect(late.length).toBeGreaterThan(0);
  });

  it("says what fails, rests, and asks again", async () => {
    const { tiles, server, end, errors } = setup();
    await tiles.start();
    server.fails = true;
    const span = { start: 0, end: end / 9 };
    tiles.want([0], span, BINS);
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(errors.at(-1)).toBe("no answer");
    expect(tiles.isSettled).toBe(false);
    const asked = server.asked.length;
    tiles.want([0], span, BINS);
    expect(server.asked.length).toBe(asked);
    server.fails = false;
    await new Promise((resolve) => setTimeout(resolve, 1100));
    tiles.want([0], span, BINS);
    await settled(tiles);
    expect(errors.at(-1)).toBeNull();
  });

  it("refuses a tile that was cut or tells of rows that there are not", async () => {
    const { server, grid, base } = setup();
    const bytes = await server.tile(grid.levels - 1, 0, [0, 1], new AbortController().signal);
    expect(decodeTile(bytes, grid.start_ns, base).size).toBe(2);
    expect(() => decodeTile(bytes.subarray(0, 3), grid.start_ns, base)).toThrow("truncated");
    expect(() => decodeTile(bytes.subarray(0, 20), grid.start_ns, base)).toThrow("truncated");
    expect(() => decodeTile(bytes.subarray(0, bytes.length - 9), grid.start_ns, base)).toThrow("exceeds");
    const few = { ...base, rows: base.rows.slice(0, 1) };
    const fine = await server.tile(0, 0, [0, 1], new AbortController().signal);
    expect(() => decodeTile(fine, grid.start_ns, few)).toThrow("row");
  });
});

it("writes ranges and bits as the server reads them", () => {
  expect(rangesText([0, 1, 2, 5, 7, 8])).toBe("0-2,5,7-8");
  expect(rangesText([3])).toBe("3");
  expect(atob(bitsText(Uint8Array.from([1, 0, 1, 0, 0, 0, 0, 0, 1])))).toBe("\x05\x01");
});
