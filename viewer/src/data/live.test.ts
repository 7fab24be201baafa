import { expect, test } from "vitest";
import type { LiveUpdate } from "./live";
import { causesOf, liveRows } from "./live-rows";

const rank = { pid: 7, process: "python3", rank: 1, gpu: 1, gpu_name: "H100" };
const part = { start_ns: 0, end_ns: 1000, is_settled: true };
const update: LiveUpdate = {
  ...{ name: "run", now_ns: 2000, is_recording: true, lost_events: 0, damaged_logs: 0 },
  second: {
    ...part,
    gpus: [
      { gpu: 0, gpu_name: "H100", busy_ns: 0, operations: 0 },
      { gpu: 1, gpu_name: "H100", busy_ns: 500, operations: 3 },
    ],
  },
  times: { ...part, ranks: [{ ...rank, busy_ns: 400, parts_ns: { gemm: 400, tail: 100, "host-sync": 500 } }] },
  steps: {
    ...part,
    ranks: [
      { ...rank, count: 2, per_s: 4, median_ns: 250, last_ns: 300 },
      { ...rank, gpu: null, gpu_name: null, pid: 9, count: 1, per_s: 1, median_ns: null, last_ns: 5 },
    ],
  },
};

test("there is a row per process and GPU, for GPUs at rest and processes without one, too", () => {
  const rows = liveRows(update);
  expect(rows.map(({ gpu, pid }) => [gpu, pid])).toEqual([[0, null], [1, 7], [null, 9]]);
  expect(rows[1]?.now?.busy_ns).toBe(500);
  expect(rows[1]?.times?.busy_ns).toBe(400);
  expect(rows[1]?.steps?.last_ns).toBe(300);
  expect(rows[2]?.times).toBe(null);
});

test("causes are idle parts, the largest first", () => {
  const [times] = update.times?.ranks ?? [];
  if (!times) throw new Error("no rank");
  expect(causesOf(times, 1000, (name) => name !== "gemm")).toEqual([
    { name: "host-sync", share: 0.5 },
    { name: "tail", share: 0.1 },
  ]);
});

test("before anything is known there are no rows", () => {
  expect(liveRows({ ...update, second: null, times: null, steps: null })).toEqual([]);
});
