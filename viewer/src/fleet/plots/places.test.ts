import { describe, expect, it } from "vitest";
import { differences, machineOf, placesOf } from "./places";

const on = (name: string, before: string | null, after: string | null = before) => ({ name, hosts: [before, after] as const });

describe("places of ranks on a map", () => {
  it("are a row per machine, however many ranks it has", () => {
    const placed = placesOf([on("rank 0", "n0"), on("rank 1", "n1"), on("rank 2", "n0"), on("rank 3", null, "n1"), on("rank 4", "n0")]);
    expect(placed).toMatchObject({ rows: ["n0", "n1"], columns: 3, hasMachines: true });
    expect([...placed.rank]).toEqual([0, 2, 4, 1, 3, -1]);
  });

  it("keep ranks apart that ran on other machines before", () => {
    expect(placesOf([on("rank 0", "n0", "m0"), on("rank 1", "n1", "m0")]).rows).toEqual(["n0 to m0", "n1 to m0"]);
    expect(machineOf(on("rank 0", "n0"))).toBe("n0");
  });

  it("are rows of neighbors if a machine is unknown", () => {
    const ranks = Array.from({ length: 33 }, (_, rank) => on(`rank ${rank}`, rank ? "n0" : null));
    const placed = placesOf(ranks);
    expect(placed).toMatchObject({ rows: ["rank 0 to 31", "rank 32"], columns: 32, hasMachines: false });
    expect([...placed.rank.subarray(31, 34)]).toEqual([31, 32, -1]);
    expect(placesOf([])).toMatchObject({ rows: [], columns: 0 });
  });

  it("have the difference of both sides, and none where a side lacks the rank", () => {
    const placed = placesOf([on("rank 0", "n0"), on("rank 1", "n1"), on("rank 2", "n1")]);
    const found = differences(placed, Float64Array.of(5, 1, Number.NaN), Float64Array.of(3, 1.5, 7));
    expect([...found]).toEqual([-2, Number.NaN, 0.5, Number.NaN]);
  });
});
