import { describe, expect, it } from "vitest";
import type { Category, ResultTable } from "../data/head";
import { clockSizes, columnOrder, headingOf, LineNames, stepOfLine } from "./table-lines";
import { sortedLines } from "./names-list";

const CATEGORIES: Category[] = [
  { name: "gemm", kind: "busy", meaning: "" },
  { name: "nvtx", kind: "range", meaning: "" },
  { name: "host-sync", kind: "idle", meaning: "" },
];
const NAMES = {
  texts: ["mm<(int)4>", "step_0", "step_11", "forward", "host-sync", "step_x", "step_7"],
  categories: [0, 1, 1, 1, 2, 1, 0],
};
const table = (columns: string[], rows: unknown[][], names?: number[][]): ResultTable => ({
  columns: columns.map((name) => ({ name, title: name, unit: "none" })),
  rows,
  ...(names ? { names } : {}),
});

describe("what a line of a table is about", () => {
  const lines = new LineNames(NAMES, CATEGORIES);

  it("takes the names that the table gives, otherwise those of its text", () => {
    expect(lines.of(table(["name"], [["mm<(int)4>"]], [[3]]), 0)).toEqual([3]);
    expect(lines.of(table(["name"], [["mm<(int)4>"]], [[]]), 0)).toEqual([0]);
    expect(lines.of(table(["name"], [["nothing"]]), 0)).toEqual([]);
  });

  it("shows short names of kernels only", () => {
    const full = "x".repeat(1500);
    const names = {
      texts: ["void mm<(int)4>(T)", `${"x".repeat(999)}…`, "step_0"],
      categories: [0, 0, 1],
      labels: ["mm<4>", "long", "no"],
    };
    const { shown } = new LineNames(names, CATEGORIES);
    expect(["void mm<(int)4>(T)", full, "step_0", "other"].map(shown)).toEqual(["mm<4>", "long", "step_0", "other"]);
  });

  it("takes a star for a number, in ranges only", () => {
    expect(lines.of(table(["depth", "name"], [[0, "step_*"]]), 0)).toEqual([1, 2]);
    expect(lines.of(table(["depth", "path"], [[0, "step_*"], [1, "step_*/forward"]]), 1)).toEqual([3]);
  });

  it("finds a range without its domain, which tables write before it", () => {
    expect(lines.of(table(["name"], [["NCCL:forward"]]), 0)).toEqual([3]);
    expect(lines.of(table(["name"], [["NCCL::forward"]]), 0)).toEqual([]);
  });

  it("takes all names of a category", () => {
    expect(lines.of(table(["kind", "category"], [["idle", "host-sync"]]), 0)).toEqual([4]);
  });

  it("finds the step of a line", () => {
    const steps = { label: "", rows: [], start_ns: [5, 9], end_ns: [9, 12], text: ["a 3", "a 4"], index: [3, 4], excluded: [] };
    const list = table(["index", "step"], [[4, "a"], [5, "a"]]);
    expect(stepOfLine(list, 0, steps)).toEqual({ start: 9, end: 12 });
    expect(stepOfLine(list, 1, steps)).toBeNull();
    expect(stepOfLine(list, 0, undefined)).toBeNull();
  });

  it("puts first what a row is about, and leaves units to the numbers", () => {
    expect(columnOrder(table(["total_ns", "name", "max_ns"], []))).toEqual([1, 0, 2]);
    expect(columnOrder(table(["a", "b"], []))).toEqual([0, 1]);
    expect(headingOf({ name: "x", title: "Total Time (ns)", unit: "ns" })).toBe("Total Time");
    expect(headingOf({ name: "x", title: "Algorithm Bandwidth (B/s)", unit: "bytes_per_s" })).toBe("Algorithm Bandwidth");
    expect(headingOf({ name: "x", title: "Time (%)", unit: "ratio" })).toBe("Time");
    expect(headingOf({ name: "x", title: "f(x)", unit: "ns" })).toBe("f(x)");
  });

  it("sorts names by text, count and time", () => {
    const line = (text: string, count: number, ns: number) => ({
      ...{ name: 0, count, ns, text, full: text, category: "" },
      spread: { count, mean: ns / count, min: 1, median: count, max: ns },
      parts: [ns - count, count],
    });
    const all = [line("b", 2, 10), line("a", 5, 5), line("c", 1, 10)];
    expect(sortedLines(all, "ns", true).map((one) => one.text)).toEqual(["b", "c", "a"]);
    expect(sortedLines(all, "text", false).map((one) => one.text)).toEqual(["a", "b", "c"]);
    expect(sortedLines(all, "median", true).map((one) => one.text)).toEqual(["a", "b", "c"]);
    expect(sortedLines(all, "part 0", false).map((one) => one.text)).toEqual(["a", "b", "c"]);
    expect(sortedLines(all, "part 1", true).map((one) => one.text)).toEqual(["a", "b", "c"]);
    expect(sortedLines(all, "mean", true).map((one) => one.text)).toEqual(["c", "b", "a"]);
  });
});

describe("times of the clock in a table", () => {
  it("are starts and ends, not durations", () => {
    const names = ["start_ns", "first_start_ns", "last_end_ns", "start_kernel_ns", "time_ns", "total_ns", "median_ns", "transfer_ns"];
    const table: ResultTable = {
      columns: names.map((name) => ({ name, title: name, unit: "ns" })),
      rows: [names.map(() => -7), names.map((_, i) => i)],
    };
    expect(clockSizes(table)).toEqual([7, 7, 7, 7, 7, null, null, null]);
  });
});
