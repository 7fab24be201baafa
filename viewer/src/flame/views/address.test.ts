import { describe, expect, it } from "vitest";
import { type Address, formatAddress, parseAddress } from "./address";

const FULL: Address = {
  of: "gpu", isPython: true, byThread: true, byLine: true, isInverted: true, thread: 3, search: "a&b=#", zoom: [4, 0, 12],
};

describe("the address", () => {
  it("has all that is shown", () => {
    expect(parseAddress(formatAddress(FULL))).toEqual(FULL);
  });

  it("may be empty or damaged", () => {
    const empty = parseAddress("");
    expect(empty).toEqual({ of: null, isPython: null, byThread: false, byLine: false, isInverted: false, thread: -1, search: "", zoom: [] });
    expect(parseAddress("#zoom=1..2&thread=-4&threads=yes")).toEqual(empty);
    expect(formatAddress(empty)).toBe("#");
  });
});
