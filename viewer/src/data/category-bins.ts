/** Which category takes most of a stretch of time: sums by category, of one stretch or of many bins. */

const NONE = 0xffffffff;
const KEYS = 512; // a byte of category, and one bit: idle or not

export { NONE as NO_NAME };

/** The category's place of each name. */
export type Categories = ArrayLike<number>;

/** Returns what time is summed by: busy and idle time of a category stay apart. */
export function keyOf(category: number, isIdle: boolean): number {
  return ((category << 1) | (isIdle ? 1 : 0)) & (KEYS - 1);
}

/**
 * Time by category in each of some equal bins. Bin b has the entries `from[b]` to `from[b + 1]`, one per
 * key that is in it: `ns` is the key's time in the bin, `name` the name of its event that covers most of
 * the bin and `longestNs` how much that one covers.
 */
export interface CategoryBins {
  readonly binNs: number;
  readonly from: Uint32Array;
  readonly key: Uint16Array;
  readonly ns: Float32Array;
  readonly name: Uint32Array;
  readonly longestNs: Float32Array;
}

/** Sums of one stretch of time; used again and again. */
export class CategorySums {
  /** Keys that have been added, in no order; how many they are. */
  readonly keys = new Uint16Array(KEYS);
  size = 0;
  readonly ns = new Float64Array(KEYS);
  readonly longestNs = new Float64Array(KEYS).fill(-1); // -1: the key has not been added
  readonly name = new Uint32Array(KEYS);

  /** `longestNs` is the time of the longest event in `ns`, and `name` its name. */
  add(key: number, ns: number, name: number, longestNs: number): void {
    this.ns[key] += ns;
    if (longestNs > this.longestNs[key]) this.putLongest(key, name, longestNs);
  }

  putLongest(key: number, name: number, longestNs: number): void {
    if (this.longestNs[key] < 0) this.keys[this.size++] = key;
    this.longestNs[key] = longestNs;
    this.name[key] = name;
  }

  clear(): void {
    const { keys, ns, longestNs, size } = this;
    for (let i = 0; i < size; i++) {
      const key = keys[i] as number;
      ns[key] = 0;
      longestNs[key] = -1;
    }
    this.size = 0;
  }

  /** Returns the name that stands for the category with most busy or most idle time; none: NO_NAME. */
  most(isIdle: boolean): number {
    const { keys, ns, size } = this;
    const wanted = isIdle ? 1 : 0;
    let most = -1;
    let found = -1;
    for (let i = 0; i < size; i++) {
      const key = keys[i] as number;
      if ((key & 1) !== wanted || ns[key] <= most) continue;
      most = ns[key];
      found = key;
    }
    return found < 0 ? NONE : this.name[found];
  }
}

/** Builds bins from the first to the last: what is added to a bin comes before the next bin's. */
export class CategoryBinsWriter {
  /** Of the bin at hand. */
  readonly sums = new CategorySums();
  private readonly from: Uint32Array;
  private bin = 0;
  private size = 0;
  private key: Uint16Array;
  private ns: Float32Array;
  private name: Uint32Array;
  private longestNs: Float32Array;

  constructor(
    private readonly count: number,
    private readonly binNs: number,
  ) {
    this.from = new Uint32Array(count + 1);
    this.key = new Uint16Array(count + KEYS);
    this.ns = new Float32Array(count + KEYS);
    this.name = new Uint32Array(count + KEYS);
    this.longestNs = new Float32Array(count + KEYS);
  }

  /** Adds to a bin that is not before the latest one. */
  add(bin: number, key: number, ns: number, name: number, longestNs: number): void {
    this.open(bin);
    this.sums.add(key, ns, name, longestNs);
  }

  /** Closes the bins before this one: from then on `sums` are of this one. */
  open(bin: number): void {
    if (bin !== this.bin) this.proceed(bin);
  }

  finish(): CategoryBins {
    this.proceed(this.count);
    const { size, binNs, from } = this;
    return {
      ...{ binNs, from, key: this.key.slice(0, size), ns: this.ns.slice(0, size) },
      ...{ name: this.name.slice(0, size), longestNs: this.longestNs.slice(0, size) },
    };
  }

  private proceed(bin: number): void {
    const { sums } = this;
    if (this.size + sums.size > this.key.length) this.grow();
    for (let i = 0; i < sums.size; i++) {
      const key = sums.keys[i] as number;
      this.key[this.size] = key;
      this.ns[this.size] = sums.ns[key];
      this.name[this.size] = sums.name[key];
      this.longestNs[this.size++] = sums.longestNs[key];
    }
    sums.clear();
    while (this.bin < bin) this.from[++this.bin] = this.size;
  }

  private grow(): void {
    const size = this.key.length * 2;
    const [key, ns, name, longestNs] = [this.key, this.ns, this.name, this.longestNs];
    this.key = new Uint16Array(size);
    this.ns = new Float32Array(size);
    this.name = new Uint32Array(size);
    this.longestNs = new Float32Array(size);
    this.key.set(key);
    this.ns.set(ns);
    this.name.set(name);
    this.longestNs.set(longestNs);
  }
}

/** Returns bins that are twice as wide. */
export function twiceAsWide(fine: CategoryBins): CategoryBins {
  const { from, key, ns, name, longestNs } = fine;
  const count = from.length - 1;
  const wide = new CategoryBinsWriter(Math.ceil(count / 2), fine.binNs * 2);
  for (let bin = 0; bin < count; bin++) {
    for (let i = from[bin]; i < from[bin + 1]; i++) wide.add(bin >> 1, key[i], ns[i], name[i], longestNs[i]);
  }
  return wide.finish();
}

/** Sums the bins from place `begin` to place `end`; of a bin that is cut, its share. */
export function sumBins(bins: CategoryBins, begin: number, end: number, sums: CategorySums): void {
  const { from, key, ns, name, longestNs } = bins;
  const { ns: totals, longestNs: longest } = sums;
  const least = (end - begin) * 1e-6; // less is an error of rounding
  const last = Math.min(from.length - 1, Math.ceil(end));
  for (let bin = Math.max(0, Math.floor(begin)); bin < last; bin++) {
    const share = Math.min(bin + 1, end) - Math.max(bin, begin);
    if (share <= least) continue;
    const until = from[bin + 1];
    for (let i = from[bin]; i < until; i++) {
      const one = key[i];
      totals[one] += ns[i] * share;
      if (longestNs[i] * share > longest[one]) sums.putLongest(one, name[i], longestNs[i] * share);
    }
  }
}
