import { describe, expect, it } from "vitest";
import { fuzzyFind, fuzzyScore } from "./fuzzy";

const find = (typed: string, ...items: string[]): string[] =>
  fuzzyFind(items, (item) => item, typed, 10);

describe("fuzzy search", () => {
  it("finds letters in order, and nothing else", () => {
    expect(fuzzyScore("gs7", "GPU 0 · stream 7")).not.toBeNull();
    expect(fuzzyScore("7sg", "GPU 0 · stream 7")).toBeNull();
    expect(fuzzyScore("gpu 9", "GPU 0 · stream 7")).toBeNull();
  });

  it("prefers whole words, then beginnings of words, then the shorter text", () => {
    expect(find("fit", "Profit of all", "Fit the selection", "f-i-t")).toEqual([
      "Fit the selection",
      "Profit of all",
      "f-i-t",
    ]);
    expect(find("ct", "act", "Copy table")[0]).toBe("act"); // a part of a word in one piece
    expect(find("cl", "cycle long", "Copy link")[0]).toBe("cycle long");
    expect(find("cpl", "Copy link", "cap all")[0]).toBe("Copy link");
    expect(find("step", "Next step of the run", "Next step")).toEqual(["Next step", "Next step of the run"]);
  });

  it("takes words in any order and knows camel case", () => {
    expect(find("7 stream", "GPU 0 · stream 7", "GPU 0 · stream 8")).toEqual(["GPU 0 · stream 7"]);
    expect(find("launch", "cudaLaunchKernel", "prelaunched")[0]).toBe("cudaLaunchKernel");
  });

  it("keeps the order without a query, and takes no sign for a pattern", () => {
    expect(find("", "b", "a")).toEqual(["b", "a"]);
    expect(find(".*", "abc", "a.*b")).toEqual(["a.*b"]);
  });
});
