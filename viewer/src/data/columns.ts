/** Decoding of byte planes: CONTAINER.md, section 2. */

import type { ColumnSpec } from "./head";

const MOST_PLANES = 8;

export function partBytes(count: number, columns: readonly ColumnSpec[]): number {
  return columns.reduce((sum, column) => sum + count * column.planes, 0);
}

/** Throws an Error unless the column lies inside the bytes. */
export function checkColumn(length: number, offset: number, count: number, column: ColumnSpec): void {
  const { planes } = column;
  const isWhole = [offset, count, planes].every((one) => Number.isSafeInteger(one) && one >= 0);
  if (!isWhole || planes < 1 || planes > MOST_PLANES) {
    throw new Error(`Invalid description of column ${column.name}.`);
  }
  if (offset + count * planes > length) {
    throw new Error(`Column ${column.name} exceeds its block.`);
  }
}

/** Decodes unsigned integers of at most 4 planes into `values`: one pass, no branch per value. */
export function smallIntegers(
  bytes: Uint8Array,
  offset: number,
  count: number,
  planes: number,
  values: Uint32Array,
): void {
  const plane1 = offset + count;
  const plane2 = plane1 + count;
  const plane3 = plane2 + count;
  if (planes === 1) {
    for (let i = 0; i < count; i++) values[i] = bytes[offset + i];
  } else if (planes === 2) {
    for (let i = 0; i < count; i++) values[i] = bytes[offset + i] | (bytes[plane1 + i] << 8);
  } else if (planes === 3) {
    for (let i = 0; i < count; i++) {
      values[i] = bytes[offset + i] | (bytes[plane1 + i] << 8) | (bytes[plane2 + i] << 16);
    }
  } else {
    for (let i = 0; i < count; i++) {
      const low = bytes[offset + i] | (bytes[plane1 + i] << 8) | (bytes[plane2 + i] << 16);
      values[i] = low | (bytes[plane3 + i] << 24);
    }
  }
}

/** Returns the unsigned integers of a column; exact up to 2^53. */
export function planesToNumbers(
  bytes: Uint8Array,
  offset: number,
  count: number,
  planes: number,
): Uint32Array | Float64Array {
  const low = new Uint32Array(count);
  smallIntegers(bytes, offset, count, Math.min(4, planes), low);
  if (planes <= 4) return low;
  const values = Float64Array.from(low);
  for (let plane = 4; plane < planes; plane++) {
    const weight = 256 ** plane;
    const at = offset + plane * count;
    for (let i = 0; i < count; i++) values[i] += bytes[at + i] * weight;
  }
  return values;
}

/** Decodes floats of 4 or 8 planes. */
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

/** Decodes a zigzag integer. */
function unfolded(folded: number): number {
  return folded % 2 === 0 ? folded / 2 : -(folded + 1) / 2;
}

/**
 * Decodes a column's integers into `values`, starting at index `at`. Missing optional values are -1.
 * Throws an Error if the column exceeds the bytes.
 */
export function decodeInto(
  values: Float64Array | Int32Array | Uint8Array,
  at: number,
  bytes: Uint8Array,
  offset: number,
  count: number,
  column: ColumnSpec,
): void {
  checkColumn(bytes.length, offset, count, column);
  const encoding = column.encoding ?? "plain";
  const stored = planesToNumbers(bytes, offset, count, column.planes);
  const less = encoding.startsWith("optional") ? 1 : 0;
  if (encoding.endsWith("delta")) {
    let value = 0;
    for (let i = 0; i < count; i++) values[at + i] = (value += unfolded(stored[i])) - less;
  } else {
    for (let i = 0; i < count; i++) values[at + i] = stored[i] - less;
  }
}

/** Decodes a column. Missing values are NaN in floats and -1 in optional integers. */
export function decodeColumn(
  bytes: Uint8Array,
  offset: number,
  count: number,
  column: ColumnSpec,
): Float64Array {
  checkColumn(bytes.length, offset, count, column);
  if (column.encoding === "float32" || column.encoding === "float64") {
    const planes = column.encoding === "float32" ? 4 : 8;
    if (planes !== column.planes) throw new Error(`Invalid description of column ${column.name}.`);
    return planesToFloats(bytes, offset, count, planes);
  }
  const values = new Float64Array(count);
  decodeInto(values, 0, bytes, offset, count, column);
  return values;
}

/** Decodes one value of a column; delta encodings need the whole column. */
export function decodeValue(
  bytes: Uint8Array,
  offset: number,
  count: number,
  column: ColumnSpec,
  place: number,
): number {
  checkColumn(bytes.length, offset, count, column);
  const encoding = column.encoding ?? "plain";
  if (encoding.endsWith("delta")) return decodeColumn(bytes, offset, count, column)[place] as number;
  const own = Uint8Array.from({ length: column.planes }, (_, plane) => bytes[offset + plane * count + place]);
  return decodeColumn(own, 0, 1, column)[0] as number;
}
