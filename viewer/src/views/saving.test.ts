import { describe, expect, it } from "vitest";
import type { SummaryFinding } from "../data/head";
import { savingText } from "./saving";

const finding = (saving: Partial<SummaryFinding>): SummaryFinding => ({
  ...{ id: "F1", rule: "pageable-copy", severity: "high", title: "Pageable copies block the CPU thread" },
  ...saving,
});

describe("the estimated saving of a finding", () => {
  it("has its share without decimals and its bounds in one unit", () => {
    const found = finding({ saving_ns: 13.8e6, saving_low_ns: 12.9e6, saving_high_ns: 14e6, share: 0.8361 });
    expect(savingText(found, " per step")).toBe("13.8 ms per step (84%; bounds 12.9 to 14.0 ms)");
    expect(savingText(found, "")).toBe("13.8 ms (84%; bounds 12.9 to 14.0 ms)");
  });

  it("has bounds in two units where they differ", () => {
    const found = finding({ saving_ns: 1.2e6, saving_low_ns: 900e3, saving_high_ns: 1.5e6, share: 0.1 });
    expect(savingText(found, "")).toBe("1.20 ms (10%; bounds 900 us to 1.50 ms)");
  });

  it("is not measurable below 5% of a step", () => {
    const found = finding({ saving_ns: 1e3, saving_low_ns: 0, saving_high_ns: 2e3, share: 0.01 });
    expect(savingText(found, " per step")).toBe("not measurable, at most 2.00 us per step");
  });

  it("is empty where none is predicted", () => {
    expect(savingText(finding({}), " per step")).toBe("");
  });
});
