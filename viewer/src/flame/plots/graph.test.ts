import { describe, expect, it } from "vitest";
import { seeded } from "../../../dev/random";
import { KINDS, type Labels } from "../data/document";
import { type Loaded, pythonOnly } from "../data/nodes";
import { boxAt, boxesOf, type Branch, functionsBelow, Graph, neighbour, type Options } from "./graph";

const ALL: Options = { byThread: false, byLine: false, isInverted: false, thread: -1 };
// Two lines of one Python function, a native one, a kernel, and a Python function.
const LABELS: Labels = {
  name: ["step", "step", "read", "gemm", "main"],
  module: ["/app/train.py", "/app/train.py", "/lib/libc.so.6", "", "/app/train.py"],
  line: [9, 12, 0, 0, 30],
  kind: ["python", "python", "native", "gpu", "python"].map((kind) => KINDS.indexOf(kind as (typeof KINDS)[number])),
  function: [0, 0, 1, 2, 3],
};

function loadedOf(rows: readonly (readonly [thread: number, parent: number, label: number, self: number])[]): Loaded {
  return {
    spec: { of: "cpu", title: "CPU time", meaning: "", threads: ["a", "b"] } as unknown as Loaded["spec"],
    labels: LABELS,
    nodes: {
      thread: Float64Array.from(rows, ([thread]) => thread),
      parent: Int32Array.from(rows, ([, parent]) => parent),
      label: Float64Array.from(rows, ([, , label]) => label),
      self: Float64Array.from(rows, ([, , , self]) => self),
      count: Float64Array.from(rows, ([, , , self]) => (self ? 1 : 0)),
    },
  };
}

/** main > step:9 > read, main > step:12 > gemm, and step:9 > read on another thread. */
const SMALL = loadedOf([
  [0, -1, 4, 1], [0, 0, 0, 0], [0, 0, 1, 0], [1, -1, 0, 2], [0, 1, 2, 4], [0, 2, 3, 8], [1, 3, 2, 16],
]);

function anyTree(seed: number): Loaded {
  const random = seeded(seed);
  const rows: [number, number, number, number][] = [];
  for (let at = 0; at < 300; at++) {
    const parent = at < 6 ? -1 : Math.floor(random() * at);
    const thread = parent < 0 ? Math.floor(random() * 2) : (rows[parent]?.[0] ?? 0);
    rows.push([thread, parent, Math.floor(random() * 5), Math.floor(random() * 10)]);
  }
  return loadedOf(rows);
}

function sum(values: Iterable<number>): number {
  return [...values].reduce((all, one) => all + one, 0);
}

function everyBranch(graph: Graph, branch: Branch, visit: (branch: Branch, children: readonly Branch[]) => void, depth = 0): void {
  const children = graph.children(branch);
  visit(branch, children);
  if (depth < 40) for (const child of children) everyBranch(graph, child, visit, depth + 1);
}

function outline(graph: Graph, branch: Branch): unknown[] {
  return graph.children(branch).map((one) => [one.label < 0 ? `thread ${one.thread}` : LABELS.name[one.label], one.total, ...outline(graph, one)]);
}

describe("a flame graph", () => {
  it("merges equal functions below equal callers", () => {
    const graph = new Graph(SMALL, ALL);
    expect(graph.root.total).toBe(31);
    expect(outline(graph, graph.root)).toEqual([
      ["step", 18, ["read", 16]],
      ["main", 13, ["step", 12, ["gemm", 8], ["read", 4]]],
    ]);
  });

  it("has threads or lines apart", () => {
    const graph = new Graph(SMALL, { ...ALL, byThread: true, byLine: true });
    expect(outline(graph, graph.root)).toEqual([
      ["thread 1", 18, ["step", 18, ["read", 16]]],
      ["thread 0", 13, ["main", 13, ["step", 8, ["gemm", 8]], ["step", 4, ["read", 4]]]],
    ]);
    expect(new Graph(SMALL, { ...ALL, thread: 0 }).root.total).toBe(13);
  });

  it("has callers below the functions that took the time, if inverted", () => {
    const graph = new Graph(SMALL, { ...ALL, isInverted: true });
    expect(outline(graph, graph.root)).toEqual([
      ["read", 20, ["step", 20, ["main", 4]]],
      ["gemm", 8, ["step", 8, ["main", 8]]],
      ["step", 2],
      ["main", 1],
    ]);
  });

  it.each([1, 2, 3, 4])("loses no time, tree %i", (seed) => {
    const loaded = anyTree(seed);
    const all = sum(loaded.nodes.self);
    for (const loadedSo of [loaded, pythonOnly(loaded)]) {
      for (const isInverted of [false, true]) {
        for (const byThread of [false, true]) {
          const graph = new Graph(loadedSo, { ...ALL, isInverted, byThread });
          expect(graph.root.total).toBe(all);
          everyBranch(graph, graph.root, (branch, children) => {
            expect(sum(children.map((one) => one.total)) + branch.self).toBe(branch.total);
            expect([...children].sort((a, b) => b.total - a.total)).toEqual(children);
          });
        }
      }
      const threads = [0, 1].map((thread) => new Graph(loadedSo, { ...ALL, thread }).root.total);
      expect(sum(threads)).toBe(all);
    }
  });

  it.each([1, 2])("sums each function once per stack, tree %i", (seed) => {
    const loaded = anyTree(seed);
    const { parent, label, self } = loaded.nodes;
    const found = functionsBelow(loaded, null, -1);
    for (const { label: shown, self: own, total } of found) {
      const is = (node: number): boolean => LABELS.function[label[node] as number] === LABELS.function[shown];
      let [wantedOwn, wanted] = [0, 0];
      for (let at = 0; at < parent.length; at++) {
        if (is(at)) wantedOwn += self[at] as number;
        let above = at;
        while (above >= 0 && !is(above)) above = parent[above] as number;
        if (above >= 0) wanted += self[at] as number;
      }
      expect([own, total]).toEqual([wantedOwn, wanted]);
      const graph = new Graph(loaded, ALL);
      expect(graph.timeOf((one) => LABELS.function[one] === LABELS.function[shown])).toBe(wanted);
    }
    expect(found.map((one) => one.self)).toEqual(found.map((one) => one.self).sort((a, b) => b - a));
  });

  it("sums the functions of a zoomed box only", () => {
    const graph = new Graph(SMALL, ALL);
    const main = graph.children(graph.root)[1] as Branch;
    expect(functionsBelow(SMALL, main.nodes, -1).map(({ label, self, total }) => [LABELS.name[label], self, total])).toEqual([
      ["gemm", 8, 8], ["read", 4, 4], ["main", 1, 13], ["step", 0, 12],
    ]);
  });
});

describe("only Python frames", () => {
  it("have the time of native code, and keep kernels", () => {
    const graph = new Graph(pythonOnly(SMALL), ALL);
    expect(outline(graph, graph.root)).toEqual([
      ["step", 18],
      ["main", 13, ["step", 12, ["gemm", 8]]],
    ]);
  });

  it("put time without any under a node of its own", () => {
    const loaded = pythonOnly(loadedOf([[0, -1, 2, 5], [0, 0, 3, 7], [0, 0, 0, 1]]));
    const graph = new Graph(loaded, ALL);
    const [outside, step] = graph.children(graph.root);
    expect(loaded.labels.name[outside?.label ?? -1]).toBe("[no Python frames]");
    expect([outside?.self, outside?.total, step?.total]).toEqual([5, 12, 1]);
  });
});

describe("the boxes", () => {
  it("are as wide as their time, and the zoomed ones as the graph", () => {
    const graph = new Graph(SMALL, ALL);
    const boxes = boxesOf(graph, [], 310);
    expect(boxes.map(({ level, x, width }) => [level, x, width])).toContainEqual([1, 180, 130]);
    expect(boxAt(boxes, 200, 1)?.branch.total).toBe(13);
    expect(boxAt(boxes, 200, 9)).toBeNull();
    const zoomed = boxesOf(graph, [3, 0], 120);
    expect(zoomed.map(({ level, x, width }) => [level, x, width])).toEqual([
      [0, 0, 120], [1, 0, 120], [2, 0, 120], [3, 0, 80], [3, 80, 40],
    ]);
    expect(boxesOf(graph, [], 3).every(({ width }) => width >= 0.5)).toBe(true);
  });

  it("are read with arrow keys", () => {
    const graph = new Graph(SMALL, ALL);
    expect(neighbour(graph, [], "ArrowDown")).toEqual([0]);
    expect(neighbour(graph, [0], "ArrowRight")).toEqual([3]);
    expect(neighbour(graph, [3], "ArrowRight")).toEqual([3]);
    expect(neighbour(graph, [3], "ArrowLeft")).toEqual([0]);
    expect(neighbour(graph, [3, 0], "ArrowUp")).toEqual([3]);
    expect(graph.along([3, 7]).length).toBe(2);
  });
});
