import { describe, expect, it } from "vitest";
import { CATEGORIES, makeRow, type RandomRow } from "../../dev/events";
import { seeded } from "../../dev/random";
import { endOf } from "../data/events";
import { type CategoryBins, NO_NAME } from "../data/category-bins";
import { binsFor, buildPyramid, PYRAMID_BINS, PYRAMID_FROM, type Pyramid } from "../data/pyramid";
import { pictureRow, RowPicture, WIDE_PX } from "./lod";
import type { Span } from "./view";

const IDLE = 4;
const HOURS_50 = 50 * 3600 * 1e9;

interface Shape {
  readonly text: string;
  /** Start of the first event, and duration and gap of event i. */
  readonly from: number;
  readonly length: (i: number, random: () => number) => number;
  readonly gap: (i: number, random: () => number) => number;
}

const SHAPES: readonly Shape[] = [
  { text: "events without length", from: 7, length: (i) => (i % 3 ? 0 : 5), gap: (i) => (i % 7 ? 0 : 20) },
  { text: "times beyond 2^31", from: 2 ** 31 - 50, length: (_, r) => Math.floor(r() * 900), gap: () => 3 },
  {
    text: "times near 2^52",
    from: 2 ** 52,
    length: (_, r) => Math.floor(r() * 40),
    gap: (_, r) => Math.floor(r() * 9),
  },
  { text: "50 hours beside 1 ns", from: 0, length: (i) => (i === 3 ? HOURS_50 : 1), gap: () => 1 },
  { text: "no gaps at all", from: -4e9, length: (i) => 1 + (i % 5), gap: () => 0 },
];

function rowOf(shape: Shape, count: number, kind: "stream" | "state"): RandomRow {
  const random = seeded(count);
  const [start, duration, name]: number[][] = [[], [], []];
  let end = shape.from;
  for (let i = 0; i < count; i++) {
    start?.push(end + (i ? shape.gap(i, random) : 0));
    duration?.push(shape.length(i, random));
    name?.push(Math.floor(random() * 5));
    end = (start?.[i] as number) + (duration?.[i] as number);
  }
  return makeRow({ start: start ?? [], duration: duration ?? [], name: name ?? [] }, kind);
}

/** Views of the whole row, its ends, and its middle, some aligned with event edges. */
function spansOf(row: RandomRow): Span[] {
  const first = row.start[0] as number;
  const end = endOf(row.events, row.events.count - 1);
  const middle = row.start[Math.floor(row.start.length / 2)] as number;
  return [
    { start: first, end },
    { start: first, end: first + 400 },
    { start: end - 1000, end },
    { start: middle, end: middle + 2000 },
    { start: middle - 333.25, end: middle + 1000.5 },
  ];
}

function busyIn(row: RandomRow, kind: string, from: number, to: number): number {
  let sum = 0;
  row.start.forEach((start, i) => {
    if (kind === "state" && row.name[i] === IDLE) return;
    sum += Math.max(0, Math.min(start + (row.duration[i] as number), to) - Math.max(start, from));
  });
  return sum;
}

describe.each(SHAPES)("a row with $text", (shape) => {
  it.each(["stream", "state"] as const)("walked, has the exact share of every pixel (%s)", (kind) => {
    const row = rowOf(shape, 600, kind);
    const picture = new RowPicture();
    for (const span of spansOf(row)) {
      for (const width of [1, 97, 320]) {
        pictureRow(row.events, null, CATEGORIES, span, width, picture);
        const pixelNs = (span.end - span.start) / width;
        const wide = new Set(picture.rectEvent.subarray(0, picture.rects));
        let checked = 0;
        for (let pixel = 0; pixel < width; pixel++) {
          const from = span.start + pixel * pixelNs;
          const to = from + pixelNs;
          const isShared = row.start.some(
            (start, i) => start < to && start + (row.duration[i] as number) > from && !wide.has(i),
          );
          if (!isShared) continue;
          checked++;
          const exact = busyIn(row, kind, from, to) / pixelNs;
          // Near 2^52 a double has a resolution of 1 ns.
          expect(Math.abs(picture.share[pixel] - exact)).toBeLessThan(1e-5 + 2.5 / 2 ** 52 * (from / pixelNs));
        }
        expect(checked + wide.size).toBeGreaterThan(0);
      }
    }
  });

  it.each(["stream", "state"] as const)("from its pyramid, is off by two bins at the most (%s)", (kind) => {
    const row = rowOf(shape, PYRAMID_FROM + 100, kind);
    const first = row.start[0] as number;
    const end = endOf(row.events, row.events.count - 1);
    const pyramid = buildPyramid(row.events, first, end, CATEGORIES) as Pyramid;
    const picture = new RowPicture();
    for (const width of [1, 50, 700]) {
      for (const span of [{ start: first, end }, { start: first + (end - first) / 3, end }]) {
        pictureRow(row.events, pyramid, CATEGORIES, span, width, picture);
        const pixelNs = (span.end - span.start) / width;
        let sum = 0;
        for (let pixel = 0; pixel < width; pixel += Math.ceil(width / 50)) {
          const from = span.start + pixel * pixelNs;
          const exact = busyIn(row, kind, from, from + pixelNs);
          expect(Math.abs(picture.share[pixel] * pixelNs - exact)).toBeLessThanOrEqual(2 * pyramid.binNs);
        }
        for (const share of picture.share) sum += share * pixelNs;
        const whole = busyIn(row, kind, span.start, span.end);
        expect(Math.abs(sum - whole)).toBeLessThanOrEqual(2 * pyramid.binNs + whole * 1e-5);
        const wanted = row.duration.flatMap((length, i) =>
          length >= WIDE_PX * pixelNs && (row.start[i] as number) < span.end && endOf(row.events, i) > span.start
            ? [i]
            : [],
        );
        expect([...picture.rectEvent.subarray(0, picture.rects)]).toEqual(wanted);
      }
    }
  });
});

describe("coarser bins", () => {
  const row = rowOf(SHAPES[1] as Shape, 30_000, "state");
  const first = row.start[0] as number;
  const pyramid = buildPyramid(row.events, first, endOf(row.events, 29_999), CATEGORIES) as Pyramid;

  it("hold what the bins that they join hold, by category", () => {
    const summed = ({ from, key, ns }: CategoryBins, low: number, high: number): Map<number, number> => {
      const sums = new Map<number, number>();
      for (let i = from[low]; i < from[Math.min(high, from.length - 1)]; i++) {
        sums.set(key[i], (sums.get(key[i]) ?? 0) + ns[i]);
      }
      return sums;
    };
    for (const wide of pyramid.coarser ?? []) {
      const many = Math.round(wide.binNs / pyramid.binNs);
      expect(wide.from.length - 1).toBe(PYRAMID_BINS / many);
      for (let bin = 0; bin < wide.from.length - 1; bin += 37) {
        const own = summed(pyramid, bin * many, (bin + 1) * many);
        const joined = summed(wide, bin, bin + 1);
        expect(new Set(joined.keys())).toEqual(new Set(own.keys()));
        for (const [key, ns] of own) expect(joined.get(key)).toBeCloseTo(ns, 2);
      }
    }
  });

  it("are taken where a pixel holds two of them", () => {
    expect(binsFor(pyramid, pyramid.binNs)).toBe(pyramid);
    expect(binsFor(pyramid, pyramid.binNs * 3.9)).toBe(pyramid);
    expect(binsFor(pyramid, pyramid.binNs * 4).binNs).toBe(pyramid.binNs * 2);
    expect(binsFor(pyramid, pyramid.binNs * 1e6).binNs).toBe(pyramid.binNs * 16);
  });
});

/** Sums the time of a pixel by category in a plain loop, busy and idle separately. */
function sumsOf(row: RandomRow, kind: string, low: number, high: number, counts: (i: number) => boolean) {
  const found = { busy: new Map<number, number>(), idle: new Map<number, number>(), touches: new Set<number>() };
  row.start.forEach((start, i) => {
    const [length, name] = [row.duration[i] as number, row.name[i] as number];
    if (!counts(i) || start >= high || (start + length <= low && start < low)) return;
    const sums = kind === "state" && name === IDLE && length > 0 ? found.idle : found.busy;
    const inside = Math.max(0, Math.min(high, start + length) - Math.max(low, start));
    const category = CATEGORIES[name] as number;
    sums.set(category, (sums.get(category) ?? 0) + inside);
    found.touches.add(name);
  });
  return found;
}

/** Expects a name to have the category with the most time, up to an error of `least` ns. */
function expectMost(name: number | undefined, sums: ReadonlyMap<number, number>, least: number): void {
  const most = Math.max(-1, ...sums.values());
  if (most <= least && name === NO_NAME) return;
  expect(name).not.toBe(NO_NAME);
  const own = sums.get(CATEGORIES[name as number] as number) ?? -1;
  expect(own).toBeGreaterThanOrEqual(most - least);
}

describe("the colour of a pixel", () => {
  const mixed: Shape = {
    text: "many short ones of one category and few long ones of another",
    from: 90,
    length: (i, r) => (i % 40 ? 1 + Math.floor(r() * 90) : 700),
    gap: (_, r) => Math.floor(r() * 9),
  };

  it.each(["stream", "state"] as const)("is that of the category with most time, walked (%s)", (kind) => {
    for (const shape of [mixed, ...SHAPES]) {
      const row = rowOf(shape, 700, kind);
      const picture = new RowPicture();
      for (const span of spansOf(row)) {
        for (const width of [1, 37, 320]) {
          const pixelNs = (span.end - span.start) / width;
          pictureRow(row.events, null, CATEGORIES, span, width, picture);
          const isShort = (i: number): boolean => (row.duration[i] as number) < WIDE_PX * pixelNs;
          for (let pixel = 0; pixel < width; pixel++) {
            const low = span.start + pixel * pixelNs;
            // Events in the next pixel because of a rounded edge.
            const least = Math.abs(low) * 1e-12 + pixelNs * 1e-6;
            if (least > pixelNs / 4) continue;
            const sums = sumsOf(row, kind, low, low + pixelNs, isShort);
            expectMost(picture.top[pixel], sums.busy, least);
            expectMost(picture.rest[pixel], sums.idle, least);
          }
        }
      }
    }
  });

  it.each(["stream", "state"] as const)("is that of the category with most time, from bins (%s)", (kind) => {
    const row = rowOf(mixed, 40_000, kind);
    const first = row.start[0] as number;
    const end = endOf(row.events, 39_999);
    const pyramid = buildPyramid(row.events, first, end, CATEGORIES) as Pyramid;
    const picture = new RowPicture();
    const all = (): boolean => true;
    const pixels = [1024, 2048, 8192, PYRAMID_BINS, 700, 1601, 5000];
    for (const width of pixels) {
      pictureRow(row.events, pyramid, CATEGORIES, { start: first, end }, width, picture);
      const pixelNs = (end - first) / width;
      // Exact if pixels and bins have the same edges; otherwise partial bins are interpolated.
      const least = Number.isInteger(PYRAMID_BINS / width) ? 0.1 : 2 * binsFor(pyramid, pixelNs).binNs;
      for (let pixel = 0; pixel < width; pixel += Math.ceil(width / 150)) {
        const low = first + pixel * pixelNs;
        const sums = sumsOf(row, kind, low, low + pixelNs, all);
        expectMost(picture.top[pixel], sums.busy, least);
        expectMost(picture.rest[pixel], sums.idle, least);
      }
    }
  });

  it("is not that of a long event among many short ones, nor lost where each bin has another winner", () => {
    // Name 1 is always second, with 45% of the time. 0, 2, and 3 alternate, but 0 and 2 share a category.
    const events = { start: [] as number[], duration: [] as number[], name: [] as number[] };
    for (let i = 0; i < 60_000; i++) {
      events.start.push(i * 50);
      events.duration.push(i % 2 ? 27 : 23);
      events.name.push(i % 2 ? (Math.floor(i / 6) % 2 ? 3 : 0) : 1);
    }
    const row = makeRow(events);
    const end = 60_000 * 50;
    const pyramid = buildPyramid(row.events, 0, end, CATEGORIES) as Pyramid;
    const picture = new RowPicture();
    for (const width of [1, 16, 256]) {
      pictureRow(row.events, pyramid, CATEGORIES, { start: 0, end }, width, picture);
      expect(new Set(picture.top)).toEqual(new Set([1]));
    }
    pictureRow(row.events, pyramid, CATEGORIES, { start: 0, end: end / 100 }, 2, picture); // a sample of 300 each
    expect(new Set(picture.top)).toEqual(new Set([1]));
  });
});
