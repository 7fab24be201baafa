import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { readHead, type Head, type Row } from "./document";
import { named, Store } from "./store";

const packed = (value: unknown): { text: string; raw_bytes: number } => {
  const raw = Buffer.from(JSON.stringify(value));
  return { text: gzipSync(raw).toString("base64"), raw_bytes: raw.length };
};

function storeOf(...values: unknown[]): { store: Store; asked: number[] } {
  const blocks = values.map(packed);
  const asked: number[] = [];
  const head = { metrics: ["a", "b", "c"], rows_block: 0, code: [], blocks } as unknown as Head;
  const find = (block: number): string | null => {
    asked.push(block);
    return blocks[block]?.text ?? null;
  };
  return { store: new Store(head, find), asked };
}

describe("the blocks of the page", () => {
  it("are decoded once, when they are needed", async () => {
    const { store, asked } = storeOf([{ id: 1, block_number: 1 }], { id: 1, metrics: [1, null, "x"] });
    const row = (await store.rows())[0] as Row;
    expect(asked).toEqual([0]);
    expect((await store.kernel(row))?.metrics).toEqual({ a: 1, c: "x" });
    await store.kernel(row);
    expect(asked).toEqual([0, 1]);
  });

  it("give metrics their names", () => {
    expect(named(["a", "__proto__"], [0, 7])).toEqual(Object.fromEntries([["a", 0], ["__proto__", 7]]));
  });

  it("may be missing in a truncated file", async () => {
    const { store } = storeOf([]);
    await expect(store.kernel({ block_number: 5 } as Row)).rejects.toThrow("truncated");
    expect(store.kernel({ block_number: null } as Row)).toBeNull();
    expect(store.code(3)).toBeNull();
  });

  it("belong to one version", () => {
    expect(() => readHead('{"schema_version": 2}')).toThrow("another version");
  });
});
