import { describe, expect, it } from "vitest";
import { type RandomRow, randomRow } from "../../dev/events";
import { seeded } from "../../dev/random";
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
  const pyramid = buildPyramid(row.events, 0, end);

  it("is left out where a walk is quick", () => {
    expect(buildPyramid(randomRow(1, PYRAMID_FROM - 1).events, 0, 1e9)).toBeNull();
  });

  it("is exact at the edges of its bins, and its bins sum to the row", () => {
    if (!pyramid) throw new Error("no pyramid");
    for (let bin = 0; bin <= PYRAMID_BINS; bin += 97) {
      const time = bin * pyramid.binNs;
      expect(roughlyBusyBefore(pyramid, time)).toBeCloseTo(busyBefore(row.events, time), 3);
    }
    expect(pyramid.busy[PYRAMID_BINS]).toBe(row.events.busy[20_000]);
  });

  it("names the event that covers most of a bin", () => {
    if (!pyramid) throw new Error("no pyramid");
    for (let bin = 0; bin < PYRAMID_BINS; bin += 501) {
      const [low, high] = [bin * pyramid.binNs, (bin + 1) * pyramid.binNs];
      let most = 0;
      row.start.forEach((start, i) => {
        if (row.name[i] === 4) return;
        most = Math.max(most, Math.min(high, start + (row.duration[i] as number)) - Math.max(low, start));
      });
      expect(pyramid.topNs[bin]).toBeCloseTo(Math.fround(most), 1);
    }
  });
});
