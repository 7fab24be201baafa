import { describe, expect, it } from "vitest";
import { makeRow, type RandomRow } from "../../dev/events";
import { seeded } from "../../dev/random";
import { endOf } from "../data/events";
import { binsFor, buildPyramid, NO_NAME, PYRAMID_FROM, type Pyramid } from "../data/pyramid";
import { pictureRow, RowPicture, WIDE_PX } from "./lod";
import type { Span } from "./view";

const IDLE = 4;
const HOURS_50 = 50 * 3600 * 1e9;

interface Shape {
  readonly text: string;
  /** First event, and length and gap of event i. */
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

/** Views of the whole row, of its ends and from within, some with edges on the edges of events. */
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
        pictureRow(row.events, null, span, width, picture);
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
          // Near 2^52 a double holds no more than whole ns.
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
    const pyramid = buildPyramid(row.events, first, end) as Pyramid;
    const picture = new RowPicture();
    for (const width of [1, 50, 700]) {
      for (const span of [{ start: first, end }, { start: first + (end - first) / 3, end }]) {
        pictureRow(row.events, pyramid, span, width, picture);
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
  const pyramid = buildPyramid(row.events, first, endOf(row.events, 29_999)) as Pyramid;

  it("name what is longest in the bins that they join", () => {
    for (const wide of pyramid.coarser ?? []) {
      const many = Math.round(wide.binNs / pyramid.binNs);
      for (let bin = 0; bin < wide.top.length; bin += 37) {
        const own = Array.from({ length: many }, (_, i) => bin * many + i).filter(
          (one) => pyramid.top[one] !== NO_NAME,
        );
        const most = Math.max(0, ...own.map((one) => pyramid.topNs[one] as number));
        expect(wide.topNs[bin]).toBe(most);
        const named = own.filter((one) => pyramid.topNs[one] === most).map((one) => pyramid.top[one]);
        if (own.length) expect(named).toContain(wide.top[bin]);
        else expect(wide.top[bin]).toBe(NO_NAME);
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
