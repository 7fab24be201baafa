import { describe, expect, it } from "vitest";
import { formatAddress, parseAddress } from "./address";

describe("the address", () => {
  it.each([
    { by: "kind", axis: "time", place: 0, state: null },
    { by: "line", axis: "events", place: 3, state: 1200 },
  ] as const)("is read as it was written: %o", (address) => expect(parseAddress(formatAddress(address), "module")).toEqual(address));

  it("has no nonsense", () => {
    expect(parseAddress("#by=<b>&axis=x&gpu=-1&state=1e9", "module")).toEqual({ by: "module", axis: "time", place: 0, state: null });
  });
});
