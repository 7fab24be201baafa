import { describe, expect, it } from "vitest";
import { gzipSync } from "node:zlib";
import { type Container, encodeContainer, encodePart, joinBytes } from "../../dev/encode";
import type { Blocks } from "./blocks";
import { startDecoders } from "./decoders";
import { type BlockSpec, readHead } from "./head";
import { Recording } from "./recording";

const NAMES = [
  ["gemm", 0],
  ["launch-bound", 1],
  ["cudaLaunchKernel", 2],
  ["</script><b>\u202e", 0],
] as const;

function sample(): Container {
  return encodeContainer(
    {
      start_ns: -100,
      end_ns: 6e9,
      tables: ["kernel", "api_call"],
      categories: [
        { name: "gemm", kind: "busy", meaning: "" },
        { name: "launch-bound", kind: "idle", meaning: "" },
        { name: "cuda-api", kind: "api", meaning: "" },
      ],
      links: [{ name: "launch", table: "api_call", text: "launched by" }],
    },
    NAMES,
    [
      { id: "gpu0", parent: null, label: "GPU 0", kind: "group" },
      {
        id: "gpu0/busy",
        parent: "gpu0",
        label: "busy",
        kind: "state",
        events: { start: [0, 10, 5_000_000_000], duration: [10, 4_999_999_990, 3], name: [0, 1, 0] },
      },
      {
        id: "gpu0/s7",
        parent: "gpu0",
        label: "stream 7",
        kind: "stream",
        table: 0,
        events: {
          start: [0, 5_000_000_000],
          duration: [10, 3],
          name: [0, 3],
          columns: {
            row: { encoding: "delta", values: [4, 9] },
            launch: { encoding: "optional-delta", values: [1, -1] },
          },
        },
      },
      {
        id: "cpu/api",
        parent: null,
        label: "API",
        kind: "api",
        table: 1,
        events: {
          start: [-100, -50],
          duration: [20, 40],
          name: [2, 2],
          columns: { row: { encoding: "delta", values: [0, 1] } },
        },
      },
    ],
  );
}

async function open(container: Container, blocks: Partial<Blocks> = {}): Promise<Recording> {
  const source: Blocks = {
    get: (block) =>
      container.blocks[block]
        ? Promise.resolve(Buffer.from(container.blocks[block]).toString("base64"))
        : Promise.reject(new Error("missing")),
    ...blocks,
  };
  const head = readHead(JSON.stringify(container.head));
  const recording = new Recording(head, source, startDecoders("", 0));
  await recording.loadOverview();
  await recording.loadNames();
  await recording.loadEvents(() => undefined);
  return recording;
}

describe("a recording", () => {
  it("gives back what was packed, times beyond 32 bits included", async () => {
    const recording = await open(sample());
    const busy = recording.rows[1]?.events;
    expect([...(busy?.start ?? [])]).toEqual([0, 10, 5_000_000_000]);
    expect([...(busy?.before ?? [])]).toEqual([0, 10, 5_000_000_000, 5_000_000_003]);
    expect([...(busy?.busy ?? [])]).toEqual([0, 10, 10, 13]);
    expect([...(recording.rows[3]?.events?.start ?? [])]).toEqual([-100, -50]);
    expect(recording.names.texts[3]).toBe("</script><b>\u202e");
  });

  it("joins a row whose parts lie in several blocks, whatever comes first", async () => {
    const container = sample();
    const first = encodePart({ start: [0, 7], duration: [5, 5], name: [0, 0] }, 2, 0);
    const second = encodePart({ start: [20, 7e9], duration: [1, 2], name: [3, 0] }, 3, 4);
    const raw = [first.bytes, joinBytes([new Uint8Array(4), second.bytes])];
    const row = { id: "r", parent: null, label: "r", kind: "stream" as const, count: 4 };
    const head = {
      ...container.head,
      end_ns: 8e9,
      rows: [{ ...row, parts: [first.spec, second.spec] }],
      blocks: [
        { ...(container.head.blocks[0] as BlockSpec), raw_bytes: 2 * 2048 },
        container.head.blocks[1] as BlockSpec,
        ...raw.map((bytes) => ({ kind: "events" as const, raw_bytes: bytes.length, bytes: 0 })),
      ],
    };
    const packed = [new Uint8Array(2 * 2048), null, ...raw].map((bytes, i) =>
      bytes ? new Uint8Array(gzipSync(bytes)) : (container.blocks[i] as Uint8Array),
    );
    const late = async (block: number): Promise<Uint8Array> => {
      if (block === 2) await new Promise((resolve) => setTimeout(resolve, 30));
      return packed[block] as Uint8Array;
    };
    const recording = await open({ head, blocks: packed }, { get: late });
    expect(recording.rows[0]?.error).toBeNull();
    expect([...(recording.rows[0]?.events?.start ?? [])]).toEqual([0, 7, 20, 7e9]);
    expect([...(recording.rows[0]?.events?.before ?? [])]).toEqual([0, 5, 10, 11, 13]);
  });

  it("finds events by id and follows links both ways", async () => {
    const recording = await open(sample());
    const { answers } = recording;
    const kernel = await answers.find("kernel:9");
    const whole = { start: -100, end: 6e9 };
    const longest = (lit: number[], span = whole) => answers.longest([0, 1, 2, 3], span, Uint8Array.from(lit));
    expect((await longest([0, 1, 0, 0]))?.id).toBe("gpu0/busy#1");
    expect((await longest([1, 0, 1, 1]))?.id).toBe("api_call:1");
    expect((await longest([1, 0, 0, 0]))?.id).toBe("gpu0/busy#0"); // as long as the kernel, in a row above
    expect((await longest([1, 0, 1, 1], { start: 11, end: 6e9 }))?.start).toBe(5e9);
    expect(await longest([0, 0, 0, 0])).toBeNull();
    expect(kernel).toMatchObject({ row: 2, event: 1, start: 5e9, end: 5e9 + 3, name: 3, links: {} });
    expect(await answers.find("kernel:5")).toBeNull();
    expect(await answers.find("gpu0/busy#1")).toMatchObject({ row: 1, event: 1, table: null, tableRow: null });
    expect(await answers.find("gpu0/busy#3")).toBeNull();
    expect(await answers.find("nonsense")).toBeNull();
    expect((await answers.event(2, 0))?.id).toBe("kernel:4");
    expect((await answers.event(1, 2))?.id).toBe("gpu0/busy#2");
    expect(await answers.event(1, 3)).toBeNull();
    const first = await answers.find("kernel:4");
    if (!first) throw new Error("not found");
    expect(first.links).toEqual({ launch: 1 });
    const [cause] = await answers.links(first);
    expect(cause).toMatchObject({ link: "launch", isCause: true, event: { row: 3, event: 1 } });
    const effects = await answers.links(cause?.event ?? first);
    expect(effects).toMatchObject([{ link: "launch", isCause: false, event: { row: 2, event: 0 } }]);
    const other = await answers.event(3, 0);
    expect(await answers.links(other ?? first)).toEqual([]);
  });

  it("tells which rows a missing block takes away and keeps the others", async () => {
    const container = sample();
    const recording = await open({ ...container, blocks: container.blocks.slice(0, 2) });
    expect(recording.rows[2]?.events).toBeNull();
    expect(recording.rows[2]?.error).toBe("missing");
  });

  it("refuses blocks of another size, lies about parts and other versions", async () => {
    const container = sample();
    const big = structuredClone(container.head) as unknown as { blocks: { raw_bytes: number }[] };
    (big.blocks[2] as { raw_bytes: number }).raw_bytes -= 1;
    const cut = await open({ ...container, head: big as unknown as Container["head"] });
    expect(cut.rows[2]?.error).toContain("larger");

    const lie = structuredClone(container.head) as unknown as {
      rows: { parts: { count: number }[] }[];
      container_version: number;
    };
    (lie.rows[2]?.parts[0] as { count: number }).count = 1e9;
    const short = await open({ ...container, head: lie as unknown as Container["head"] });
    expect(short.rows[2]?.error).toContain("exceeds");
    expect(short.rows[3]?.events?.count).toBe(2);

    lie.container_version = 2;
    expect(() => readHead(JSON.stringify(lie))).toThrow("version");
  });

  it("refuses names that are not there and times outside the recording", async () => {
    const container = sample();
    const head = structuredClone(container.head) as { end_ns: number };
    head.end_ns = 100;
    const recording = await open({ ...container, head: head as Container["head"] });
    expect(recording.rows[2]?.error).toContain("exceed the time range");
  });
});
