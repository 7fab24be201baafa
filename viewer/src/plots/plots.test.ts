import { describe, expect, it } from "vitest";
import type { ResultTable } from "../data/head";
import { Columns } from "./columns";
import { nearest, outline, placed, scalesOf } from "./geometry";
import { place, scaleOf, ticks, tickTexts } from "./scale";
import type { Chart } from "./shapes";
import { idleCauses, median, rankHeat, stepTimes, tableOfSteps } from "./steps";
import { exposedShares, kernelDurations, memoryUse } from "./work";

function tableOf(columns: Readonly<Record<string, readonly unknown[]>>): Columns {
  const names = Object.keys(columns);
  const count = columns[names[0] ?? ""]?.length ?? 0;
  const table: ResultTable = {
    columns: names.map((name) => ({ name, title: name, unit: "none" })),
    rows: Array.from({ length: count }, (_, row) => names.map((name) => columns[name]?.[row] ?? null)),
  };
  return new Columns(table);
}

const FRAME = { left: 50, right: 450, top: 10, bottom: 110 };

describe("scales", () => {
  it("puts values between the ends, also logarithmically", () => {
    expect(place(scaleOf(0, 10, 100, 200), 5)).toBe(150);
    expect(place(scaleOf(1, 10_000, 0, 400, true), 100)).toBeCloseTo(200);
    expect(place(scaleOf(3, 3, 0, 10), 3)).toBe(0); // an empty scale divides by nothing
  });
  it("has round ticks inside the scale", () => {
    expect(ticks(scaleOf(0, 47, 0, 1), "ns", 5)).toEqual([0, 10, 20, 30, 40]);
    expect(ticks(scaleOf(0, 2.2, 0, 1), "count", 5)).toEqual([0, 1, 2]);
    expect(ticks(scaleOf(0, 3 * 2 ** 30, 0, 1), "bytes", 4)).toEqual([0, 2 ** 30, 2 ** 31, 3 * 2 ** 30]);
    expect(ticks(scaleOf(8, 300, 0, 1, true), "ns", 8)).toEqual([10, 20, 50, 100, 200]);
    expect(ticks(scaleOf(1, 1e9, 0, 1, true), "ns", 4)).toEqual([1, 1e3, 1e6, 1e9]);
  });
  it("names ticks with their unit and without trailing zeros", () => {
    expect(tickTexts([0, 10e6, 20e6], "ns")).toEqual(["0", "10 ms", "20 ms"]);
    expect(tickTexts([0, 2.5e9], "bytes_per_s")).toEqual(["0", "2.5 GB/s"]);
    expect(tickTexts([0, 100], "count")).toEqual(["0", "100"]);
    expect(tickTexts([20_000, 1e6], "ns", true)).toEqual(["20 us", "1 ms"]);
  });
  it("has no two ticks with one text, however short the time", () => {
    for (const [low, high] of [[667_459_236, 667_459_237], [667e6, 668e6], [-2e6, 1e6], [13e9, 13.4e9]] as const) {
      const texts = tickTexts(ticks(scaleOf(low, high, 0, 1), "ns", 8), "ns");
      expect(new Set(texts).size).toBe(texts.length);
      expect(texts.length).toBeGreaterThan(1);
    }
    expect(tickTexts([667_459_236, 667_459_237], "ns")).toEqual(["667.459236 ms", "667.459237 ms"]);
  });
});

const STEPS = tableOf({
  rank: [0, 0, 0, 1, 1, 1],
  index: [1, 2, 3, 1, 2, 3],
  step: ["s1", "s2", "s3", "s1", "s2", "s3"],
  device_ns: [10, 11, 40, 10, 12, 10],
  behind_ns: [0, 0, 30, 0, 1, 0],
  wait_ns: [1, 2, null, 3, 4, 5],
  start_ns: [0, 10, 21, 0, 10, 22],
  end_ns: [10, 21, 61, 10, 22, 32],
  analyzed: ["yes", "yes", "yes", "yes", "yes", "no"],
});

describe("steps", () => {
  it("has the exact median", () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 2, 3])).toBe(2.5);
  });
  it("shows every step once: analyzed, outlier, or excluded", () => {
    const chart = stepTimes(STEPS) as Chart;
    const counts = Object.fromEntries(chart.series.map(({ name, marks }) => [name, marks.map(({ y1 }) => y1)]));
    expect(counts).toEqual({ analyzed: [10, 11, 10, 12], "over 1.2 times the median": [40], excluded: [10] });
    expect(chart.lines).toEqual([{ text: "median", y: 11 }]);
    const [outlier] = chart.series[1]?.marks ?? [];
    expect(outlier?.target).toEqual({ event: null, span: { start: 21, end: 61 } });
    expect(outlier?.text).toContain("s3, rank 0: 40 ns");
  });
  it("shows the longest of some consecutive steps if there are thousands, and the median of all", () => {
    const start_ns = Array.from({ length: 5000 }, (_, i) => 1000 * i);
    const end_ns = start_ns.map((start, i) => start + (i === 4321 ? 900 : 100 + (i % 2)));
    const spec = { label: "rank 3 · GPU 1 · NVIDIA H200", rows: [], start_ns, end_ns, text: start_ns.map((_, i) => `s${i}`), excluded: [] };
    const chart = stepTimes(tableOfSteps([spec])) as Chart;
    const marks = chart.series.flatMap((series) => series.marks);
    expect(marks).toHaveLength(Math.ceil(5000 / 3));
    expect(chart.series[1]?.marks.map(({ x0, target }) => [x0, target?.span?.start])).toEqual([[1440, 4_321_000]]);
    expect(chart.x.labels?.slice(0, 3)).toEqual(["0", "3", "6"]);
    expect(chart.note).toBe("Median 101 ns. Each bar is the longest of 3 steps.");
  });
  it("leaves cells without a value out of the matrix", () => {
    const heat = rankHeat(STEPS, "wait_ns", "Waits", "");
    expect(heat?.rows).toEqual(["rank 0", "rank 1"]);
    expect(heat?.columns).toEqual(["1", "2", "3"]);
    expect(heat?.cells.map(({ row, column, value }) => [row, column, value])).toEqual([
      [0, 0, 1], [0, 1, 2], [1, 0, 3], [1, 1, 4], [1, 2, 5],
    ]);
    expect(rankHeat(STEPS.filter((row) => row < 3), "wait_ns", "Waits", "")).toBeNull();
  });
  it("stacks idle causes to the idle time of the step", () => {
    const parts = tableOf({
      rank: [0, 0, 0, 0],
      index: [1, 1, 1, 2],
      part: ["gemm", "host-sync", "launch-bound", "host-sync"],
      kind: ["busy", "idle", "idle", "idle"],
      ns: [50, 20, 5, 30],
      start_ns: [0, 0, 0, 100],
      end_ns: [75, 75, 75, 200],
    });
    const [chart] = idleCauses(parts) as Chart[];
    const tops = chart?.series.map(({ name, marks }) => [name, marks.map(({ x0, y0, y1 }) => [x0, y0, y1])]);
    expect(tops).toEqual([["host-sync", [[0, 0, 20], [1, 0, 30]]], ["launch-bound", [[0, 20, 25]]]]);
    expect(chart?.x.labels).toEqual(["1", "2"]);
  });
});

describe("a table of which the page has only the first rows", () => {
  it("loses its last group, which may be cut", () => {
    const columns = tableOf({ name: ["a", "a", "b"], instances: [1, 2, 3] });
    const name = (row: number): string => columns.text(row, "name");
    expect(columns.whole(name).rows).toEqual([0, 1, 2]);
    const cut = new Columns({ ...columns.table, row_count: 9 });
    expect(cut.whole(name).rows).toEqual([0, 1]);
  });
});

describe("kernels and memory", () => {
  it("shows the bins of one kernel", () => {
    const table = tableOf({
      name: ["a", "a", "b"],
      shortest_ns: [8, 16, 8],
      longest_ns: [10, 19, 10],
      instances: [3, 1, 7],
      total_ns: [27, 17, 60],
      event: ["kernel:2", "kernel:0", "kernel:9"],
    });
    const chart = kernelDurations(table, "a") as Chart;
    expect(chart.series[0]?.marks.map(({ x0, x1, y1, target }) => [x0, x1, y1, target?.event])).toEqual([
      [8, 10, 3, "kernel:2"], [16, 19, 1, "kernel:0"],
    ]);
    expect(kernelDurations(table, "c")).toBeNull();
  });
  it("keeps memory in use until the next change", () => {
    const table = tableOf({
      place: ["GPU 0", "GPU 0"],
      memory: ["Device", "Device"],
      allocator: ["Driver", "Driver"],
      pid: [1, 1],
      start_ns: [100, 180],
      end_ns: [110, 190],
      max_bytes: [512, 1024],
      time_ns: [105, 182],
    });
    const [chart] = memoryUse(table, 500) as Chart[];
    expect(chart?.series.map(({ marks }) => marks.map(({ x0, x1, y1 }) => [x0, x1, y1]))).toEqual([[[100, 180, 512], [180, 500, 1024]]]);
    expect(chart?.lines).toEqual([{ text: "peak", y: 1024 }]);
    expect(chart?.note).toContain("Peak 1.00 KiB (Device) at 182 ns");
  });
});

describe("communication", () => {
  it("stacks the exposed and the overlapped part of each rank's time in collectives", () => {
    const table = tableOf({ rank: [0, 1], total_ns: [100, 200], collective_ns: [50, 40], exposed_ns: [20, 40] });
    const chart = exposedShares(table) as Chart;
    expect(chart.series.map(({ name, marks }) => [name, marks.map(({ x0, y0, y1 }) => [x0, y0, y1])])).toEqual([
      ["exposed", [[0, 0, 0.2], [1, 0, 0.2]]],
      ["overlapped with compute", [[0, 0.2, 0.5]]],
    ]);
  });
});

describe("geometry", () => {
  const chart = stepTimes(STEPS) as Chart;
  const scales = scalesOf(chart, FRAME);
  const all = chart.series.flatMap((series) => placed(series, scales));
  it("keeps marks inside the frame", () => {
    for (const one of all) {
      expect(one.left).toBeGreaterThanOrEqual(FRAME.left);
      expect(one.right).toBeLessThanOrEqual(FRAME.right + 1);
      expect(one.top).toBeGreaterThanOrEqual(FRAME.top);
      expect(one.bottom).toBe(FRAME.bottom);
    }
  });
  it("finds the mark at the pointer, and none far from all", () => {
    for (const one of all) expect(nearest(all, (one.left + one.right) / 2, one.top + 1)).toBe(one);
    expect(nearest(all, -100, 50)).toBeNull();
  });
  it("cuts values above the limit and says which", () => {
    const cut = placed(chart.series[1] as Chart["series"][number], scalesOf({ ...chart, top: 20 }, FRAME));
    expect(cut.map(({ isCut, top }) => [isCut, top])).toEqual([[true, FRAME.top]]);
  });
  it("draws each mark once", () => {
    expect(outline("bars", all).match(/z/g)).toHaveLength(all.length);
    expect(outline("points", all).match(/z/g)).toHaveLength(all.length);
  });
});
