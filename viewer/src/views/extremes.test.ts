import { describe, expect, it } from "vitest";
import { readHead } from "../data/head";
import { Recording } from "../data/recording";
import { slowestStep } from "./extremes";
import { Model } from "./model";

function withSteps(lengths: readonly number[], excluded: readonly boolean[]): Model {
  const start_ns = lengths.map((_, i) => 1000 * i);
  const steps = [
    { label: "GPU 0", rows: [], start_ns, end_ns: start_ns.map((at, i) => at + (lengths[i] as number)), text: lengths.map(String), excluded },
  ];
  const text = JSON.stringify({ container_version: 1, start_ns: 0, end_ns: 9000, steps: lengths.length ? steps : [] });
  const none = { get: () => Promise.reject(new Error("none")) };
  const nobody = { order: () => Promise.reject(new Error("nobody")) };
  return new Model(new Recording(readHead(text), none as never, nobody as never));
}

describe("the slowest step", () => {
  it("is the longest of the analyzed ones, the first of equal ones", () => {
    expect(slowestStep(withSteps([900, 20, 30, 30], [true, false, false, false]))).toBe(2);
    expect(slowestStep(withSteps([10, 900], [true, true]))).toBe(1);
    expect(slowestStep(withSteps([], []))).toBe(-1);
  });
});
