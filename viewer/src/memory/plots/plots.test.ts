import { describe, expect, it } from "vitest";
import { BYS, type PoolSpec, type Texts } from "../data/document";
import { allocatedOf, inSteps, type Pool } from "../data/pool";
import { blocksOfState, bytesOfColumns, bytesOfState, EARLIER, layeringOf, MOST_LAYERS, NAMELESS, OTHERS, stateAt, statesOfColumns } from "./layers";
import { areaPath, linePath } from "./shapes";

interface Given {
  start: number;
  end: number;
  bytes: number;
  code: number;
}

function poolOf(given: readonly Given[], names: readonly string[], states: number, rest = 0): Pool {
  const sorted = given.toSorted((a, b) => a.start - b.start);
  const column = (part: keyof Given): Float64Array => Float64Array.from(sorted, (one) => one[part]);
  const codes = column("code");
  const blocks = { start: column("start"), end: column("end"), bytes: column("bytes"), codes: { kind: codes, module: codes, line: codes, operator: codes, stack: codes } };
  const before = new Float64Array(states).fill(rest);
  const allocated = allocatedOf(blocks, before);
  const peak = allocated.indexOf(Math.max(...allocated));
  const spec = { label: "GPU 0", device_bytes: null, left_out: 0, peak: { state: peak, time_ns: peak * 10, allocated_bytes: allocated[peak], reserved_bytes: null } } as unknown as PoolSpec;
  const texts = { ...Object.fromEntries(BYS.map((by) => [by, names])), stack: [], steps: [], phases: [] } as unknown as Texts;
  return { spec, texts, blocks, time: Float64Array.from({ length: states }, (_, state) => state * 10), allocated, rest: before, reserved: null };
}

/** The same numbers, one state and block at a time. */
function inUse(pool: Pool, state: number, code: number | null): number {
  let sum = code === null ? (pool.rest[state] as number) : 0;
  pool.blocks.start.forEach((start, at) => {
    const isIn = start <= state && state < (pool.blocks.end[at] as number);
    if (isIn && (code === null || pool.blocks.codes.kind[at] === code)) sum += pool.blocks.bytes[at] as number;
  });
  return sum;
}

function randomPool(seed: number, states: number, names: number): Pool {
  let value = seed;
  const next = (most: number): number => {
    value = (value * 1103515245 + 12345) % 2147483648;
    return value % most;
  };
  const given = Array.from({ length: states }, () => {
    const start = next(states);
    return { start, end: Math.min(states, start + 1 + next(Math.floor(states / 3))), bytes: 1 + next(1000), code: next(names + 1) - 1 };
  });
  return poolOf(given, Array.from({ length: names }, (_, at) => `name ${at}`), states, 7);
}

describe("states", () => {
  const pool = randomPool(1, 300, 4);

  it("have the bytes of their blocks", () => {
    for (let state = 0; state < 300; state++) expect(pool.allocated[state]).toBe(inUse(pool, state, null));
  });

  it("are found by time and by number", () => {
    expect([-5, 0, 9, 10, 15, 99_999].map((x) => stateAt(pool, "time", x))).toEqual([0, 0, 0, 1, 1, 299]);
    expect([-5, 0.5, 17, 99_999].map((x) => stateAt(pool, "events", x))).toEqual([0, 0, 17, 299]);
  });

  it.each(["time", "events"] as const)("with the most bytes stand for each column of pixels: %s", (axis) => {
    const step = axis === "time" ? 10 : 1;
    const [low, high, width] = [37 * step, 211 * step, 29];
    const found = statesOfColumns(pool, axis, low, high, width);
    for (let column = 0; column < width; column++) {
      const [from, until] = [low + (column * (high - low)) / width, low + ((column + 1) * (high - low)) / width];
      let most = 0;
      for (let state = 0; state < 300; state++) if (state * step < until && (state + 1) * step > from) most = Math.max(most, pool.allocated[state] as number);
      expect(pool.allocated[found[column] as number], `column ${column}`).toBe(most);
    }
  });

  it("do not exist beyond the recording", () => {
    const found = statesOfColumns(pool, "time", -1000, 5000, 60);
    expect(found[0]).toBe(-1);
    expect(found[9]).toBe(-1);
    expect(found[10]).toBeGreaterThanOrEqual(0);
    expect(found[59]).toBe(-1);
  });
});

describe("layers", () => {
  it.each([3, MOST_LAYERS + 5])("of %i names have the bytes of their blocks, and no other", (names) => {
    const pool = randomPool(5, 200, names);
    const layering = layeringOf([pool], "kind");
    expect(layering.names.includes(OTHERS)).toBe(names > MOST_LAYERS);
    expect(layering.names.slice(0, 1)).toEqual([EARLIER]);
    expect(layering.names.includes(NAMELESS.kind)).toBe(true);
    const states = statesOfColumns(pool, "events", 0, 200, 50);
    const layers = bytesOfColumns(pool, layering, states);
    states.forEach((state, column) => {
      expect(layers.reduce((sum, layer) => sum + (layer[column] as number), 0)).toBe(pool.allocated[state]);
      for (let code = 0; code < names; code++) {
        const place = layering.names.indexOf(`name ${code}`);
        if (place >= 0) expect((layers[place] as Float64Array)[column]).toBe(inUse(pool, state, code));
      }
      expect(bytesOfState(pool, layering, state)).toEqual(layers.map((layer) => layer[column]));
    });
  });

  it("of two recordings are the same", () => {
    const [one, other] = [poolOf([{ start: 0, end: 3, bytes: 5, code: 0 }], ["a"], 3), poolOf([{ start: 0, end: 3, bytes: 9, code: 0 }], ["b"], 3)];
    const layering = layeringOf([one, other], "kind");
    expect(layering.names.toSorted()).toEqual(["a", "b"]);
    expect(bytesOfState(one, layering, 1)[layering.names.indexOf("b")]).toBe(0);
  });

  it("that are named unknown are those without a name", () => {
    const pool = poolOf([{ start: 0, end: 3, bytes: 5, code: 0 }, { start: 0, end: 2, bytes: 2, code: -1 }], [NAMELESS.kind], 3);
    const layering = layeringOf([pool], "kind");
    expect(layering).toEqual({ by: "kind", rest: null, names: [NAMELESS.kind], colors: ["rest"] });
    expect(bytesOfState(pool, layering, 1)).toEqual([7]);
  });
});

describe("blocks of a state", () => {
  it("are those in use, the largest first", () => {
    const pool = randomPool(9, 100, 3);
    const layering = layeringOf([pool], "kind");
    const found = blocksOfState(pool, layering, 50, null);
    const sizes = found.map((at) => pool.blocks.bytes[at] as number);
    expect(sizes).toEqual(sizes.toSorted((a, b) => b - a));
    expect(sizes.reduce((sum, size) => sum + size, 0) + 7).toBe(pool.allocated[50]);
    const layer = layering.names.indexOf("name 1");
    const own = blocksOfState(pool, layering, 50, layer);
    expect(own.reduce((sum, at) => sum + (pool.blocks.bytes[at] as number), 0)).toBe(inUse(pool, 50, 1));
  });
});

describe("shapes", () => {
  it("are in steps", () => {
    expect(areaPath(Int32Array.of(0, 1, 1), [10, 10, 10], [4, 6, 6])).toBe("M0 10V4H1V6H2H3V10H0Z");
    expect(linePath(Int32Array.of(0, 1), [4, 6])).toBe("M0 4H1V6H2");
  });

  it("leave out what is beyond the recording", () => {
    expect(linePath(Int32Array.of(-1, 0, -1), [0, 4, 0])).toBe("M1 4H2");
  });

  it("have values from changes", () => {
    expect([...inSteps(Float64Array.of(1, 3), Float64Array.of(5, 2), 5)]).toEqual([0, 5, 5, 2, 2]);
  });
});
