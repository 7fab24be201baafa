import { describe, expect, it } from "vitest";
import { contrast } from "../../base/colour";
import { cellsOf, colorOf, fromMedian, limitOf, median, SCALES } from "./cells";

const values = (rows: number, columns: number, at: number[]) => ({ rows, columns, at: Float64Array.from(at) });

describe("cells of a map", () => {
  it("differ from the median of their column, of those that are known", () => {
    expect([...fromMedian(values(4, 2, [1, 10, 2, 20, 6, 60, 9, Number.NaN])).at]).toEqual([-3, -10, -2, 0, 2, 40, 5, Number.NaN]);
    expect(median([3, 1])).toBe(2);
    expect(median([])).toBeNaN();
  });

  it("are one per value where these fit", () => {
    const cells = cellsOf(values(2, 3, [1, 2, 3, 4, 5, Number.NaN]), 2, 3);
    expect(cells).toMatchObject({ rows: 2, columns: 3, rowsPerCell: 1, columnsPerCell: 1 });
    expect([...cells.place]).toEqual([0, 1, 2, 3, 4, -1]);
  });

  it("show the farthest of several values, so that one slow rank of 4,096 stays visible", () => {
    const at = Array.from({ length: 4096 * 5 }, (_, place) => (Math.floor(place / 5) === 1365 ? 100 : place % 3));
    const cells = cellsOf(values(4096, 5, at), 256, 300);
    expect(cells).toMatchObject({ rows: 256, columns: 5, rowsPerCell: 16 });
    const row = Math.floor(1365 / 16);
    for (let column = 0; column < 5; column++) expect(cells.place[row * 5 + column]).toBe(1365 * 5 + column);
    expect([...cells.place].filter((place) => (at[place] as number) === 100)).toHaveLength(5);
  });

  it("merge columns, and keep a negative value that is farther", () => {
    const cells = cellsOf(values(1, 5, [1, -7, 2, 3, Number.NaN]), 10, 3);
    expect([...cells.place]).toEqual([1, 3, -1]);
  });
});

describe("colors of a map", () => {
  it("are pale where all ranks are alike, and one outlier does not hide the others", () => {
    expect(limitOf(values(1, 3, [1, -2, Number.NaN]), 50)).toBe(50);
    const at = Array.from({ length: 10_000 }, (_, place) => (place ? 10 : 1e6));
    expect(limitOf(values(1, 10_000, at), 1)).toBeCloseTo(109.999);
    expect(limitOf(values(100, 100, at), 1)).toBeCloseTo(10_009.9);
    expect(limitOf(values(0, 1, []), 3)).toBe(3);
  });

  it("keep the strongest for a rank that is slow in all steps, however many others there are", () => {
    const at = Array.from({ length: 4096 * 5 }, (_, place) => (place < 5 ? 40 : place % 3));
    expect(limitOf(values(4096, 5, at), 1)).toBe(40);
  });

  it.each(["light", "dark"] as const)("end at colors that contrast with the middle in the %s theme", (theme) => {
    const scale = SCALES[theme];
    expect(colorOf(0, 1, scale)).toEqual(scale.equal);
    for (const value of [-5, 5]) expect(contrast(colorOf(value, 1, scale), scale.equal)).toBeGreaterThan(4);
  });
});
