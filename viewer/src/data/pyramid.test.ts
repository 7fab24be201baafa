import { describe, expect, it } from "vitest";
import { CATEGORIES, type RandomRow, randomRow } from "../../dev/events";
import { seeded } from "../../dev/random";
import { keyOf } from "./category-bins";
import { endOf } from "./events";
import { buildPyramid, busyBefore, PYRAMID_BINS, PYRAMID_FROM, roughlyBusyBefore } from "./pyramid";

function slowly(row: RandomRow, time: number, isBusy: (name: number) => boolean): number {
  let sum = 0;
  row.start.forEach((start, i) => {
    if (!isBusy(row.name[i] as number)) return;
    sum += Math.max(0, Math.min(start + (row.duration[i] as number), time) - start);
  });
  return sum;
}

describe("running totals", () => {
  it.each([1, 2, 3])("equal a sum over all events (seed %i)", (seed) => {
    const random = seeded(seed + 100);
    for (const kind of ["stream", "state"] as const) {
      const row = randomRow(seed, 300, kind);
      const end = endOf(row.events, 299);
      const isBusy = (name: number): boolean => kind === "stream" || name !== 4;
      for (let i = 0; i < 500; i++) {
        const time = Math.floor(random() * (end + 2000)) - 1000;
        expect(busyBefore(row.events, time)).toBe(slowly(row, time, isBusy));
      }
      for (const time of row.start) {
        expect(busyBefore(row.events, time)).toBe(slowly(row, time, isBusy));
      }
    }
  });
});

describe("the pyramid", () => {
  const row = randomRow(7, 20_000, "state");
  const end = endOf(row.events, 19_999);
  const pyramid = buildPyramid(row.events, 0, end, CATEGORIES);

  it("is left out where a walk is quick", () => {
    expect(buildPyramid(randomRow(1, PYRAMID_FROM - 1).events, 0, 1e9, CATEGORIES)).toBeNull();
  });

  it("is exact at the edges of its bins, and its bins sum to the row", () => {
    if (!pyramid) throw new Error("no pyramid");
    for (let bin = 0; bin <= PYRAMID_BINS; bin += 97) {
      const time = bin * pyramid.binNs;
      expect(roughlyBusyBefore(pyramid, time)).toBeCloseTo(busyBefore(row.events, time), 3);
    }
    expect(pyramid.busy[PYRAMID_BINS]).toBe(row.events.busy[20_000]);
  });

  it("has the time of every category in every bin, and the event of it that covers most", () => {
    if (!pyramid) throw new Error("no pyramid");
    const { from, key, ns, name, longestNs, binNs } = pyramid;
    let checked = 0;
    for (let bin = 0; bin < PYRAMID_BINS; bin += 101) {
      const sums = new Map<number, { ns: number; longest: number; names: Set<number> }>();
      row.start.forEach((start, i) => {
        const length = row.duration[i] as number;
        const inside = Math.min((bin + 1) * binNs, start + length) - Math.max(bin * binNs, start);
        if (length === 0 ? Math.floor(start / binNs) !== bin : inside <= 0) return;
        const own = row.name[i] as number;
        const one = keyOf(CATEGORIES[own] as number, own === 4 && length > 0);
        const sum = sums.get(one) ?? { ns: 0, longest: -1, names: new Set() };
        sums.set(one, sum);
        sum.ns += inside;
        if (inside > sum.longest) sum.names.clear();
        if (inside >= sum.longest) sum.names.add(own);
        sum.longest = Math.max(sum.longest, inside);
      });
      const places = Array.from({ length: from[bin + 1] - from[bin] }, (_, i) => from[bin] + i);
      expect(new Set(places.map((i) => key[i]))).toEqual(new Set(sums.keys()));
      expect(places.length).toBe(sums.size);
      for (const i of places) {
        const sum = sums.get(key[i]);
        expect(ns[i]).toBeCloseTo(sum?.ns ?? -1, 1);
        expect(longestNs[i]).toBeCloseTo(sum?.longest ?? -1, 1);
        expect(sum?.names).toContain(name[i]);
        checked++;
      }
    }
    expect(checked).toBeGreaterThan(100);
  });
});
