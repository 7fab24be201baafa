import { describe, expect, test } from "vitest";
import type { StepsSpec } from "../data/head";
import { readAxes, readStepView, viewAtStep, viewFromStep } from "./twin";

const steps = (...start_ns: number[]): StepsSpec => ({
  label: "steps",
  rows: [],
  start_ns,
  end_ns: start_ns.map((start) => start + 90),
  text: start_ns.map(String),
  excluded: start_ns.map(() => false),
});

describe("a view relative to a step", () => {
  test("is shown at the step of the same number, with the same length", () => {
    const view = viewFromStep({ start: 110, end: 150 }, steps(0, 100, 200), 0);
    expect(view).toEqual({ step: 1, start: 10, end: 50 });
    expect(viewAtStep(view, steps(1000, 1300, 1600), 900)).toEqual({ start: 1310, end: 1350 });
  });

  test("before the first step is relative to the first", () => {
    expect(viewFromStep({ start: -50, end: -10 }, steps(0, 100), -60)).toEqual({ step: 0, start: -50, end: -10 });
  });

  test("without steps is relative to the start of the recording", () => {
    const view = viewFromStep({ start: 70, end: 90 }, undefined, 50);
    expect(view).toEqual({ step: -1, start: 20, end: 40 });
    expect(viewAtStep(view, steps(500), 400)).toEqual({ start: 420, end: 440 });
  });

  test("is not shown if the step does not exist", () => {
    expect(viewAtStep({ step: 2, start: 0, end: 5 }, steps(0, 100), 0)).toBeNull();
  });
});

test.each([null, 1, "follow", {}, { step: 0, start: 0, end: Number.NaN }, { step: 0.5, start: 0, end: 1 }, { step: 0, start: 2, end: 1 }, { step: 0, start: "0", end: 1 }])(
  "%j is no view",
  (message) => {
    expect(readStepView(message)).toBeNull();
  },
);

test("axes in common are upper ends by row", () => {
  expect(readAxes({ axes: { "gpu0/health/power": 700 } })).toEqual(new Map([["gpu0/health/power", 700]]));
  for (const message of [null, "follow", {}, { axes: 1 }, { axes: null }, { axes: { row: "700" } }]) expect(readAxes(message)).toBeNull();
});
