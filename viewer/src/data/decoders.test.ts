import { describe, expect, it } from "vitest";
import { gzipSync } from "node:zlib";
import { encodePart, joinBytes } from "../../dev/encode";
import { Decoder, type Delivery, type Order } from "./decode-worker";
import { startDecoders } from "./decoders";
import { decodeEvents, eventsOf } from "./events";
import type { BlockSpec, Head, RowSpec } from "./head";
import { inflate } from "./inflate";
import { Recording } from "./recording";

const BOUNDS = { start_ns: 0, end_ns: 1e12, names: 3 };
const part = (from: number, block: number, row?: readonly number[]) =>
  encodePart(
    {
      start: [from, from + 10],
      duration: [5, 5],
      name: [0, 2],
      ...(row ? { columns: { row: { encoding: "delta" as const, values: row } } } : {}),
    },
    block,
    0,
  );

describe("a row's events", () => {
  it("decode what no drawing needs when asked, part by part", () => {
    const parts = [part(0, 2, [70_000, 3]), part(100, 2), part(200, 2, [1, 2])];
    const events = decodeEvents({ label: "r", kind: "stream" }, parts, new Uint8Array(3), BOUNDS);
    expect([...(events.row ?? [])]).toEqual([70_000, 3, 0, 0, 1, 2]);
    expect(events.row).toBe(events.row);
    expect(events.table).toBeNull();
    expect([...events.links.keys()]).toEqual([]);
    expect([...events.before]).toEqual([0, 5, 10, 15, 20, 25, 30]);
  });

  it.each([
    ["overlap", [part(0, 2), part(12, 2)], "starts before"],
    ["lie before the recording", [part(-5, 2)], "starts before"],
    ["reach beyond it", [part(1e12, 2)], "exceed the time range"],
  ] as const)("are refused where they %s", (_, parts, message) => {
    const decode = () => decodeEvents({ label: "r", kind: "stream" }, parts, new Uint8Array(3), BOUNDS);
    expect(decode).toThrow(message);
  });

  it("are refused where a name is not there", () => {
    const bounds = { ...BOUNDS, names: 2 };
    const decode = () =>
      decodeEvents({ label: "r", kind: "stream" }, [part(0, 2)], new Uint8Array(2), bounds);
    expect(decode).toThrow("event 1 has no name");
  });
});

describe("a decoder", () => {
  it("keeps a row until its last part is there, whatever part comes first", async () => {
    const decoder = new Decoder();
    const order = (block: number, place: number, from: number): Order => {
      const { spec, bytes } = part(from, block);
      const row = { row: 4, label: "r", kind: "stream" as const, count: 6, partCount: 3 };
      return {
        ...{ block, rawBytes: bytes.length, isIdle: new Uint8Array(3), categories: new Uint8Array(3), bounds: BOUNDS, wantsBytes: false },
        packed: new Uint8Array(gzipSync(bytes)),
        rows: [{ ...row, parts: [{ place, spec }] }],
      };
    };
    const orders = [order(7, 1, 100), order(8, 2, 200), order(6, 0, 0)];
    const answers = await Promise.all(orders.map((one) => decoder.deliver(one)));
    expect(answers.map((one) => one.rows.length)).toEqual([0, 0, 1]);
    const finished = answers[2]?.rows[0];
    if (!finished) throw new Error("no row");
    expect([...eventsOf(finished.events).start]).toEqual([0, 10, 100, 110, 200, 210]);
  });

  it("gives blocks that share rows, also by others, to one worker", async () => {
    const row = (id: string, blocks: readonly number[]): RowSpec => ({
      ...{ id, parent: null, label: id, kind: "stream", count: 2 * blocks.length },
      parts: blocks.map((block, i) => part(100 * i, block).spec),
    });
    const blocks: BlockSpec[] = Array.from({ length: 8 }, () => ({ kind: "events", raw_bytes: 8, bytes: 8 }));
    const rows = [row("a", [2, 3]), row("b", [4]), row("c", [6, 5]), row("d", [7, 3]), row("e", [4])];
    const head = { ...BOUNDS, categories: [], rows, blocks } as unknown as Head;
    const groups = new Map<number, number | undefined>();
    const recording = new Recording(head, { get: () => Promise.resolve("") }, {
      order({ block, group }: Order): Promise<Delivery> {
        groups.set(block, group);
        return Promise.resolve({ block, rows: [], failed: [], bytes: null, error: "none" });
      },
      close: () => undefined,
    });
    await recording.loadEvents(() => undefined);
    const alike = (a: number, b: number): boolean => groups.get(a) === groups.get(b);
    expect([alike(2, 3), alike(3, 7), alike(5, 6)]).toEqual([true, true, true]);
    expect([alike(2, 4), alike(2, 5), alike(4, 5)]).toEqual([false, false, false]);
  });

  it("works on this thread where there are no workers", async () => {
    const { bytes } = part(0, 2);
    const delivery = await startDecoders("", 0).order({
      ...{ block: 1, rows: [], isIdle: new Uint8Array(3), categories: new Uint8Array(3), bounds: BOUNDS, wantsBytes: true },
      packed: Buffer.from(gzipSync(bytes)).toString("base64"),
      rawBytes: bytes.length,
    });
    expect(delivery.bytes).toEqual(bytes);
  });
});

describe("inflating", () => {
  it("stops what grows beyond its size, long before all of it is there", async () => {
    const bomb = new Uint8Array(gzipSync(new Uint8Array(2 ** 27), { level: 1 }));
    const before = process.memoryUsage().arrayBuffers;
    await expect(inflate(bomb, 1000)).rejects.toThrow("larger");
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(2 ** 26);
  }, 60_000);

  it("refuses what is cut, damaged or no gzip at all", async () => {
    const whole = new Uint8Array(gzipSync(joinBytes([new Uint8Array(90_000).map((_, i) => i * i)])));
    await expect(inflate(whole.subarray(0, whole.length / 2), 90_000)).rejects.toThrow();
    await expect(inflate(new Uint8Array(100), 90_000)).rejects.toThrow();
    await expect(inflate(whole, 2 ** 40)).rejects.toThrow("size limit of the page");
    expect((await inflate(whole, 90_000)).length).toBe(90_000);
  });
});
