import { describe, expect, it } from "vitest";
import { encodeColumn, encodeContainer, joinBytes, type RowEvents } from "../../dev/encode";
import { startDecoders } from "./decoders";
import { type Bounds, decodeSums } from "./exact-sums";
import { busyOf, countOf } from "./answers";
import type { Head, SumsSpec } from "./head";
import { Recording } from "./recording";

const START = -300;
const END = 9_700;
const LEVEL = 8;
const CATEGORIES = [
  { name: "gemm", kind: "busy", meaning: "" },
  { name: "copy", kind: "busy", meaning: "" },
  { name: "idle-host", kind: "idle", meaning: "" },
] as const;
const NAMES = CATEGORIES.map(({ name }, place) => [name, place] as const);

/** A linear congruential generator: the same numbers in every run. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1103515245 + 12345) % 2 ** 31;
    return Math.floor((state / 2 ** 31) * below);
  };
}

interface Segment {
  readonly start: number;
  readonly end: number;
  readonly name: number;
}

/** Short and long segments without overlaps; every seventh has no duration. */
function segments(seed: number): Segment[] {
  const below = numbers(seed);
  const made: Segment[] = [];
  for (let at = START; ; ) {
    const start = at + below(30);
    const end = start + (below(7) === 0 ? 0 : below(12) === 0 ? below(900) : below(40));
    if (end > END) return made;
    made.push({ start, end, name: below(3) });
    at = Math.max(end, start + 1);
  }
}

const part = ({ start, end }: Segment, low: number, high: number): number =>
  Math.max(0, Math.min(end, high) - Math.max(start, low));

const timeOf = (all: readonly Segment[], low: number, high: number, wanted: (name: number) => boolean): number =>
  all.reduce((sum, one) => sum + (wanted(one.name) ? part(one, low, high) : 0), 0);

const countIn = (all: readonly Segment[], low: number, high: number): number =>
  all.filter(({ start, end }) => start < high && (end > low || start >= low)).length;

function sumsOf(all: readonly Segment[]): { spec: SumsSpec; bytes: Uint8Array } {
  const count = Math.ceil((END - START) / 2 ** LEVEL);
  const bins = Array.from({ length: count }, (_, i) => START + i * 2 ** LEVEL);
  const columns = [
    encodeColumn("events", bins.map((low) => all.filter((one) => one.start >= low && one.start < low + 2 ** LEVEL).length)),
    ...NAMES.map(([name, place]) =>
      encodeColumn(name, bins.map((low) => timeOf(all, low, low + 2 ** LEVEL, (own) => own === place))),
    ),
  ];
  const spec = { block: 2, offset: 0, level: LEVEL, count, columns: columns.map((column) => column.spec) };
  return { spec, bytes: joinBytes(columns.map((column) => column.bytes)) };
}

const eventsOf = (all: readonly Segment[]): RowEvents => ({
  start: all.map((one) => one.start),
  duration: all.map((one) => one.end - one.start),
  name: all.map((one) => one.name),
});

/** Opens a recording whose state row lacks the short events outside `[2000, 4000)`. */
async function thinned(seed: number): Promise<{ all: Segment[]; left: Segment[]; recording: Recording }> {
  const all = segments(seed);
  const left = all.filter(({ start, end }) => end - start > 35 || (start < 4000 && end > 2000));
  const { spec, bytes } = sumsOf(all);
  const { head, blocks } = encodeContainer(
    { start_ns: START, end_ns: END, tables: [], categories: CATEGORIES },
    NAMES,
    [{ id: "gpu0/state", parent: null, label: "busy / idle", kind: "state", device: 0, events: eventsOf(left), sums: spec }],
    [{ kind: "sums", bytes }],
  );
  const recording = new Recording(head, { get: (i) => Promise.resolve(blocks[i] as Uint8Array) }, startDecoders("", 0));
  await recording.loadNames();
  await recording.loadEvents(() => undefined);
  expect(recording.rows[0]?.error).toBeNull();
  return { all, left, recording };
}

function expectInside({ low, high }: Bounds, value: number): void {
  expect(low).toBeLessThanOrEqual(value);
  expect(high).toBeGreaterThanOrEqual(value);
}

describe("the sums of a row with omitted events", () => {
  it("are those of all recorded events, exactly for whole bins and complete places", async () => {
    const { all, left, recording } = await thinned(7);
    expect(left.length).toBeLessThan(all.length / 2);
    const isBusy = (name: number): boolean => name !== 2;
    for (const [low, high] of [[START, END], [START + 512, START + 4 * 256], [2100, 3900], [2100, START + 20 * 256]] as const) {
      const [sums] = await recording.answers.sums([0], { start: low, end: high });
      const busy = timeOf(all, low, high, isBusy);
      expect(busyOf(sums as never)).toEqual({ low: busy, high: busy });
    }
    const [whole] = await recording.answers.sums([0], { start: START, end: END });
    expect(countOf(whole as never)).toEqual({ low: all.length, high: all.length });
    expect(whole?.last).toBe(left.length);
  });

  it("lie between narrow bounds for any other span", async () => {
    const below = numbers(3);
    let inexact = 0;
    for (const seed of [1, 2, 3]) {
      const { all, recording } = await thinned(seed);
      for (let i = 0; i < 300; i++) {
        const start = START - 10 + below(END - START) + below(4) / 4; // quarters are exact
        const end = Math.min(END, start + 1 + below(below(2) ? 400 : 5000));
        if (end <= start) continue;
        const [sums] = await recording.answers.sums([0], { start, end });
        const busy = busyOf(sums as never);
        expectInside(busy, timeOf(all, start, end, (name) => name !== 2));
        expect(busy.high).toBeLessThanOrEqual(busy.low + 2 * 2 ** LEVEL);
        expect(busy.high).toBeLessThanOrEqual(end - start + 1e-6);
        expectInside(countOf(sums as never), countIn(all, start, end));
        if (busy.high > busy.low) inexact++;
        for (const { name, ns, most_ns: most = ns } of await recording.answers.names([0], { start, end })) {
          expectInside({ low: ns, high: most }, timeOf(all, start, end, (one) => one === name));
        }
      }
    }
    expect(inexact).toBeGreaterThan(100);
  });

  it("have every cause of idle time, even without a remaining event", async () => {
    const { all, recording } = await thinned(5);
    const span = { start: START, end: END };
    const found = await recording.answers.names([0], span);
    for (const name of [0, 1, 2]) {
      const ns = timeOf(all, START, END, (one) => one === name);
      expect(found.find((one) => one.name === name)).toMatchObject({ ns, most_ns: ns });
    }
  });

  it("are refused if they do not cover the recording or name no known category", () => {
    const { spec, bytes } = sumsOf(segments(1));
    const head = { start_ns: START, end_ns: END, categories: CATEGORIES } as unknown as Head;
    expect(() => decodeSums(bytes, { ...spec, level: LEVEL - 1 }, head, [])).toThrow("do not cover");
    expect(() => decodeSums(bytes, spec, { ...head, categories: [] }, [])).toThrow("unknown category");
    expect(() => decodeSums(bytes, { ...spec, columns: spec.columns.slice(1) }, head, [])).toThrow("number of events");
  });
});
