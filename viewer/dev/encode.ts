/** Writes containers for tests and samples. */

import { gzipSync } from "node:zlib";
import { EMPTY_HEAD } from "../src/data/head";
import type { BlockSpec, ColumnSpec, Encoding, Head, PartSpec, RowSpec } from "../src/data/head";

export interface RowEvents {
  readonly start: readonly number[];
  readonly duration: readonly number[];
  readonly name: readonly number[];
  readonly columns?: Readonly<Record<string, { encoding: Encoding; values: readonly number[] }>>;
}

function folded(values: readonly number[]): number[] {
  return values.map((value, i) => {
    const step = value - (i === 0 ? 0 : values[i - 1]);
    return step >= 0 ? 2 * step : -2 * step - 1;
  });
}

export function encodeColumn(
  name: string,
  values: readonly number[],
  encoding: Encoding = "plain",
): { spec: ColumnSpec; bytes: Uint8Array } {
  if (encoding === "float32" || encoding === "float64") {
    const source = encoding === "float32" ? Float32Array.from(values) : Float64Array.from(values);
    const planes = encoding === "float32" ? 4 : 8;
    const raw = new Uint8Array(source.buffer);
    const bytes = new Uint8Array(raw.length);
    raw.forEach((byte, at) => {
      bytes[(at % planes) * values.length + Math.floor(at / planes)] = byte;
    });
    return { spec: { name, planes, encoding }, bytes };
  }
  let whole = [...values];
  if (encoding.startsWith("optional")) whole = whole.map((value) => value + 1);
  if (encoding.endsWith("delta")) whole = folded(whole);
  let planes = 1;
  for (const value of whole) while (value >= 256 ** planes) planes++;
  const bytes = new Uint8Array(whole.length * planes);
  whole.forEach((value, i) => {
    for (let plane = 0; plane < planes; plane++) {
      bytes[plane * whole.length + i] = Math.floor(value / 256 ** plane) % 256;
    }
  });
  return { spec: { name, planes, encoding }, bytes };
}

/** Encodes events as one part; returns its bytes and its entry in the head. */
export function encodePart(
  events: RowEvents,
  block: number,
  offset: number,
): { spec: PartSpec; bytes: Uint8Array } {
  const first = events.start[0] ?? 0;
  let end = first;
  const gaps = events.start.map((start, i) => {
    const gap = start - end;
    end = start + (events.duration[i] as number);
    return gap;
  });
  const columns = [
    encodeColumn("gap", gaps),
    encodeColumn("duration", events.duration),
    encodeColumn("name", events.name),
    ...Object.entries(events.columns ?? {}).map(([name, { encoding, values }]) =>
      encodeColumn(name, values, encoding),
    ),
  ];
  return {
    spec: {
      block,
      offset,
      count: events.start.length,
      first_ns: first,
      columns: columns.map((column) => column.spec),
    },
    bytes: joinBytes(columns.map((column) => column.bytes)),
  };
}

export function joinBytes(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export type RowInput = Omit<RowSpec, "parts" | "count"> & { readonly events?: RowEvents };

export interface Container {
  readonly head: Head;
  readonly blocks: readonly Uint8Array[];
}

export type HeadInput = Partial<Head> & Pick<Head, "start_ns" | "end_ns" | "categories" | "tables">;

const BLOCK_BYTES = 3_000_000;
const BINS = 2048;

/** Builds a container; `names` are [text, category index]. */
export function encodeContainer(
  head: HeadInput,
  names: readonly (readonly [string, number])[],
  rows: readonly RowInput[],
  more: readonly { kind: BlockSpec["kind"]; bytes: Uint8Array }[] = [],
): Container {
  const raw: { kind: BlockSpec["kind"]; bytes: Uint8Array }[] = [
    { kind: "overview", bytes: overview(head, names, rows) },
    {
      kind: "names",
      bytes: new TextEncoder().encode(
        JSON.stringify({ texts: names.map(([text]) => text), categories: names.map(([, c]) => c) }),
      ),
    },
    ...more,
  ];
  let open: Uint8Array[] = [];
  let size = 0;
  const close = (): void => {
    if (open.length) raw.push({ kind: "events", bytes: joinBytes(open) });
    open = [];
    size = 0;
  };
  const specs: RowSpec[] = rows.map(({ events, ...row }) => {
    if (!events) return { ...row, count: 0, parts: [] };
    if (size > BLOCK_BYTES) close();
    const { spec, bytes } = encodePart(events, raw.length, size);
    open.push(bytes);
    size += bytes.length;
    return { ...row, count: events.start.length, parts: [spec] };
  });
  close();
  const blocks = raw.map(({ bytes }) => new Uint8Array(gzipSync(bytes, { level: 6 })));
  return {
    head: {
      container_version: 1,
      ...EMPTY_HEAD,
      ...head,
      overview_bins: BINS,
      rows: specs,
      blocks: raw.map(({ kind, bytes }, i) => ({
        kind,
        raw_bytes: bytes.length,
        bytes: (blocks[i] as Uint8Array).length,
      })),
    },
    blocks,
  };
}

function overview(
  head: HeadInput,
  names: readonly (readonly [string, number])[],
  rows: readonly RowInput[],
): Uint8Array {
  const bytes = new Uint8Array(rows.length * BINS * 2).fill(255, rows.length * BINS);
  const width = (head.end_ns - head.start_ns) / BINS || 1;
  rows.forEach(({ events }, row) => {
    if (!events) return;
    const most = new Float64Array(BINS);
    const sum = new Float64Array(BINS);
    events.start.forEach((start, i) => {
      const begin = start - head.start_ns;
      const end = begin + (events.duration[i] as number);
      for (let bin = Math.floor(begin / width); bin < BINS && bin * width <= end; bin++) {
        const inside = Math.min(end, (bin + 1) * width) - Math.max(begin, bin * width);
        sum[bin] += inside;
        if (inside < most[bin]) continue;
        most[bin] = inside;
        bytes[(rows.length + row) * BINS + bin] = (names[events.name[i] as number] as [string, number])[1];
      }
    });
    sum.forEach((ns, bin) => {
      if (ns > 0) bytes[row * BINS + bin] = Math.max(1, Math.round((255 * ns) / width));
    });
  });
  return bytes;
}
