/** Binary searches in ascending arrays. */

export interface Ascending {
  readonly length: number;
  readonly [index: number]: number;
}

/** Returns the first index in `[low, high)` whose value is at least `wanted`, or `high`. */
export function lowerBound(values: Ascending, wanted: number, low = 0, high = values.length): number {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns the first index in `[low, high)` whose value is greater than `wanted`, or `high`. */
export function upperBound(values: Ascending, wanted: number, low = 0, high = values.length): number {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] <= wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Does the same as `lowerBound`, fast if the answer is near `low`: galloping search. */
export function gallop(values: Ascending, wanted: number, low: number, high: number): number {
  let stride = 1;
  let known = low;
  while (low + stride < high && values[low + stride] < wanted) {
    known = low + stride;
    stride <<= 1;
  }
  return lowerBound(values, wanted, known, Math.min(high, low + stride));
}
