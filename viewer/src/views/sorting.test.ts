import { describe, expect, it } from "vitest";
import { arranged } from "./sorting";

const table = {
  columns: [
    { name: "name", title: "Name", unit: "none" },
    { name: "total_ns", title: "Total", unit: "ns" },
  ],
  rows: [["b", 5], ["a", 12], ["c", null], ["A", 5]] as const,
};

describe("tables", () => {
  it("sort by numbers and texts, what is missing first, equal rows as they were", () => {
    expect(arranged(table, null, null)).toEqual([0, 1, 2, 3]);
    expect(arranged(table, { column: 1, isFalling: false }, null)).toEqual([2, 0, 3, 1]);
    expect(arranged(table, { column: 1, isFalling: true }, null)).toEqual([1, 0, 3, 2]);
    expect(arranged(table, { column: 0, isFalling: false }, null)).toEqual([3, 1, 0, 2]);
  });

  it("search in texts", () => {
    expect(arranged(table, null, /a/i)).toEqual([1, 3]);
  });
});
