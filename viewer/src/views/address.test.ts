import { describe, expect, it } from "vitest";
import { type Address, formatAddress, parseAddress } from "./address";

const FULL: Address = {
  page: "timeline",
  view: { start: -12, end: 12_419_200_000 },
  selected: "kernel:48211",
  area: { start: 5, end: 9 },
  pinned: ["gpu0/busy", "thread & <x>#1"],
  hidden: ["gpu1"],
  finding: "F2",
  colour: "cause",
  query: "/gemm|attn&?#/i",
  table: "cuda_gpu_kern_sum",
  bookmarks: [{ time: 77, text: "slow ~ here\n#2" }],
};

describe("addresses", () => {
  it("survive being written and read", () => {
    expect(parseAddress(formatAddress(FULL))).toEqual(FULL);
    for (const page of ["overview", "timeline", "plots", "tables", "environment"] as const) {
      expect(parseAddress(formatAddress({ ...FULL, page }))?.page).toBe(page);
    }
  });

  it("take the times of other writers and leave out nonsense", () => {
    expect(parseAddress("#t?v=12.4e9,12.5e9")?.view).toEqual({ start: 12.4e9, end: 12.5e9 });
    expect(parseAddress("#t?v=9,3&c=purple&b=x")).toMatchObject({ view: null, colour: "category", bookmarks: [] });
    expect(parseAddress("")).toBeNull();
    expect(parseAddress("#findings")).toBeNull();
  });
});
