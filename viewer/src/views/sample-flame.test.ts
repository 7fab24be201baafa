import { describe, expect, it } from "vitest";
import { type Events, WEIGHT } from "../data/events";
import type { FlameNode } from "./flame";
import { flameOfSamples } from "./sample-flame";

/** Samples: start, time until the next, stack, and the time that each represents. */
function samples(...list: readonly (readonly [start: number, length: number, stack: number, weight: number])[]): Events {
  const before = new Float64Array(list.length + 1);
  list.forEach(([, length], at) => (before[at + 1] = before[at] + length));
  return {
    ...{ count: list.length, start: Float64Array.from(list, ([start]) => start), before, busy: before },
    ...{ name: new Uint16Array(list.length), row: null, table: null, value: null },
    links: new Map<string, Int32Array | Float64Array>([
      ["stack", Int32Array.from(list, ([, , stack]) => stack)],
      [WEIGHT, Float64Array.from(list, ([, , , weight]) => weight)],
    ]),
  };
}

// main > work, main > wait
const STACKS = { parent: Int32Array.of(-1, 0, 0), name: [0, 1, 2] };
const NAMES = ["main", "work", "wait"];

function flameOf(events: Events, start: number, end: number): FlameNode {
  return flameOfSamples([{ label: "thread", events }], STACKS, { start, end }, "Time", (name) => NAMES[name] ?? "").root;
}

describe("the flame graph of samples", () => {
  it("counts a sample with all the time that it represents, also beyond the next one", () => {
    const root = flameOf(samples([0, 2, 1, 5], [2, 0, 1, 5], [2, 4, 2, 4]), 0, 10);
    expect(root.weights).toEqual([14]);
    const [main] = root.children[0]?.children ?? [];
    expect(main).toMatchObject({ label: "main", weights: [14], count: 3 });
    expect(main?.children.map((one) => [one.label, one.weights[0], one.count])).toEqual([["work", 10, 2], ["wait", 4, 1]]);
  });

  it("has the samples that were taken in the area, the first instant included and the last one not", () => {
    const events = samples([10, 5, 1, 5], [20, 5, 1, 6], [30, 5, 1, 7]);
    expect(flameOf(events, 12, 20).weights).toEqual([]);
    expect(flameOf(events, 10, 30).weights).toEqual([11]);
    expect(flameOf(events, 20, 21).weights).toEqual([6]);
  });

  it("adds times beyond 32 bits", () => {
    expect(flameOf(samples([0, 1, 2, 3e9], [1, 1, 2, 3e9]), 0, 2).weights).toEqual([6e9]);
  });
});
