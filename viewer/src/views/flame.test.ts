import { describe, expect, it } from "vitest";
import { seeded } from "../../dev/random";
import type { Events } from "../data/events";
import type { ResultTable } from "../data/head";
import { flameOfArea, type Launched } from "./area-flame";
import { flameBoxes, type FlameNode, flameOfTable, neighbour, nodeAt } from "./flame";

function columns(...names: string[]): ResultTable["columns"] {
  return names.map((name) => ({ name, title: name, unit: "none" }));
}

const LAYERS: ResultTable = {
  columns: columns("depth", "calls", "device_busy_ns", "host_ns", "name"),
  rows: [
    [0, 6, 100, 400, "step_*"],
    [1, 6, 0, 40, "  data"],
    [1, 6, 90, 200, "  forward"],
    [2, 12, 80, 90, "    layer"],
    [1, 6, 30, 100, "  backward"],
    [0, 3, 50, 10, "other"],
  ],
};

function find(node: FlameNode, ...labels: string[]): FlameNode {
  return labels.reduce((at, label) => {
    const child = at.children.find((one) => one.label === label);
    if (!child) throw new Error(`no ${label} in ${at.children.map((one) => one.label).join()}`);
    return child;
  }, node);
}

describe("the flame graph of a table", () => {
  it("has its numbers, under the rows that they lie in", () => {
    const flame = flameOfTable("layers", LAYERS, (line) => [line]);
    expect(flame?.weights).toEqual(["GPU time", "CPU time"]);
    const root = flame?.root as FlameNode;
    expect(root.weights).toEqual([150, 410]);
    expect(find(root, "step_*", "forward", "layer")).toMatchObject({ weights: [80, 90], count: 12, names: [3] });
    expect(find(root, "step_*").children.map((one) => one.label)).toEqual(["data", "forward", "backward"]);
    expect(find(root, "other").children).toEqual([]);
  });

  it("takes the last name of a path, even where names hold slashes", () => {
    const table: ResultTable = {
      columns: columns("path", "depth", "calls", "total_ns", "idle_ns"),
      rows: [["a/b", 0, 1, 10, 1], ["a/b/c/d", 1, 1, 5, 1], ["a/b/c/d/e", 2, 1, 5, 1], ["z", 0, 1, 1, 1]],
    };
    const root = flameOfTable("phases", table, () => [])?.root as FlameNode;
    expect(find(root, "a/b", "c/d", "e").weights).toEqual([5, 1]);
    expect(find(root, "z").weights).toEqual([1, 1]);
  });

  it("is none of a table that is no tree", () => {
    expect(flameOfTable("steps", LAYERS, () => [])).toBeNull();
    expect(flameOfTable("layers", { ...LAYERS, columns: columns("depth", "calls", "x", "y", "name") }, () => [])).toBeNull();
    expect(flameOfTable("layers", { ...LAYERS, rows: [] }, () => [])).toBeNull();
  });
});

describe("the places of a flame graph", () => {
  const root = flameOfTable("layers", LAYERS, () => [])?.root as FlameNode;
  const box = (label: string, zoomed: number[] = [], weight = 1) =>
    flameBoxes(root, weight, zoomed).find((one) => one.node.label === label);

  it("gives children their share of what they lie in", () => {
    expect(box("forward")).toMatchObject({ level: 2, width: 200 / 410, x: 40 / 410 });
    expect(box("layer")?.width).toBeCloseTo(90 / 410);
    expect(box("other")?.x).toBeCloseTo(400 / 410);
  });

  it("lets children that take longer together share the width", () => {
    expect(box("forward", [], 0)?.width).toBeCloseTo((100 / 150) * (90 / 120));
    expect(box("backward", [], 0)?.width).toBeCloseTo((100 / 150) * (30 / 120));
  });

  it("zooms into one, with what it lies in above", () => {
    expect(box("forward", [0, 1])).toMatchObject({ x: 0, width: 1 });
    expect(box("step_*", [0, 1])).toMatchObject({ x: 0, width: 1 });
    expect(box("layer", [0, 1])?.width).toBeCloseTo(90 / 200);
    expect(box("backward", [0, 1])).toBeUndefined();
    expect(nodeAt(root, [0, 1, 0]).label).toBe("layer");
    expect(nodeAt(root, [0, 9]).label).toBe("step_*");
  });

  it("leaves out what no pixel shows, and walks by keys", () => {
    expect(flameBoxes(root, 1, [], 0.2).map((one) => one.node.label)).toEqual(["all", "step_*", "forward", "layer", "backward"]);
    const boxes = flameBoxes(root, 1, []);
    const at = (label: string) => boxes.findIndex((one) => one.node.label === label);
    expect(neighbour(boxes, at("forward"), "ArrowRight")).toBe(at("backward"));
    expect(neighbour(boxes, at("backward"), "ArrowLeft")).toBe(at("forward"));
    expect(neighbour(boxes, at("forward"), "ArrowDown")).toBe(at("layer"));
    expect(neighbour(boxes, at("layer"), "ArrowUp")).toBe(at("forward"));
    expect(neighbour(boxes, at("layer"), "ArrowDown")).toBe(at("layer"));
    expect(neighbour(boxes, at("all"), "ArrowUp")).toBe(at("all"));
  });
});

const TEXTS = ["step", "mm", "launch", "gemm", "late"];

type Made = readonly [start: number, end: number, name: number];

function row(...events: readonly Made[]): Events {
  return rowOf(events);
}

function rowOf(events: readonly Made[]): Events {
  const before = new Float64Array(events.length + 1);
  events.forEach(([start, end], i) => {
    before[i + 1] = (before[i] as number) + end - start;
  });
  return {
    ...{ count: events.length, row: null, table: null, value: null, links: new Map() },
    start: Float64Array.from(events, ([start]) => start),
    ...{ before, busy: before },
    name: Uint32Array.from(events, ([, , name]) => name),
  } as Events;
}

describe("the flame graph of an area", () => {
  const threads = [
    {
      label: "main",
      rows: [
        row([0, 100, 0], [100, 200, 0]),
        row([10, 60, 1], [100, 130, 1]),
        row([20, 30, 2], [40, 50, 2], [110, 120, 2], [190, 200, 2]),
      ],
    },
  ];
  const launched: Launched[] = [
    { thread: 0, time: 20, name: 3, ns: 7 },
    { thread: 0, time: 110, name: 3, ns: 5 },
    { thread: 0, time: 190, name: 4, ns: 2 },
    { thread: -1, time: 0, name: 4, ns: 1 },
  ];
  const flame = flameOfArea(threads, launched, { start: 25, end: 195 }, (name) => TEXTS[name] ?? "");
  const main = find(flame.root, "main");

  it("cuts host times to the area and puts equal stacks together", () => {
    expect(find(main, "step").weights[0]).toBe(170);
    expect(find(main, "step", "mm").weights[0]).toBe(35 + 30);
    expect(find(main, "step", "mm", "launch")).toMatchObject({ weights: [5 + 10 + 10, 12], count: 3 });
    expect(find(main, "step", "launch").weights[0]).toBe(5);
  });

  it("puts work of devices below what launched it", () => {
    expect(find(main, "step").weights[1]).toBe(14);
    expect(find(main, "step", "mm", "launch", "gemm")).toMatchObject({ weights: [0, 12], count: 2 });
    expect(find(main, "step", "launch", "late").weights[1]).toBe(2);
    expect(find(flame.root, "launching call not recorded", "late").weights).toEqual([0, 1]);
    expect(flame.root.weights).toEqual([170, 15]);
  });

  it("puts names that only count together, and leaves those that come back apart", () => {
    const texts = ["step_0", "step_1", "step_2", "layer_0", "layer_1", "layer_2", "7"];
    const steps = row([0, 10, 0], [10, 20, 1], [20, 30, 2]);
    const layers = row(...[0, 10, 20].flatMap((at) => [3, 4, 5].map((name, i) => [at + i, at + i + 1, name] as const)));
    const found = flameOfArea([{ label: "t", rows: [steps, layers] }], [], { start: 0, end: 30 }, (name) => texts[name] ?? "");
    const all = find(found.root, "t", "step_*");
    expect(all).toMatchObject({ names: [0, 1, 2], weights: [30, 0], count: 3 });
    const apart = flameOfArea([{ label: "t", rows: [steps] }], [], { start: 0, end: 30 }, (name) => texts[name] ?? "", false);
    expect(find(apart.root, "t").children.map((one) => one.label)).toEqual(["step_0", "step_1", "step_2"]);
    expect(all.children.map((one) => [one.label, one.weights[0], one.count])).toEqual([
      ["layer_0", 3, 3],
      ["layer_1", 3, 3],
      ["layer_2", 3, 3],
    ]);
  });

  it("equals plain sums on random nested events", () => {
    const next = seeded(7);
    const random = (most: number) => Math.floor(next() * most);
    const outer: [number, number, number][] = [];
    const inner: [number, number, number][] = [];
    for (let time = 0; time < 5000; ) {
      const end = time + 20 + random(80);
      outer.push([time, end, random(2)]);
      for (let at = time; at < end - 5; ) {
        const stop = Math.min(end, at + 1 + random(9));
        inner.push([at, stop, 2 + random(2)]);
        at = stop + random(5);
      }
      time = end + random(10);
    }
    const area = { start: 1234, end: 3456 };
    const found = flameOfArea([{ label: "t", rows: [row(...outer), row(...inner)] }], [], area, (name) => TEXTS[name] ?? "");
    const cut = ([start, end]: readonly [number, number, number]) =>
      Math.max(0, Math.min(end, area.end) - Math.max(start, area.start));
    for (const name of [0, 1]) {
      const wanted = outer.filter((one) => one[2] === name).reduce((sum, one) => sum + cut(one), 0);
      expect(find(found.root, "t", TEXTS[name] as string).weights[0]).toBe(wanted);
      for (const below of [2, 3]) {
        const inside = inner.filter((one) => one[2] === below && outer.some((o) => o[2] === name && o[0] <= one[0] && one[1] <= o[1]));
        expect(find(found.root, "t", TEXTS[name] as string, TEXTS[below] as string).weights[0]).toBe(
          inside.reduce((sum, one) => sum + cut(one), 0),
        );
      }
    }
  });

  it("counts every event of many", () => {
    const count = 500_000;
    const ranges = rowOf(Array.from({ length: count / 5 }, (_, i) => [i * 50, i * 50 + 50, i % 2] as const));
    const calls = rowOf(Array.from({ length: count }, (_, i) => [i * 10 + 1, i * 10 + 4, 2] as const));
    const many = Array.from({ length: count }, (_, i): Launched => ({ thread: 0, time: i * 10 + 1, name: 3, ns: 7 }));
    const area = { start: 0, end: count * 10 };
    const found = flameOfArea([{ label: "t", rows: [ranges, calls] }], many, area, (name) => "abcd"[name] ?? "");
    expect(found.root.weights).toEqual([count * 10, count * 7]);
    for (const name of ["a", "b"]) {
      expect(find(found.root, "t", name)).toMatchObject({ weights: [count * 5, (count / 2) * 7], count: count / 10 });
      expect(find(found.root, "t", name, "c")).toMatchObject({ weights: [(count / 2) * 3, (count / 2) * 7], count: count / 2 });
      expect(find(found.root, "t", name, "c", "d").count).toBe(count / 2);
    }
  });
});
