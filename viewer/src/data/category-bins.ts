/** Sums of time by category, for one time range or for many bins, to find the dominant category. */

const NONE = 0xffffffff;
const KEYS = 512; // one byte for the category, one bit for idle

export { NONE as NO_NAME };

/** The category index of each name. */
export type Categories = ArrayLike<number>;

/** Returns the key of a sum: busy and idle time of a category are separate. */
export function keyOf(category: number, isIdle: boolean): number {
  return ((category << 1) | (isIdle ? 1 : 0)) & (KEYS - 1);
}

/**
 * Time by category in equal bins. Bin b has the entries `from[b]` to `from[b + 1]`, one per key:
 * `ns` is the key's time in the bin, `name` the name of its event that covers most of the bin, and
 * `longestNs` the time that this event covers.
 */
export interface CategoryBins {
  readonly binNs: number;
  readonly from: Uint32Array;
  readonly key: Uint16Array;
  readonly ns: Float32Array;
  readonly name: Uint32Array;
  readonly longestNs: Float32Array;
}

/** Sums of one time range; reused. */
export class CategorySums {
  /** The added keys, unordered, and their number. */
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

  /** Returns the representative name of the category with the most busy or idle time; NO_NAME if none. */
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

/** Builds bins in order: all additions to a bin come before those to the next. */
export class CategoryBinsWriter {
  /** The sums of the current bin. */
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

  /** Adds to the current bin or a later one. */
  add(bin: number, key: number, ns: number, name: number, longestNs: number): void {
    this.open(bin);
    this.sums.add(key, ns, name, longestNs);
  }

  /** Closes the bins before this one and makes it the current one. */
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

/** Sums the bins from position `begin` to `end`; partial bins count by their fraction. */
export function sumBins(bins: CategoryBins, begin: number, end: number, sums: CategorySums): void {
  const { from, key, ns, name, longestNs } = bins;
  const { ns: totals, longestNs: longest } = sums;
  const least = (end - begin) * 1e-6; // below: rounding error
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
