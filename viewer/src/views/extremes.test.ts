import { describe, expect, it } from "vitest";
import { readHead } from "../data/head";
import { Recording } from "../data/recording";
import { slowestStep } from "./extremes";
import { Model } from "./model";

/** Steps of a GPU, 1000 ns apart; named by the GPU and their number. */
function stepsOf(gpu: number, lengths: readonly number[], excluded: readonly boolean[]) {
  const start_ns = lengths.map((_, i) => 1000 * i);
  const text = lengths.map((_, i) => `${gpu}/${i}`);
  return { label: `GPU ${gpu}`, rows: [`gpu${gpu}`], start_ns, end_ns: start_ns.map((at, i) => at + (lengths[i] as number)), text, excluded };
}

function withSteps(...steps: readonly ReturnType<typeof stepsOf>[]): Model {
  const text = JSON.stringify({ container_version: 1, start_ns: 0, end_ns: 9000, steps });
  const none = { get: () => Promise.reject(new Error("none")) };
  const nobody = { order: () => Promise.reject(new Error("nobody")) };
  return new Model(new Recording(readHead(text), none as never, nobody as never));
}

describe("the slowest step", () => {
  it("is the longest of the analyzed ones, the first of equal ones", () => {
    expect(slowestStep(withSteps(stepsOf(0, [900, 20, 30, 30], [true, false, false, false])))?.text).toBe("0/2");
    expect(slowestStep(withSteps(stepsOf(0, [10, 900], [true, true])))?.text).toBe("0/1");
    expect(slowestStep(withSteps())).toBeNull();
  });
  it("may be on any GPU", () => {
    const found = slowestStep(withSteps(stepsOf(0, [10, 20], [false, false]), stepsOf(1, [10, 30], [false, false])));
    expect(found).toMatchObject({ text: "1/1", start: 1000, end: 1030, of: { label: "GPU 1" } });
  });
});
