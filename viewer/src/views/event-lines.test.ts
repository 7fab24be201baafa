import { describe, expect, it } from "vitest";
import type { Events } from "../data/events";
import { countOfRows, EventSet, filtered, readFilter, sortedPlaces, spreadOf, spreadOfPlaces, spreadsByName } from "./event-lines";

function events(...list: readonly (readonly [start: number, length: number, name: number])[]): Events {
  const before = new Float64Array(list.length + 1);
  list.forEach(([, length], i) => {
    before[i + 1] = (before[i] as number) + length;
  });
  return {
    ...{ count: list.length, start: Float64Array.from(list, ([start]) => start), before, busy: before },
    ...{ name: Uint16Array.from(list, ([, , name]) => name), row: null, table: null, value: null, links: new Map() },
  };
}

const one = events([0, 30, 0], [40, 5, 1], [50, 700, 0]);
const two = events([10, 200, 2], [300, 30, 1]);
const set = EventSet.of(
  [
    { row: 4, first: 7, last: 10, busy_ns: 735 },
    { row: 6, first: 0, last: 2, busy_ns: 230 },
  ],
  [one, two],
) as EventSet;
const every = filtered(set, readFilter(""), () => true, () => false);
const lengths = (places: Uint32Array): (number | undefined)[] => [...places].map((place) => set.at(place)?.length);

describe("the events of an area", () => {
  it("are numbered as in their rows", () => {
    expect(set.count).toBe(5);
    expect(set.at(2)).toEqual({ row: 4, event: 9, name: 0, start: 50, length: 700 });
    expect(set.at(3)).toEqual({ row: 6, event: 0, name: 2, start: 10, length: 200 });
    expect(set.at(5)).toBeNull();
    expect(EventSet.of([{ row: 4, first: 7, last: 9, busy_ns: 0 }], [one])).toBeNull();
  });

  it("are sorted by each column, equal ones in their order", () => {
    const sorted = (column: "name" | "row" | "start" | "time", isFalling: boolean): Uint32Array =>
      sortedPlaces(set, every, column, isFalling, (name) => -name);
    expect(lengths(sorted("time", true))).toEqual([700, 200, 30, 30, 5]);
    expect([...sorted("time", false)]).toEqual([1, 0, 4, 3, 2]);
    expect([...sorted("start", false)]).toEqual([0, 3, 1, 2, 4]);
    expect([...sorted("name", false)]).toEqual([3, 1, 4, 0, 2]);
    expect([...sorted("row", true)]).toEqual([3, 4, 0, 1, 2]);
  });

  it("are filtered by name, row, and duration", () => {
    const places = (typed: string, names: number[], rows: number[]): number[] => [
      ...filtered(set, readFilter(typed), (name) => names.includes(name), (row) => rows.includes(row)),
    ];
    expect(places("", [0], [])).toEqual([0, 2]);
    expect(places("", [], [6])).toEqual([3, 4]);
    expect(places(">30ns <0.2us", [0, 1, 2], [])).toEqual([0, 3, 4]);
    expect(places(">0.2us", [0, 1, 2], [])).toEqual([2, 3]);
  });

  it("are counted by row", () => {
    expect(countOfRows(set, every, (row) => row === 6)).toBe(2);
    expect(countOfRows(set, Uint32Array.of(4, 0), (row) => row === 6)).toBe(1);
  });

  it("have a spread", () => {
    expect(spreadOfPlaces(set, every)).toEqual({ count: 5, mean: 193, min: 5, median: 30, max: 700 });
    expect(spreadOfPlaces(set, Uint32Array.of(1, 3))).toEqual({ count: 2, mean: 102.5, min: 5, median: 102.5, max: 200 });
    expect(spreadOf(new Float64Array(0))).toBeNull();
    expect(spreadsByName(set, 4)).toEqual(
      new Map([
        [0, { count: 2, mean: 365, min: 30, median: 365, max: 700 }],
        [1, { count: 2, mean: 17.5, min: 5, median: 17.5, max: 30 }],
        [2, { count: 1, mean: 200, min: 200, median: 200, max: 200 }],
      ]),
    );
  });

  it("reads bounds of durations beside a text or pattern", () => {
    expect(readFilter("  gemm >10us  <1.5ms fused ")).toEqual({ pattern: /gemm fused/i, least: 1e4, most: 1.5e6 });
    expect(readFilter("/^a b$/")).toEqual({ pattern: /^a b$/, least: 0, most: Number.POSITIVE_INFINITY });
    expect(readFilter("f<int>").pattern?.test("f<INT>")).toBe(true);
    expect(readFilter("").pattern).toBeNull();
  });
});
