/** Decoding of byte planes: CONTAINER.md, section 2. */

import type { ColumnSpec } from "./head";

export function partBytes(count: number, columns: readonly ColumnSpec[]): number {
  return columns.reduce((sum, column) => sum + count * column.planes, 0);
}

/** Returns the unsigned integers of a column; exact up to 2^53. */
export function planesToNumbers(
  bytes: Uint8Array,
  offset: number,
  count: number,
  planes: number,
): Float64Array {
  const values = new Float64Array(count);
  let weight = 1;
  for (let plane = 0; plane < planes; plane++) {
    const at = offset + plane * count;
    for (let i = 0; i < count; i++) values[i] += bytes[at + i] * weight;
    weight *= 256;
  }
  return values;
}

/** Returns floats whose bytes lie in 4 or 8 planes. */
export function planesToFloats(
  bytes: Uint8Array,
  offset: number,
  count: number,
  planes: number,
): Float64Array {
  const joined = new Uint8Array(count * planes);
  for (let plane = 0; plane < planes; plane++) {
    for (let i = 0; i < count; i++) {
      joined[i * planes + plane] = bytes[offset + plane * count + i];
    }
  }
  const view = new DataView(joined.buffer);
  const read = (i: number): number =>
    planes === 8 ? view.getFloat64(i * 8, true) : view.getFloat32(i * 4, true);
  return Float64Array.from({ length: count }, (_, i) => read(i));
}

/** Turns differences (folded: even up, odd down) into values, in place. */
export function accumulate(values: Float64Array): Float64Array {
  let value = 0;
  for (let i = 0; i < values.length; i++) {
    const folded = values[i];
    value += folded % 2 === 0 ? folded / 2 : -(folded + 1) / 2;
    values[i] = value;
  }
  return values;
}

/** Decodes a column; nothing is NaN in floats and -1 in optional integers. */
export function decodeColumn(
  bytes: Uint8Array,
  offset: number,
  count: number,
  column: ColumnSpec,
): Float64Array {
  const encoding = column.encoding ?? "plain";
  if (offset < 0 || offset + count * column.planes > bytes.length) {
    throw new Error(`The column ${column.name} reaches beyond its block.`);
  }
  if (encoding === "float32" || encoding === "float64") {
    return planesToFloats(bytes, offset, count, column.planes);
  }
  const values = planesToNumbers(bytes, offset, count, column.planes);
  if (encoding === "delta" || encoding === "optional-delta") accumulate(values);
  if (encoding === "optional" || encoding === "optional-delta") {
    for (let i = 0; i < count; i++) values[i] -= 1;
  }
  return values;
}
