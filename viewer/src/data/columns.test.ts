import { describe, expect, it } from "vitest";
import { encodeColumn } from "../../dev/encode";
import { decodeColumn, decodeValue } from "./columns";
import type { Encoding } from "./head";

function roundTrip(values: number[], encoding: Encoding): number[] {
  const { spec, bytes } = encodeColumn("x", values, encoding);
  return [...decodeColumn(bytes, 0, values.length, spec)];
}

describe("columns", () => {
  it("reads planes from the lowest byte up", () => {
    const bytes = Uint8Array.of(1, 2, 3, 0, 1, 0);
    expect([...decodeColumn(bytes, 0, 3, { name: "x", planes: 2 })]).toEqual([1, 258, 3]);
  });

  it.each(["plain", "optional", "delta", "optional-delta"] as const)("gives back %s", (encoding) => {
    const values = [0, 1, 255, 256, 70_000, 3, 2 ** 32, 2 ** 51, 2 ** 40 + 1, 0];
    expect(roundTrip(values, encoding)).toEqual(values);
    expect(roundTrip([], encoding)).toEqual([]);
  });

  it("keeps what is missing apart from 0", () => {
    expect(roundTrip([-1, 0, 5, -1], "optional")).toEqual([-1, 0, 5, -1]);
    expect(roundTrip([7, -1, 0, 9], "optional-delta")).toEqual([7, -1, 0, 9]);
  });

  it("gives back floats", () => {
    expect(roundTrip([0, -1.5, 1e30], "float64")).toEqual([0, -1.5, 1e30]);
    expect(roundTrip([0.1], "float32")).toEqual([Math.fround(0.1)]);
  });

  it.each(["plain", "optional", "delta", "optional-delta", "float32", "float64"] as const)(
    "gives one value of %s as it gives all",
    (encoding) => {
      const values = [0, 7, 255, 65_536, 2 ** 24, 12, 2 ** 31 + 5];
      const { spec, bytes } = encodeColumn("x", values, encoding);
      const all = decodeColumn(bytes, 0, values.length, spec);
      values.forEach((_, place) => {
        expect(decodeValue(bytes, 0, values.length, spec, place)).toBe(all[place]);
      });
    },
  );

  it.each([
    { planes: 0 },
    { planes: 9 },
    { planes: 1.5 },
    { planes: -1 },
    { planes: 3, encoding: "float64" as const },
  ])("refuses a column of %o", (wrong) => {
    expect(() => decodeColumn(new Uint8Array(64), 0, 3, { name: "x", ...wrong })).toThrow("Invalid description");
  });

  it("refuses a column that reaches beyond its block", () => {
    const column = { name: "x", planes: 2 };
    expect(() => decodeColumn(new Uint8Array(5), 0, 3, column)).toThrow("exceeds");
  });
});
