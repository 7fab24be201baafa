import { describe, expect, it } from "vitest";
import { encodeContainer } from "../../dev/encode";
import { startDecoders } from "../data/decoders";
import { Recording } from "../data/recording";
import { StoppedError } from "../data/server";
import { formatAddress, parseAddress } from "./address";
import { KEYS } from "./keys";
import { Model } from "./model";

const CATEGORIES = [
  { name: "gemm", kind: "busy", meaning: "" },
  { name: "cuda-api", kind: "api", meaning: "" },
  { name: "nvtx", kind: "range", meaning: "" },
] as const;

async function model(): Promise<Model> {
  const delta = (values: number[]) => ({ encoding: "delta" as const, values });
  const { head, blocks } = encodeContainer(
    {
      start_ns: 0,
      end_ns: 10_000,
      categories: CATEGORIES,
      tables: ["kernel", "api_call"],
      links: [{ name: "launch", table: "api_call", text: "launched by" }],
      steps: [
        { label: "", rows: [], start_ns: [0, 5000], end_ns: [4000, 9000], text: ["a", "b"], excluded: [false, false] },
      ],
      findings: [
        { id: "F1", windows_ns: [[6000, 7000]], rows: ["gpu/s"], events: ["kernel:7"], colour: "cause" },
      ],
      summary: { findings: [{ id: "F1", rule: "x", severity: "high", title: "x" }, { id: "F2", rule: "y", severity: "low", title: "y" }] },
    },
    [["gemm", 0], ["other", 0], ["launch", 1], ["forward", 2]],
    [
      { id: "gpu", parent: null, label: "GPU", kind: "group", collapsed: true },
      {
        id: "gpu/s",
        parent: "gpu",
        label: "stream",
        kind: "stream",
        table: 0,
        events: {
          start: [1000, 3000, 6000],
          duration: [500, 500, 500],
          name: [0, 1, 0],
          columns: { row: delta([5, 6, 7]), launch: { encoding: "optional-delta", values: [0, 1, 1] } },
        },
      },
      {
        id: "cpu/r",
        parent: null,
        label: "ranges",
        kind: "range",
        thread: 1,
        events: { start: [0], duration: [4000], name: [3] },
      },
      {
        id: "cpu/api",
        parent: null,
        label: "api",
        kind: "api",
        thread: 1,
        table: 1,
        events: { start: [100, 200], duration: [50, 50], name: [2, 2], columns: { row: delta([0, 1]) } },
      },
    ],
  );
  const source = { get: (i: number) => Promise.resolve(blocks[i] as Uint8Array) };
  const recording = new Recording(head, source, startDecoders("", 0));
  await recording.loadNames();
  await recording.loadEvents(() => undefined);
  return new Model(recording);
}

async function chosen(page: Model, row: number, event: number): Promise<void> {
  page.select(await page.recording.answers.event(row, event));
  await answered();
}

/** Answers of a recording in the page arrive within one task. */
const answered = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

describe("the page's state", () => {
  it("follows links from a kernel to its call and from a call to its kernels", async () => {
    const page = await model();
    await chosen(page, 1, 2);
    expect(page.arrows.value).toMatchObject([
      { from: { row: 3, event: 1 }, to: { row: 1, event: 2 }, isQueue: true },
    ]);
    expect(page.around.value).toMatchObject([{ row: 2, event: 0 }]);
    await page.followLink(true);
    await answered();
    expect(page.selected.value).toMatchObject({ row: 3, event: 1 });
    expect(page.arrows.value.map((arrow) => arrow.to.event)).toEqual([1, 2]);
  });

  it("walks the events of a row and the rows, one step after the other", async () => {
    const page = await model();
    page.toggle("collapsed", "gpu");
    await chosen(page, 1, 0);
    void page.stepEvent(1);
    await page.stepEvent(1);
    expect(page.selected.value?.id).toBe("kernel:7");
    await page.stepEvent(1);
    expect(page.selected.value?.id).toBe("kernel:7");
    await page.stepRow(1);
    expect(page.selected.value).toMatchObject({ row: 2, event: 0 });
    await page.stepRow(-1);
    expect(page.selected.value).toMatchObject({ row: 1, event: 0 });
  });

  it("walks what a search finds in time, over rows, both ways", async () => {
    const page = await model();
    page.toggle("collapsed", "gpu");
    page.query.value = "/^(gemm|forward)$/";
    const seen: string[] = [];
    for (let i = 0; i < 4; i++) {
      await page.stepMatch(1);
      seen.push(page.selected.value?.id ?? "");
    }
    expect(seen).toEqual(["cpu/r#0", "kernel:5", "kernel:7", "kernel:7"]);
    await page.stepMatch(-1);
    expect(page.selected.value).toMatchObject({ row: 1, event: 0 });
  });

  it("begins where the devices worked, unless an address says otherwise", async () => {
    const page = await model();
    const bins = 100;
    const coverage = new Uint8Array(bins * page.recording.head.rows.length);
    for (let bin = 20; bin < 40; bin++) coverage[1 * bins + bin] = 9; // of the stream
    coverage.fill(255, 2 * bins, 3 * bins); // of a row of the host
    page.recording.overview = { bins, coverage, category: coverage };
    page.goHome();
    expect(page.view.value).toEqual({ start: 2000 - 60, end: 4000 + 60 });
    expect(page.address().view).toBeNull();
    page.show(page.limits);
    expect(page.address().view).toEqual(page.limits);
    page.go({ ...page.address(), view: null });
    expect(page.view.value).toEqual(page.home);

    const other = await model();
    other.recording.overview = page.recording.overview;
    other.show({ start: 5, end: 50 });
    other.goHome();
    expect(other.view.value).toEqual({ start: 5, end: 50 });
    coverage.fill(1, 1 * bins, 2 * bins);
    other.goHome();
    expect(other.home).toEqual(other.limits);
  });

  it("lights a part of a device's time and walks its stretches in that row alone", async () => {
    const page = await model();
    page.page.value = "overview";
    page.light([0, 2], "two", [1]);
    await page.stepMatch(1);
    expect(page.selected.value?.id).toBe("kernel:5");
    await page.stepMatch(1);
    expect(page.selected.value?.id).toBe("kernel:7"); // not the calls, which have the name, too
    await page.stepMatch(1);
    expect(page.told.value).toContain("No later");
    page.showPart(7, "gemm");
    expect(page.page.value).toBe("timeline");
    expect(page.lighting.value).toMatchObject({ title: "gemm", rows: null });
  });

  it("lights names from a table or from a search, never what both share", async () => {
    const page = await model();
    page.search("forward");
    expect([...(page.lit.value ?? [])]).toEqual([0, 0, 0, 1]);
    page.light([0]);
    expect([...(page.lit.value ?? [])]).toEqual([1, 0, 0, 0]);
    page.search("launch");
    expect([...(page.lit.value ?? [])]).toEqual([0, 0, 1, 0]);
    page.search("");
    expect(page.lit.value).toBeNull();
  });

  it("shows a finding with its rows, window, colours and event", async () => {
    const page = await model();
    page.stepFinding(1);
    expect(page.collapsed.value.has("gpu")).toBe(false);
    expect(page.mode.value).toBe("cause");
    expect(page.layout.value.pinned.map((one) => one.row)).toEqual([1]); // in view wherever it lies
    expect(page.pinned.value).toEqual([]);
    expect(page.view.value.start).toBeLessThanOrEqual(6000);
    expect(page.view.value.end).toBeGreaterThanOrEqual(7000);
    await answered();
    expect(page.selected.value).toMatchObject({ row: 1, event: 2 });
    page.stepFinding(1);
    expect(page.finding.value).toBe("F2");
    expect(page.layout.value.pinned).toEqual([]);
    page.stepFinding(1);
    expect(page.finding.value).toBe("F1");
  });

  it.each([1, -1] as const)("starts with the first step of a view that has several (%i)", async (direction) => {
    const page = await model();
    expect(page.view.value).toEqual(page.limits);
    page.stepStep(direction);
    expect(page.step.value).toBe(0);
    page.stepStep(1);
    expect(page.step.value).toBe(1);
    page.show({ start: 4400, end: 4420 }); // between the steps
    page.stepStep(direction);
    expect(page.step.value).toBe(direction > 0 ? 1 : 0);
  });

  it("hides a row that is pinned, and pins it again when it is shown", async () => {
    const page = await model();
    page.togglePin("cpu/r");
    expect(page.layout.value.pinned.map((one) => one.row)).toEqual([2]);
    page.toggle("hidden", "cpu/r");
    expect(page.layout.value.pinned).toEqual([]);
    expect(page.layout.value.scrolled.map((one) => one.row)).not.toContain(2);
    page.toggle("hidden", "cpu/r");
    expect(page.layout.value.pinned.map((one) => one.row)).toEqual([2]);
  });

  it("walks steps and goes back", async () => {
    const page = await model();
    page.show({ start: 100, end: 300 });
    page.stepStep(1);
    expect(page.step.value).toBe(1);
    page.stepStep(-1);
    expect(page.step.value).toBe(0);
    page.back();
    page.back();
    expect(page.view.value).toEqual({ start: 100, end: 300 });
  });

  it("comes back from its own address", async () => {
    const page = await model();
    await chosen(page, 1, 1);
    page.show({ start: 2000, end: 4000 });
    page.togglePin("gpu/s");
    page.area.value = { span: { start: 2500, end: 3100 }, rows: null };
    const text = page.addressText();
    const other = await model();
    const address = parseAddress(text);
    if (!address) throw new Error("no address");
    other.go(address);
    await answered();
    expect(formatAddress(other.address())).toBe(text);
    expect(other.selected.value).toMatchObject({ row: 1, event: 1 });
  });
});

describe("keys", () => {
  it("have one meaning each", () => {
    const all = KEYS.flatMap((key) => key.keys);
    expect(new Set(all).size).toBe(all.length);
  });
});

/** Makes the page ask for its sums as from a server; returns the questions that wait for their answers. */
function slowSums(page: Model): { answer: () => void; fail: () => void; spans: number[][] } {
  const { answers } = page.recording;
  const spans: number[][] = [];
  const waiting: ((isHere: boolean) => void)[] = [];
  const sums: typeof answers.sums = (rows, span) => {
    spans.push([span.start, span.end]);
    return new Promise((resolve, reject) =>
      waiting.push((isHere) => (isHere ? resolve(answers.sums(rows, span)) : reject(new StoppedError()))),
    );
  };
  const all = Object.assign(Object.create(answers) as typeof answers, { sums });
  Object.assign(page.recording, { answers: all });
  return { answer: () => waiting.splice(0).forEach((one) => one(true)), fail: () => waiting.splice(0).forEach((one) => one(false)), spans };
}

describe("the sums of the view", () => {
  it("are pending, not those of an earlier view, until their own arrive", async () => {
    const page = await model();
    page.isComplete.value = true;
    page.toggle("collapsed", "gpu");
    await answered();
    expect(page.isSumming.value).toBe(false);
    const { answer, spans } = slowSums(page);
    page.show({ start: 1000, end: 1500 });
    await answered();
    expect(page.isSumming.value).toBe(true);
    page.show({ start: 6000, end: 6100 }); // while the first question is out
    answer();
    await answered();
    expect(spans).toContainEqual([6000, 6100]);
    expect(page.isSumming.value).toBe(true);
    expect(page.sums.value.area.span).not.toEqual({ start: 6000, end: 6100 });
    answer();
    await answered();
    expect(page.isSumming.value).toBe(false);
    const { area, rows } = page.sums.value;
    expect(area.span).toEqual({ start: 6000, end: 6100 });
    expect(rows.find(({ row }) => row === 1)).toMatchObject({ first: 2, last: 3, busy_ns: 100 });
  });

  it("stay pending without a server, and are asked again when it is back", async () => {
    const page = await model();
    page.isComplete.value = true;
    await answered();
    const { answer, fail } = slowSums(page);
    page.show({ start: 1000, end: 1500 });
    await answered();
    page.isServerGone.value = true;
    fail();
    await answered();
    expect(page.isSumming.value).toBe(true);
    page.isServerGone.value = false;
    page.arrived.value++;
    answer();
    await answered();
    expect(page.isSumming.value).toBe(false);
  });

  it("are pending while events are still being read", async () => {
    const page = await model();
    await answered();
    expect(page.isSumming.value).toBe(true);
    page.isComplete.value = true;
    expect(page.isSumming.value).toBe(false);
  });
});

describe("the clock", () => {
  it("is that of the step in view, otherwise that of the tables", async () => {
    const page = await model();
    page.show({ start: 4000, end: 4900 }); // between two steps
    expect(page.clock.value).toEqual({ origin: 0, name: "start of recording", device: "" });
    page.show({ start: 5100, end: 5200 });
    expect(page.clock.value).toEqual({ origin: 5000, name: "b", device: "" });
    expect([5101, 5102].map((time) => page.momentText(time))).toEqual(["101 ns", "102 ns"]);
    page.isFromStep.value = false;
    expect(page.momentText(5101)).toBe("5.101 us");
  });

  it("tells apart what the view tells apart", async () => {
    const page = await model();
    page.isFromStep.value = false;
    const texts = Array.from({ length: 11 }, (_, i) => page.momentText(6000 + 90 * i));
    expect(new Set(texts).size).toBe(11);
  });
});

describe("errors", () => {
  it("of requests to a stopped server are said by the page, others as they are", async () => {
    const page = await model();
    page.fail(new StoppedError());
    expect(page.failure.value).toBeNull();
    page.fail(new Error("The server returned status 404."));
    expect(page.failure.value).toBe("The server returned status 404.");
    page.fail(null);
    page.attempt(Promise.reject(new StoppedError()));
    await answered();
    expect(page.told.value).toBe("The server has stopped.");
  });
});
