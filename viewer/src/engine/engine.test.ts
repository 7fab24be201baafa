import { describe, expect, it } from "vitest";
import { CATEGORIES, randomRow, type RandomRow } from "../../dev/events";
import { seeded } from "../../dev/random";
import { endOf } from "../data/events";
import type { RowSpec } from "../data/head";
import { NO_NAME } from "../data/category-bins";
import { buildPyramid } from "../data/pyramid";
import { eventAt } from "./hit";
import { filled, type LayoutState, layoutRows, rowAt, rowTree } from "./layout";
import { pictureRow, RowPicture, WIDE_PX } from "./lod";
import { tickStep, ticks } from "./ruler";
import { rowTotals, totalsByName } from "../data/selection";
import {
  clampSpan,
  fitSpan,
  goneBack,
  goneForward,
  remembered,
  revealSpan,
  type Span,
  zoomAt,
} from "./view";

function inside(row: RandomRow, i: number, span: Span): number {
  const start = row.start[i] as number;
  const end = start + (row.duration[i] as number);
  return Math.max(0, Math.min(end, span.end) - Math.max(start, span.start));
}

function touches(row: RandomRow, i: number, span: Span): boolean {
  const start = row.start[i] as number;
  const end = start + (row.duration[i] as number);
  return start < span.end && (end > span.start || start >= span.start);
}

function slowBusy(row: RandomRow, span: Span, counts: (name: number) => boolean): number {
  return row.start.reduce(
    (sum, _, i) => sum + (counts(row.name[i] as number) ? inside(row, i, span) : 0),
    0,
  );
}

function someSpans(random: () => number, end: number, many: number): Span[] {
  return Array.from({ length: many }, () => {
    const length = Math.max(30, end * 10 ** (-4 * random()));
    const start = random() * (end - length);
    return { start: Math.floor(start), end: Math.floor(start + length) };
  });
}

describe.each(["stream", "state"] as const)("level of detail of a %s", (kind) => {
  const counts = (name: number): boolean => kind === "stream" || name !== 4;

  it.each([11, 12, 13])("gives every pixel the exact busy share (seed %i)", (seed) => {
    const random = seeded(seed);
    const row = randomRow(seed, 1000, kind);
    const picture = new RowPicture();
    const width = 200;
    for (const span of someSpans(random, endOf(row.events, 999), 8)) {
      pictureRow(row.events, null, CATEGORIES, span, width, picture);
      const pixelNs = (span.end - span.start) / width;
      const wide = new Set(picture.rectEvent.subarray(0, picture.rects));
      for (let pixel = 0; pixel < width; pixel++) {
        const one = { start: span.start + pixel * pixelNs, end: span.start + (pixel + 1) * pixelNs };
        const small = row.start.flatMap((start, i) => {
          const end = start + (row.duration[i] as number);
          return start < one.end && end > one.start && !wide.has(i) ? [i] : [];
        });
        if (small.length === 0) continue;
        const expected = slowBusy(row, one, counts) / pixelNs;
        expect(picture.share[pixel]).toBeCloseTo(expected, 4);
        const names = small.map((i) => row.name[i]);
        for (const name of [picture.top[pixel], picture.rest[pixel]]) {
          if (name !== NO_NAME) expect(names).toContain(name);
        }
      }
    }
  });

  it("draws every wide event once and no other as a rectangle", () => {
    const random = seeded(5);
    const row = randomRow(5, 3000, kind);
    const picture = new RowPicture();
    for (const span of someSpans(random, endOf(row.events, 2999), 40)) {
      pictureRow(row.events, null, CATEGORIES, span, 300, picture);
      const least = (WIDE_PX * (span.end - span.start)) / 300;
      const wanted = row.duration.flatMap((length, i) =>
        length >= least && touches(row, i, span) ? [i] : [],
      );
      expect([...picture.rectEvent.subarray(0, picture.rects)]).toEqual(wanted);
    }
  });

  it("sums to the row's busy time from the pyramid, and shows what is wide there", () => {
    const row = randomRow(21, 30_000, kind);
    const end = endOf(row.events, 29_999);
    const pyramid = buildPyramid(row.events, 0, end, CATEGORIES);
    const picture = new RowPicture();
    for (const span of [{ start: 0, end }, { start: end * 0.25, end: end * 0.6 }]) {
      pictureRow(row.events, pyramid, CATEGORIES, span, 640, picture);
      const pixelNs = (span.end - span.start) / 640;
      const sum = picture.share.reduce((total, share) => total + share * pixelNs, 0);
      const exact = slowBusy(row, span, counts);
      expect(Math.abs(sum - exact)).toBeLessThan(exact * 1e-3);
      const wanted = row.duration.flatMap((length, i) =>
        length >= WIDE_PX * pixelNs && touches(row, i, span) ? [i] : [],
      );
      expect([...picture.rectEvent.subarray(0, picture.rects)]).toEqual(wanted);
    }
  });
});

describe("the statistics of a selection", () => {
  it.each([31, 32])("equal a sum over all events (seed %i)", (seed) => {
    const random = seeded(seed);
    const row = randomRow(seed, 500);
    for (const span of someSpans(random, endOf(row.events, 499), 60)) {
      const totals = rowTotals(row.events, span);
      expect(totals.busy_ns).toBe(slowBusy(row, span, () => true));
      expect(totals.last - totals.first).toBe(row.start.filter((_, i) => touches(row, i, span)).length);
      const byName = totalsByName([row.events, row.events], span, 5);
      for (let name = 0; name < 5; name++) {
        const found = byName.find((one) => one.name === name);
        expect(found?.ns ?? 0).toBe(2 * slowBusy(row, span, (other) => other === name));
        const count = row.start.filter((_, i) => touches(row, i, span) && row.name[i] === name).length;
        expect(found?.count ?? 0).toBe(2 * count);
      }
      const lengths = byName.map((one) => one.ns);
      expect(lengths).toEqual([...lengths].sort((a, b) => b - a));
    }
  });

  it("counts an event once where selections meet", () => {
    const row = randomRow(40, 400);
    const end = endOf(row.events, 399) + 1;
    const cuts = [0, end / 3, end / 2, end].map(Math.floor);
    const parts = cuts.slice(1).map((cut, i) => ({ start: cuts[i] as number, end: cut }));
    const sum = parts.reduce((total, span) => total + rowTotals(row.events, span).busy_ns, 0);
    expect(sum).toBe(row.duration.reduce((total, length) => total + length, 0));
  });
});

describe("the hit test", () => {
  it("finds what covers the pointer, or the nearest in reach", () => {
    const row = randomRow(51, 400);
    const span = { start: 0, end: endOf(row.events, 399) };
    const random = seeded(3);
    for (let k = 0; k < 400; k++) {
      const x = random() * 1000;
      const time = (x / 1000) * span.end;
      const covering = row.start.findIndex(
        (start, i) => start <= time && time < start + (row.duration[i] as number),
      );
      const hit = eventAt(row.events, span, 1000, x);
      if (covering >= 0) expect(hit).toBe(covering);
      else if (hit !== null) {
        const start = row.start[hit] as number;
        const end = start + (row.duration[hit] as number);
        expect(Math.max(start - time, time - end)).toBeLessThanOrEqual((3 * span.end) / 1000);
      }
    }
  });
});

describe("the view", () => {
  const limits = { start: -500, end: 9500 };

  it("keeps the time under the pointer while it zooms", () => {
    const view = zoomAt({ start: 1000, end: 2000 }, 1250, 0.5, limits);
    expect(view).toEqual({ start: 1125, end: 1625 });
  });

  it("stays inside the recording and above its least length", () => {
    expect(clampSpan({ start: -9000, end: -8000 }, limits)).toEqual({ start: -500, end: 500 });
    expect(clampSpan({ start: 9000, end: 99_000 }, limits)).toEqual(limits);
    const closest = zoomAt({ start: 0, end: 30 }, 10, 1e-9, limits);
    expect(closest.end - closest.start).toBe(20);
    expect(zoomAt(limits, 100, 50, limits)).toEqual(limits);
  });

  it("shows what is asked for", () => {
    expect(fitSpan({ start: 1000, end: 2000 }, limits)).toEqual({ start: 900, end: 2100 });
    const now = { start: 0, end: 1000 };
    expect(revealSpan(now, { start: 5000, end: 5100 }, limits)).toEqual({ start: 4550, end: 5550 });
    expect(revealSpan(now, { start: 100, end: 200 }, limits)).toBe(now);
  });

  it("goes back and forward", () => {
    const [a, b] = [{ start: 0, end: 10 }, { start: 5, end: 6 }];
    const history = remembered({ past: [], future: [] }, a);
    const [after, view] = goneBack(history, b);
    expect(view).toBe(a);
    expect(goneForward(after, a)[1]).toBe(b);
    expect(goneBack(after, a)[1]).toBe(a);
  });
});

describe("the ruler", () => {
  it("has round steps and marks inside the view", () => {
    const span = { start: 130, end: 1130 };
    const step = tickStep(span, 1000);
    expect(step).toBe(200);
    expect(ticks(span, step, 0)).toEqual([200, 400, 600, 800, 1000]);
    expect(ticks(span, step, 150)).toEqual([150, 350, 550, 750, 950]);
    expect(tickStep({ start: 0, end: 20 }, 1000)).toBeGreaterThanOrEqual(1);
  });
});

describe("the layout", () => {
  const row = (id: string, parent: string | null, kind: RowSpec["kind"], busy = 0): RowSpec => ({
    id,
    parent,
    label: id,
    kind,
    count: 0,
    busy_ns: busy,
    parts: [],
  });
  const tree = rowTree([
    row("g", null, "group"),
    row("g/a", "g", "stream", 5),
    row("g/b", "g", "stream", 9),
    row("h", null, "group"),
    row("h/x", "h", "group"),
    row("h/x/y", "h/x", "api"),
  ]);
  const state = (collapsed: string[], hidden: string[] = [], pinned: string[] = []): LayoutState => ({
    collapsed: new Set(collapsed),
    hidden: new Set(hidden),
    pinned,
  });
  const ids = (layout: ReturnType<typeof layoutRows>): string[] =>
    layout.scrolled.map((one) => tree.rows[one.row]?.id ?? "");

  it("leaves out what is collapsed, hidden or pinned elsewhere", () => {
    expect(ids(layoutRows(tree, state([])))).toEqual(["g", "g/a", "g/b", "h", "h/x", "h/x/y"]);
    expect(ids(layoutRows(tree, state(["g", "h"])))).toEqual(["g", "h"]);
    expect(ids(layoutRows(tree, state([], ["h"])))).toEqual(["g", "g/a", "g/b"]);
    const pinned = layoutRows(tree, state([], [], ["g/b"]));
    expect(ids(pinned)).not.toContain("g/b");
    expect(pinned.pinned.map((one) => one.row)).toEqual([2]);
  });

  it("shows the busiest row in a collapsed group", () => {
    expect(layoutRows(tree, state(["g"])).scrolled[0]?.shows).toBe(2);
    expect(layoutRows(tree, state([])).scrolled[0]?.shows).toBeNull();
  });

  it("fills the height with rows up to twice as high, without gaps", () => {
    const layout = layoutRows(tree, state([], [], ["g/b"]));
    const natural = layout.pinnedHeight + layout.scrolledHeight;
    expect(filled(layout, natural)).toBe(layout);
    for (const height of [natural + 30, natural + 5000]) {
      const grown = filled(layout, height);
      const all = grown.pinnedHeight + grown.scrolledHeight;
      expect(all).toBeLessThanOrEqual(height);
      if (height < natural + 100) expect(all).toBeGreaterThan(height - layout.scrolled.length - 1);
      let y = 0;
      for (const [i, one] of grown.scrolled.entries()) {
        const before = layout.scrolled[i]?.height ?? 0;
        expect(one.y).toBe(y);
        y += one.height;
        expect(one.height).toBeGreaterThanOrEqual(before);
        expect(one.height).toBeLessThanOrEqual(one.hasChildren ? before : 2 * before);
      }
    }
  });

  it("finds the row at a height, with rows pinned and scrolled", () => {
    const layout = layoutRows(tree, state([], [], ["g/b"]));
    expect(rowAt(layout, 5, 0)?.row).toBe(2);
    expect(rowAt(layout, layout.pinnedHeight + 1, 0)?.row).toBe(0);
    expect(rowAt(layout, layout.pinnedHeight + 1, 22)?.row).toBe(1);
    expect(rowAt(layout, 9999, 0)).toBeNull();
    for (const one of layout.scrolled) {
      expect(rowAt(layout, layout.pinnedHeight + one.y, 0)?.row).toBe(one.row);
      expect(rowAt(layout, layout.pinnedHeight + one.y + one.height - 1, 0)?.row).toBe(one.row);
    }
  });
});
