import { describe, expect, it } from "vitest";
import type { Code, MemoryEdge, MemoryNode, Roofline } from "../data/document";
import { chosenMetric, hottestFile, hottestInstructions, hottestLines, isOf, stallsOf } from "./heat";
import { lineOf, nearestTo } from "./lines";
import { diagramOf } from "./memory";
import { ceilingText, rooflinePlot } from "./roofline";
import { exactText, underLabel, withUnit } from "./values";

const ROOM = { left: 0, right: 400, top: 0, bottom: 300 };

describe("values", () => {
  it.each([
    [1234, "ns", "1.23 us"],
    [0.5, "ratio", "50.0%"],
    [98, "%", "98.0%"],
    [1024, "byte/block", "1.00 KiB"],
    [66_700_000_000_000, "flop_per_s", "66.7 TFLOP/s"],
    [4_190_000, "sector", "4.19 M sector"],
    [9999, "", "9,999"],
    [5467.5, "", "5,468"],
    [0.0897, "warp", "0.090 warp"],
    [null, "ns", "–"],
    ["text", "", "text"],
  ])("%s %s", (value, unit, text) => expect(withUnit(value, unit)).toBe(text));

  it("leave out a noun that the label has, and keep a measure", () => {
    expect(underLabel(32, "register/thread")).toBe("32");
    expect(underLabel(4096, "byte/block")).toBe("4.00 KiB");
    expect(exactText(67_108_864, "inst")).toBe("67,108,864 inst");
  });
});

describe("the roofline", () => {
  const roofline: Roofline = {
    points: [
      { precision: "fp32", level: "DRAM", flop_per_byte: 1, flop_per_s: 1e12 },
      { precision: "fp32", level: "L2", flop_per_byte: null, flop_per_s: 1e12 },
    ],
    ceilings: [
      { kind: "compute", precision: "fp32", flop_per_s: 64e12, source: "nominal" },
      { kind: "compute", precision: "fp32", flop_per_s: 60e12, source: "clock" },
      { kind: "compute", precision: "fp64", flop_per_s: 32e12, source: "nominal" },
      { kind: "bandwidth", level: "DRAM", bytes_per_s: 2e12, source: "nominal" },
      { kind: "bandwidth", level: "L2", bytes_per_s: 8e12, source: "nominal" },
    ],
  };

  it("puts a point at half of the bandwidth below its line, as far as the scale says", () => {
    const plot = rooflinePlot(roofline, ROOM);
    const dram = plot?.roofs.find(({ name }) => name === "DRAM");
    const [point] = plot?.points ?? [];
    if (!plot || !dram || !point) throw new Error("nothing is drawn");
    const factor = Math.log(2) / Math.log(plot.y.high / plot.y.low);
    const atPoint = dram.y0 + ((point.x - dram.x0) / (dram.x1 - dram.x0)) * (dram.y1 - dram.y0);
    expect(point.y - atPoint).toBeCloseTo(factor * 300, 6);
  });

  it("ends each bandwidth at the highest compute ceiling", () => {
    const plot = rooflinePlot(roofline, ROOM);
    const top = Math.min(...(plot?.roofs ?? []).filter(({ kind }) => kind === "compute").map(({ y0 }) => y0));
    for (const roof of plot?.roofs.filter(({ kind }) => kind === "bandwidth") ?? []) expect(roof.y1).toBeCloseTo(top, 6);
  });

  it("has one label for the ceilings of a name, and keeps labels apart", () => {
    const labels = rooflinePlot(roofline, ROOM)?.labels ?? [];
    expect(ceilingText({ kind: "compute", precision: "tensor_bf16", flop_per_s: 712e12, source: "measured_clock" })).toBe("712 TFLOP/s (measured, at this clock)");
    expect(labels.map(({ text }) => text)).toContain("fp32 64.0 TFLOP/s (nominal), 60.0 TFLOP/s (clock)");
    const flat = labels.filter(({ angle }) => angle === 0).map(({ y }) => y).sort((a, b) => a - b);
    expect(flat).toHaveLength(2);
    expect((flat[1] as number) - (flat[0] as number)).toBeGreaterThanOrEqual(13);
  });

  it("is not drawn without a point or a ceiling", () => {
    expect(rooflinePlot({ ...roofline, points: [] }, ROOM)).toBeNull();
    expect(rooflinePlot({ ...roofline, ceilings: [] }, ROOM)).toBeNull();
  });
});

describe("the memory diagram", () => {
  const node = (id: string): MemoryNode => ({ id, label: id, ratio: null });
  const edge = (from: string, to: string, ratio: number | null = null): MemoryEdge => ({ from, to, requests: 1, bytes: null, ratio });
  const nodes = ["kernel", "global", "local", "shared", "l1", "l2", "system", "peer", "dram", "new"].map(node);

  it("has no boxes over each other", () => {
    const { boxes, width, height } = diagramOf(nodes, []);
    for (const one of boxes) {
      expect(one.height).toBeGreaterThan(20);
      expect(one.left + one.width).toBeLessThanOrEqual(width);
      expect(one.top + one.height).toBeLessThanOrEqual(height);
      for (const other of boxes) {
        const isApart = one.left + one.width <= other.left || other.left + other.width <= one.left || one.top + one.height <= other.top || other.top + other.height <= one.top;
        expect(one === other || isApart, `${one.node.id} ${other.node.id}`).toBe(true);
      }
    }
  });

  it("draws both directions apart, as wide as their share of the peak", () => {
    const { arrows } = diagramOf(nodes, [edge("l1", "l2", 0.1), edge("l2", "l1", 0.9), edge("l2", "nowhere")]);
    expect(arrows).toHaveLength(2);
    const [right, left] = arrows;
    if (!right || !left) throw new Error("nothing is drawn");
    expect(right.x0).toBeLessThan(right.x1);
    expect(left.x0).toBeGreaterThan(left.x1);
    expect(Math.abs(right.y0 - left.y0)).toBeGreaterThan(10);
    expect(left.width - right.width).toBeCloseTo(0.8 * 9);
  });
});

describe("lines", () => {
  it("are interrupted where there is no value", () => {
    expect(lineOf([0, 1, 2, 3], [0, 1, null, 1], ROOM, 1).path).toBe("M0.0 300.0L133.3 0.0M400.0 0.0");
    expect(nearestTo([0, 10, 20], 14)).toBe(1);
    expect(nearestTo([], 1)).toBe(-1);
  });
});

describe("heat", () => {
  const code = {
    metrics: [{ name: "samples", label: "Samples", unit: "" }, { name: "stall_wait", label: "Wait", unit: "" }, { name: "stall_lg", label: "LG", unit: "" }],
    instructions: [
      { offset: 0, file: 0, line: 7, ptx_line: 3, values: [5, 1, 4] },
      { offset: 16, file: 0, line: 8, ptx_line: 3, values: [9, 9, 0] },
      { offset: 32, file: null, line: null, ptx_line: null, values: [null, null, null] },
    ],
    files: [
      { path: "a.cu", kind: "CUDA C++", lines: [{ line: 7, text: "x", values: [5, 1, 4] }, { line: 8, text: "y", values: [9, 9, 0] }, { line: 9, text: "", values: null }] },
      { path: "", kind: "PTX", lines: [{ line: 3, text: "p", values: [14, 10, 4] }] },
    ],
  } as unknown as Code;

  it("ranks lines of the source, and those of PTX only without others", () => {
    expect(hottestLines(code.files, 0, 5).map(({ line, share }) => [line, share])).toEqual([[8, 9 / 14], [7, 5 / 14]]);
    expect(hottestLines(code.files.slice(1), 0, 5).map(({ line, share }) => [line, share])).toEqual([[3, 1]]);
    expect(hottestFile(code.files, 0)).toBe(0);
    expect(hottestInstructions(code.instructions, 0, 1)).toEqual([{ place: 1, value: 9 }]);
  });

  it("sums stalls by reason, most first", () => {
    expect(stallsOf(code, code.instructions)).toEqual([{ place: 1, value: 10 }, { place: 2, value: 4 }]);
    expect(stallsOf(code, code.instructions.slice(2))).toEqual([]);
  });

  it("knows the instructions of a line, and of a line of PTX", () => {
    const of = (file: number, line: number): number[] => code.instructions.flatMap((one, at) => (isOf(one, code.files, file, line) ? [at] : []));
    expect(of(0, 8)).toEqual([1]);
    expect(of(1, 3)).toEqual([0, 1]);
  });

  it("takes the metric that is named, else the first with values", () => {
    expect(chosenMetric(code, "stall_lg")).toBe(2);
    expect(chosenMetric(code, "unknown")).toBe(0);
  });
});
