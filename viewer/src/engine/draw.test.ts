import { describe, expect, it } from "vitest";
import { encodeContainer } from "../../dev/encode";
import { recordingPen, recordingSurface } from "../../dev/pen";
import { seeded } from "../../dev/random";
import { contrast, fromHex, luminance } from "../base/colour";
import { averages, averagesOfBins, binsOf, type CounterBins } from "../data/counter-bins";
import { meansIn } from "../data/counter-means";
import type { Events } from "../data/events";
import { plainText, searchPattern } from "../base/text";
import { axisText, boundsText, clockText, counterText, countText, instantText, plural, shareText, timeText, valueText } from "../base/units";
import { startDecoders } from "../data/decoders";
import type { Category, RowSpec } from "../data/head";
import { Recording } from "../data/recording";
import { drawCounter } from "./counter";
import { Painter, RULER_HEIGHT, type Scene, visibleRows } from "./draw";
import { fittedLabel } from "./labels";
import { layoutRows, rowTree } from "./layout";
import { chooseInks, type ColourMode, THEMES } from "./theme";

const CATEGORIES: Category[] = [
  { name: "gemm", kind: "busy", meaning: "" },
  { name: "launch-bound", kind: "idle", meaning: "" },
  { name: "nvtx", kind: "range", meaning: "" },
];
const NAMES = [
  ["a_kernel_with_a_very_long_name_that_no_rectangle_holds", 0],
  ["launch-bound", 1],
  ["forward\u202epass", 2],
] as const;

async function scene(change: Partial<Scene> = {}): Promise<Scene> {
  const container = encodeContainer(
    { start_ns: 0, end_ns: 1000, categories: CATEGORIES, tables: ["kernel"] },
    NAMES,
    [
      { id: "g", parent: null, label: "GPU", kind: "group" },
      {
        id: "g/b",
        parent: "g",
        label: "busy",
        kind: "state",
        events: { start: [0, 400, 800], duration: [400, 400, 200], name: [0, 1, 0] },
      },
      {
        id: "g/r",
        parent: "g",
        label: "ranges",
        kind: "range",
        events: { start: [100, 102, 104], duration: [1, 1, 800], name: [2, 2, 2] },
      },
    ],
  );
  const blocks = { get: (i: number) => Promise.resolve(container.blocks[i] as Uint8Array) };
  const recording = new Recording(container.head, blocks, startDecoders("", 0));
  await recording.loadOverview();
  await recording.loadNames();
  await recording.loadEvents(() => undefined);
  const theme = THEMES.dark;
  const tree = rowTree(container.head.rows);
  return {
    head: container.head,
    rows: recording.rows,
    names: recording.names,
    overview: recording.overview,
    inks: chooseInks(recording.names, CATEGORIES, { theme, mode: "category", lit: null }),
    theme,
    layout: layoutRows(tree, { collapsed: new Set(), hidden: new Set(), pinned: [] }),
    scrollTop: 0,
    span: { start: 0, end: 1000 },
    width: 500,
    height: 300,
    pixelRatio: 1,
    anchor: 0,
    selected: null,
    hovered: null,
    area: null,
    measure: null,
    hits: null,
    windows: [],
    windowRows: null,
    arrows: [],
    bookmarks: [],
    ...change,
  };
}

describe("the doubt about a clock", () => {
  const draw = async (error: number | null) => {
    const base = await scene();
    const rows = base.head.rows.map((row, at) => (at === 0 ? { ...row, clock_error_ns: error } : row));
    const { pen, calls } = recordingPen();
    new Painter(recordingSurface()).draw(pen, { ...base, head: { ...base.head, rows } });
    return { calls, width: base.width };
  };

  it("is a bar on the scale of the view, and a number", async () => {
    const { calls, width } = await draw(50);
    expect(calls.some((call) => call.name === "fillText" && call.values[0] === "clock ±50 ns relative to the first file's")).toBe(true);
    const wide = (2 * 50 * width) / 1000;
    expect(calls.some((call) => call.name === "fillRect" && call.values[2] === wide && call.values[3] === 1)).toBe(true);
  });

  it("never leaves the row, and is nothing where nothing is known", async () => {
    const { calls, width } = await draw(10_000);
    const bars = calls.filter((call) => call.name === "fillRect" && call.values[3] === 1);
    for (const bar of bars) expect(Number(bar.values[0]) + Number(bar.values[2])).toBeLessThanOrEqual(width);
    const none = await draw(null);
    expect(none.calls.some((call) => call.name === "fillText" && String(call.values[0]).includes("clock"))).toBe(false);
  });
});

describe("a frame", () => {
  it("draws every wide event as a rectangle in its row, and idle time hatched by cause", async () => {
    const { pen, calls } = recordingPen();
    const cost = new Painter(recordingSurface()).draw(pen, await scene());
    expect(cost).toMatchObject({ rows: 3, rects: 4 });
    const state = { top: RULER_HEIGHT + 22 + 1, height: 24 };
    const fills = calls.filter((call) => call.name === "fillRect" && call.values[1] === state.top);
    expect(fills.map((call) => call.values)).toContainEqual([0, 23 + 24, 199, 24]);
    const hatched = fills.filter((call) => call.fill === "hatch:rising");
    expect(hatched.map((call) => call.values)).toEqual([[200, 47, 199, 24]]);
  });

  it("keeps every name inside its rectangle and shows what turns text around", async () => {
    const { pen, calls } = recordingPen();
    new Painter(recordingSurface()).draw(pen, await scene({ width: 160 }));
    const texts = calls.filter((call) => call.name === "fillText" && call.values[3] !== undefined);
    expect(texts.length).toBeGreaterThan(0);
    for (const { values } of texts) {
      const [text, x, , room] = values as [string, number, number, number];
      expect(text).not.toMatch(/\u202e/);
      expect(text.length * 6).toBeLessThanOrEqual(room);
      expect(x + room).toBeLessThanOrEqual(160);
    }
  });

  it("draws the overview until the events are there", async () => {
    const surface = recordingSurface();
    const full = await scene();
    const rows = full.rows.map(() => ({ events: null, pyramid: null, error: null }));
    const cost = new Painter(surface).draw(recordingPen().pen, { ...full, rows });
    expect(cost.rects).toBe(0);
    expect(surface.strips[0]?.pixels.some((pixel) => pixel !== 0)).toBe(true);
  });

  it("draws selection, arrows, findings, bookmarks and measures without events in view", async () => {
    const { pen, calls } = recordingPen();
    const event = { id: "", name: 0, table: null, tableRow: null, links: {} };
    const place = { ...event, row: 1, event: 0, start: 0, end: 400 };
    const other = { ...event, row: 2, event: 2, start: 104, end: 904 };
    new Painter(recordingSurface()).draw(
      pen,
      await scene({
        span: { start: 990, end: 1000 },
        selected: place,
        hovered: place,
        area: { span: { start: 5, end: 995 }, rows: new Set([1]) },
        measure: { start: 1, end: 999 },
        windows: [{ start: 0, end: 10 }],
        arrows: [{ from: place, to: other, isQueue: true }],
        bookmarks: [{ time: 995, text: "here" }],
      }),
    );
    for (const { name, values } of calls) {
      if (name !== "fillRect") continue;
      expect(values.every((value) => Number.isFinite(value))).toBe(true);
    }
    expect(calls.some((call) => call.name === "bezierCurveTo")).toBe(true);
  });

  it.each([1, 1.5, 2])("puts edges on pixels of a screen with %d pixels per unit", async (pixelRatio) => {
    const { pen, calls } = recordingPen();
    const span = { start: 333.3, end: 933.7 };
    new Painter(recordingSurface()).draw(pen, await scene({ pixelRatio, span }));
    const fills = calls.filter((call) => call.name === "fillRect" && call.values[1] === RULER_HEIGHT + 23);
    const edge = (time: number): number => ((time - span.start) / (span.end - span.start)) * 500;
    const [busy] = fills.filter((call) => call.values[0] === Math.round(edge(800) * pixelRatio) / pixelRatio);
    expect(busy).toBeDefined();
    for (const { values } of fills) {
      const [x, , width] = values as [number, number, number];
      for (const place of [x, x + width]) {
        expect(Math.abs(place * pixelRatio - Math.round(place * pixelRatio))).toBeLessThan(1e-9);
      }
      const times = [0, 400, 800, 1000].map(edge);
      const nearest = Math.min(...times.map((one) => Math.abs(one - x)), x <= 0 ? 0 : 9);
      expect(nearest).toBeLessThanOrEqual(0.5 / pixelRatio + 1e-9);
    }
  });

  it("shows a pixel as full as it is busy, whatever is drawn before", async () => {
    const surface = recordingSurface();
    const painter = new Painter(surface);
    const full = await scene({ width: 10 });
    painter.draw(recordingPen().pen, full);
    const strip = surface.strips.at(-1);
    const lines = 8;
    const filled = (row: number, x: number): number => {
      const column = Array.from({ length: lines }, (_, i) => strip?.pixels[(row * lines + i) * 10 + x] ?? 0);
      return column.filter((pixel) => pixel !== 0).length;
    };
    const share = (1 + 1 + 96) / 100; // of the pixel from 100 to 200 ns: two short ranges and the long one
    expect(filled(2, 1)).toBe(Math.round(share * lines));
    expect(filled(2, 0)).toBe(0);
  });

  it("shows instants, which have no length, as ticks of full height", async () => {
    const surface = recordingSurface();
    const base = await scene({ width: 10, span: { start: 0, end: 10_000 } });
    const rows = base.head.rows.map((row) => (row.id === "g/r" ? { ...row, kind: "mark" as const } : row));
    new Painter(surface).draw(recordingPen().pen, { ...base, head: { ...base.head, rows } });
    const strip = surface.strips.at(-1);
    const column = Array.from({ length: 8 }, (_, line) => strip?.pixels[(2 * 8 + line) * 10] ?? 0);
    expect(new Set(column).size).toBe(1);
    expect(column[0]).not.toBe(0);
  });

  it("visits only rows on the screen", async () => {
    const full = await scene();
    expect(visibleRows({ ...full, scrollTop: 23 }).scrolled.map((one) => one.placed.row)).toEqual([1, 2]);
    expect(visibleRows({ ...full, height: RULER_HEIGHT + 5 }).scrolled).toHaveLength(1);
  });
});

describe("colours", () => {
  const texts = Array.from({ length: 300 }, (_, i) => `kernel ${i}`);

  it.each(["dark", "light"] as const)("give every fill readable text (%s)", (name) => {
    const categories = texts.map((_, i) => i % 3);
    for (const mode of ["category", "name", "cause"] as ColourMode[]) {
      const choice = { theme: THEMES[name], mode, lit: null };
      const { inks, of } = chooseInks({ texts, categories }, CATEGORIES, choice);
      expect(Math.max(...of)).toBeLessThan(inks.length);
      for (const ink of inks) {
        const text = ink.text.match(/\d+/g)?.map(Number) as unknown as [number, number, number];
        expect(contrast(text, ink.colour)).toBeGreaterThanOrEqual(4.5);
      }
    }
    const { text, faintText, background } = THEMES[name];
    expect(contrast(fromHex(text), background)).toBeGreaterThanOrEqual(7);
    expect(contrast(fromHex(faintText), background)).toBeGreaterThanOrEqual(4.5);
  });

  it("fade what is not lit", () => {
    const lit = Uint8Array.from(texts, (_, i) => (i === 7 ? 1 : 0));
    const choice = { theme: THEMES.dark, mode: "category" as const, lit };
    const { of } = chooseInks({ texts, categories: texts.map(() => 0) }, CATEGORIES, choice);
    expect(new Set(of).size).toBe(2);
    expect([...of].filter((ink) => ink === of[7])).toHaveLength(1);
  });

  it("follow the formula of WCAG", () => {
    expect(luminance([255, 255, 255])).toBeCloseTo(1);
    expect(contrast([0, 0, 0], [255, 255, 255])).toBeCloseTo(21);
    expect(contrast([119, 119, 119], [255, 255, 255])).toBeCloseTo(4.48, 2);
  });
});

describe("counters", () => {
  it("give the mean over time and the maximum of every pixel", () => {
    const random = seeded(9);
    const start = Float64Array.from({ length: 200 }, (_, i) => i * 10 + Math.floor(random() * 10));
    const value = Float64Array.from(start, () => Math.floor(random() * 100));
    const none = new Float64Array(201);
    const events = {
      count: 200,
      start,
      before: none,
      busy: none,
      name: new Uint32Array(200),
      row: null,
      table: null,
      value,
      links: new Map(),
    };
    const { mean, least, most } = averages(events, { start: 0, end: 2000 }, 40);
    for (let pixel = 1; pixel < 40; pixel++) {
      let sum = 0;
      let high = 0;
      let low = 1000;
      for (let ns = pixel * 50; ns < pixel * 50 + 50; ns++) {
        const now = value[start.findLastIndex((at) => at <= ns)] as number;
        sum += now;
        high = Math.max(high, now);
        low = Math.min(low, now);
      }
      expect(mean[pixel]).toBeCloseTo(sum / 50, 3);
      expect(most[pixel]).toBe(high);
      expect(least[pixel]).toBe(low);
    }
  });

  it("have gaps where samples are missing, and means over the rest", () => {
    const events = samples([[0, 10], [100, Number.NaN], [150, 30], [250, Number.NaN]]);
    const { mean, most } = averages(events, { start: 0, end: 400 }, 4);
    expect([...mean]).toEqual([10, 30, 30, Number.NaN]);
    expect([...most]).toEqual([10, 30, 30, Number.NaN]);
    const wide = averages(events, { start: 0, end: 400 }, 1);
    expect([wide.mean[0], wide.least[0], wide.most[0]]).toEqual([20, 10, 30]);
  });

  it("keep the extremes of joined samples, also in bins", () => {
    const many = 70_000;
    const joined = samples(Array.from({ length: many }, (_, i) => [i * 10, 5] as const));
    const least = new Float64Array(many).fill(4);
    const most = new Float64Array(many).fill(6);
    least[35_000] = 1;
    most[20_000] = 9;
    const span = { start: 0, end: many * 10 };
    const events = { ...joined, least, most };
    for (const picture of [averages(events, span, 3), averagesOfBins(binsOf(events, span) as CounterBins, span, 3)]) {
      expect([...picture.mean].map((value) => Math.round(value * 1e6) / 1e6)).toEqual([5, 5, 5]);
      expect([...picture.least]).toEqual([4, 1, 4]);
      expect([...picture.most]).toEqual([9, 6, 6]);
    }
    expect(binsOf(samples([[0, 1]]), span)).toBeNull();
  });
});

/** Returns events with values, of start and value. */
function samples(all: readonly (readonly [number, number])[]): Events {
  const none = new Float64Array(all.length + 1);
  return {
    ...{ count: all.length, before: none, busy: none, name: new Uint32Array(all.length) },
    ...{ start: Float64Array.from(all, ([start]) => start), value: Float64Array.from(all, ([, value]) => value) },
    ...{ row: null, table: null, links: new Map() },
  };
}

describe("the mean of a counter in a time range", () => {
  it("is over the time that has values, with parts of samples at the edges", () => {
    const events = samples([[0, 10], [100, Number.NaN], [150, 30], [250, Number.NaN]]);
    expect(meansIn(events, { start: 50, end: 200 })).toEqual({ low: 20, high: 20, least: 10, most: 30, covered_ns: 100 });
    expect(meansIn(events, { start: 110, end: 140 })).toBeNull();
    expect(meansIn(events, { start: 250, end: 400 })).toBeNull();
  });

  it("is between bounds if a mean of several samples is cut", () => {
    const events = { ...samples([[0, 6], [100, Number.NaN]]), least: Float64Array.of(2, Number.NaN), most: Float64Array.of(10, Number.NaN) };
    expect(meansIn(events, { start: -5, end: 300 })).toEqual({ low: 6, high: 6, least: 2, most: 10, covered_ns: 100 });
    // The half outside has 2 to 10 on average, so the half inside has the rest of 12.
    expect(meansIn(events, { start: 0, end: 50 })).toEqual({ low: 2, high: 10, least: 2, most: 10, covered_ns: 50 });
    const tenth = meansIn(events, { start: 0, end: 90 });
    expect(tenth?.low).toBeCloseTo((600 - 100) / 90);
    expect(tenth?.high).toBeCloseTo((600 - 20) / 90);
  });
});

describe("a drawn counter", () => {
  const room = { width: 300, top: 0, height: 40, colour: "line", text: "text", background: "back" };
  const spec = (min: number, max: number): RowSpec => ({
    ...{ id: "c", parent: null, label: "c", kind: "counter", count: 1, parts: [], unit: "bytes", min, max },
  });
  const drawn = (values: readonly number[], min: number, max: number) => {
    const { pen, calls } = recordingPen();
    const mean = Float64Array.from({ length: 300 }, (_, x) => values[Math.floor((x * values.length) / 300)] as number);
    drawCounter(pen, { mean, least: mean, most: mean }, spec(min, max), room);
    const rects = calls.filter((call) => call.name === "fillRect").map((call) => call.values as number[]);
    return { rects, texts: calls.filter((call) => call.name === "fillText") };
  };

  it("is a thin line where the value is constant", () => {
    const { rects, texts } = drawn([4096], 4096, 4096);
    expect(rects).toHaveLength(1);
    expect(rects[0]?.[2]).toBe(300);
    expect(rects[0]?.[3]).toBeLessThanOrEqual(2);
    expect(texts).toEqual([]);
  });

  it("stands on an axis from 0 to the highest value, and names the peak in view", () => {
    const { rects, texts } = drawn([1024, 2048, 512], 512, 4096);
    const isAt = (x: number, [from, , wide]: readonly number[]): boolean => x >= (from as number) && x < (from as number) + (wide as number);
    const tall = (x: number): number => 40 - Math.min(...rects.filter((rect) => isAt(x, rect)).map(([, y]) => y as number));
    for (const [x, value] of [[30, 1024], [150, 2048], [270, 512]] as const) {
      expect(tall(x)).toBeCloseTo((value / 4096) * 38.5 + 1.5, 5);
    }
    expect(texts.map((call) => call.values[0])).toEqual(["peak 2.00 KiB"]);
    expect(texts[0]?.values[1]).toBeGreaterThan(100); // beside the first pixel that has it
    expect(texts[0]?.values[1]).toBeLessThan(112);
  });
});

describe("texts", () => {
  it("cut names to their room", () => {
    expect(fittedLabel("gemm", 100, 24)).toBe("gemm");
    expect(fittedLabel("abcdefghij", 36, 60)).toBe("abcde…");
    expect(fittedLabel("abcdefghij", 12, 60)).toBe("");
  });

  it("show control characters and take broken patterns for text", () => {
    expect(plainText("a\u0000b\u202ec")).toBe("a\\u0000b\\u202ec");
    expect(searchPattern("gemm_(")?.test("GEMM_(x")).toBe(true);
    expect(searchPattern("/^gemm$/")?.test("GEMM")).toBe(false);
    expect(searchPattern("")).toBeNull();
  });

  it("write numbers with units", () => {
    expect([0, 41, 41_240, 1.5e6, -2e9].map(timeText)).toEqual(["0 ns", "41 ns", "41.2 us", "1.50 ms", "-2.00 s"]);
    expect([999_499, 999_600, 99_950_000, 12.5].map(timeText)).toEqual(["999 us", "1.00 ms", "100 ms", "12.5 ns"]);
    expect(instantText(1_234_567, 1000)).toBe("1.235 ms");
    expect(instantText(1_234_567, 1)).toBe("1234.567 us");
    const ruler = [-500_000, 0, 1_000_000].map((ns) => instantText(ns, 500_000, 2e6));
    expect(ruler).toEqual(["-0.5 ms", "0.0 ms", "1.0 ms"]);
    expect([1000, 1].map((step) => clockText(62_282_543, step))).toEqual(["62.283 ms", "62.282543 ms"]);
    expect(clockText(-500, 1, 7_414_949_453)).toBe("-0.000000500 s");
    expect([0, 1, 2, 1234].map((count) => plural(count, "finding"))).toEqual(["0 findings", "1 finding", "2 findings", "1,234 findings"]);
    expect(plural(2, "category", "categories")).toBe("2 categories");
    expect([valueText(1234567, "id"), valueText(1234567, "none"), valueText(1234567, "count")]).toEqual(["1234567", "1234567", "1,234,567"]);
    expect(boundsText(0.989, 0.992, shareText)).toBe("98.9 to 99.2%");
    expect(boundsText(0.9891, 0.98912, shareText)).toBe("98.9%");
    expect(boundsText(900e3, 1.5e6, timeText)).toBe("900 us to 1.50 ms");
    expect(boundsText(12, Number.POSITIVE_INFINITY, countText)).toBe("≥ 12");
    expect(shareText(0.7134)).toBe("71.3%");
    expect([counterText(73.25, "percent"), counterText(1.605e9, "hz"), counterText(351.6, "w")]).toEqual(["73.3%", "1,605 MHz", "352 W"]);
    const ends = [[100, "percent"], [80 * 2 ** 30, "bytes"], [2.5e9, "bytes_per_s"], [1e9, "bytes_per_s"], [60, "c"], [0, "hz"], [200, "none"]];
    const texts = ["100%", "80 GiB", "2.5 GB/s", "1 GB/s", "60 °C", "0 MHz", "200"];
    expect(ends.map(([value, unit]) => axisText(value as number, unit as string))).toEqual(texts);
    expect(countText(1234567)).toBe("1,234,567");
  });
});
