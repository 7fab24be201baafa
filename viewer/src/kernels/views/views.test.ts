import { describe, expect, it } from "vitest";
import type { Finding, Row } from "../data/document";
import { formatAddress, parseAddress } from "./address";
import { heatOf, lineOfKey } from "./code-list";
import { predictedText, stepText } from "./findings";
import { sortedRows } from "./sorting";

describe("the address", () => {
  it.each(["#summary", "#details?launch=3", "#source?code=2&metric=samples&file=1&line=17", "#source?code=0&instruction=5"])("%s leads to what it was made of", (text) => {
    const address = parseAddress(text);
    if (!address) throw new Error("no address");
    expect(formatAddress(address)).toBe(text);
  });

  it("is ignored if it is of another page or hostile", () => {
    expect(parseAddress("#t")).toBeNull();
    expect(parseAddress("")).toBeNull();
    expect(parseAddress("#details?launch=-1")?.row).toBeNull();
    expect(parseAddress("#source?code=1e9&line=3")).toMatchObject({ code: null, chosen: null });
  });
});

describe("the order of launches", () => {
  const row = (values: Partial<Row>): Row => values as Row;
  const rows = [row({ duration_ns: 5, function: "b", grid: [2, 3, 1] }), row({ duration_ns: null, function: "a", grid: null }), row({ duration_ns: 9, function: "b", grid: [1, 1, 1] })];

  it("has rows without a value last, in both directions", () => {
    expect(sortedRows(rows, { key: "duration_ns", isDescending: true })).toEqual([2, 0, 1]);
    expect(sortedRows(rows, { key: "duration_ns", isDescending: false })).toEqual([0, 2, 1]);
  });

  it("keeps the order of equal ones, and compares sizes by their product", () => {
    expect(sortedRows(rows, { key: "function", isDescending: false })).toEqual([1, 0, 2]);
    expect(sortedRows(rows, { key: "grid", isDescending: true })).toEqual([0, 2, 1]);
  });
});

describe("findings in words", () => {
  const finding = {
    outcome: "expected", before_ns: 73_888, predicted_ns: 27_940, predicted_low_ns: 24_864, predicted_high_ns: 38_267, next_limiter: "L2", saving_ns: 45_948,
  } as unknown as Finding;

  it("have the predicted time with its bounds", () => {
    expect(predictedText(finding)).toBe("73.9 us → 27.9 us (between 24.9 and 38.3 us), then limited by L2");
    expect(predictedText({ ...finding, outcome: "floor", predicted_ns: null })).toContain("at least 24.9 us");
    expect(predictedText({ ...finding, outcome: "no-gain" })).toBe("73.9 us: no gain expected. The kernel is limited by L2.");
  });

  it("say what a step gains, if there is one", () => {
    expect(stepText(finding)).toBeNull();
    expect(stepText({ ...finding, step_ns: 14_200_000, step_saving_ns: 1_900_000 })).toBe("For a step: saves 1.90 ms of the 14.2 ms step (13.4%).");
    expect(stepText({ ...finding, step_ns: 14_200_000, step_saving_ns: null, step_saving_high_ns: 1_000_000 })).toContain("at most 1.00 ms");
  });
});

describe("a list of code", () => {
  it("is walked with keys", () => {
    expect(lineOfKey("ArrowDown", -1, 5)).toBe(0);
    expect(lineOfKey("ArrowUp", 0, 5)).toBe(0);
    expect(lineOfKey("End", 0, 5)).toBe(4);
    expect(lineOfKey("PageDown", 1, 100)).toBe(21);
    expect(lineOfKey("Home", 50, 100)).toBe(0);
    expect(lineOfKey("a", 0, 5)).toBeNull();
    expect(lineOfKey("ArrowDown", -1, 0)).toBeNull();
  });

  it("shows small values, too", () => {
    expect(heatOf(null, 10)).toBe(0);
    expect(heatOf(1, 10_000)).toBeGreaterThan(0.1);
    expect(heatOf(10, 10)).toBeLessThanOrEqual(0.85);
  });
});
