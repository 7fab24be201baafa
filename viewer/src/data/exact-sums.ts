/** The exact sums of a row of which the file has only a part of the events: CONTAINER.md, section 3. */

import type { Span } from "../base/span";
import { decodeColumn } from "./columns";
import { endOf, type Events } from "./events";
import type { Head, SumsSpec } from "./head";
import { eventsIn } from "./selection";

/** Where a number lies: exactly known if both are equal. */
export interface Bounds {
  readonly low: number;
  readonly high: number;
}

/** A column of sums: the category it is of, and its running total: `before[i]` is the sum of the bins before i. */
export interface CategorySum {
  readonly category: number;
  readonly before: Float64Array;
}

/** A bin that a span covers in part, and that part. */
interface Cut {
  readonly bin: number;
  readonly part: Span;
}

export class ExactSums {
  /**
   * `starts[i]` is the number of events that start before bin i, of `2 ** level` ns from the start of the recording;
   * `categories[name]` is the category of a name.
   */
  constructor(
    private readonly recording: Span,
    private readonly level: number,
    private readonly starts: Float64Array,
    private readonly columns: readonly CategorySum[],
    private readonly categories: readonly number[],
  ) {}

  /** Returns the time of some categories in a span. `events` are those of the row in the file. */
  time(events: Events, span: Span, isWanted: (category: number) => boolean): Bounds {
    const chosen = this.columns.filter(({ category }) => isWanted(category));
    const { from, to, cuts } = this.split(span);
    let low = chosen.reduce((sum, { before }) => sum + before[to] - before[from], 0);
    let high = low;
    for (const { bin, part } of cuts) {
      const recorded = chosen.reduce((sum, { before }) => sum + before[bin + 1] - before[bin], 0);
      const present = this.timeInside(events, this.spanOf(bin), isWanted);
      const inside = this.timeInside(events, part, isWanted);
      const free = part.end - part.start - this.timeInside(events, part, () => true);
      low += inside;
      high += inside + Math.max(0, Math.min(recorded - present, free));
    }
    return { low, high };
  }

  /** Returns the number of events that overlap a span. */
  count(events: Events, span: Span): Bounds {
    const [first, last] = eventsIn(events, span);
    const { from, to, cuts } = this.split(span);
    const present = startsIn(events, { start: this.edge(from), end: this.edge(to) });
    const low = last - first + this.starts[to] - this.starts[from] - present;
    let high = low;
    for (const { bin } of cuts) {
      high += this.starts[bin + 1] - this.starts[bin] - startsIn(events, this.spanOf(bin));
    }
    // An omitted event may have started before and still run.
    const isKnown = span.start <= this.recording.start || (first < last && events.start[first] <= span.start);
    const near = { start: span.start, end: Math.min(span.end, this.edge(Math.floor(this.place(span.start)) + 1)) };
    const lacks = !isKnown && this.time(events, near, () => true).high > this.timeInside(events, near, () => true);
    return { low, high: high + (lacks ? 1 : 0) };
  }

  /** Whether all events that overlap a span are in the file. */
  hasAll(events: Events, span: Span): boolean {
    const { low, high } = this.count(events, span);
    const [first, last] = eventsIn(events, span);
    return low === high && high === last - first;
  }

  /** The categories that the row has. */
  get present(): readonly number[] {
    return this.columns.map(({ category }) => category);
  }

  /** Splits a span into the bins `[from, to)` that it covers and the bins that it covers in part. */
  private split(span: Span): { readonly from: number; readonly to: number; readonly cuts: readonly Cut[] } {
    const most = this.starts.length - 1;
    const clamp = (bin: number): number => Math.max(0, Math.min(most, bin));
    const from = clamp(Math.ceil(this.place(span.start)));
    const isToEnd = span.end >= this.recording.end; // the last bin may be longer than the recording
    const to = isToEnd ? most : Math.max(from, clamp(Math.floor(this.place(span.end))));
    const cuts: Cut[] = [];
    const cut = (start: number, end: number): void => {
      const bin = Math.floor(this.place(start));
      if (end > start && bin >= 0 && bin < most) cuts.push({ bin, part: { start, end } });
    };
    const low = Math.max(span.start, this.recording.start);
    cut(low, Math.min(span.end, this.edge(from)));
    if (span.end > this.edge(from) && !isToEnd) cut(Math.max(low, this.edge(to)), span.end);
    return { from, to, cuts };
  }

  private place(time: number): number {
    return (time - this.recording.start) / 2 ** this.level;
  }

  private edge(bin: number): number {
    return this.recording.start + bin * 2 ** this.level;
  }

  private spanOf(bin: number): Span {
    return { start: this.edge(bin), end: this.edge(bin + 1) };
  }

  private timeInside(events: Events, span: Span, isWanted: (category: number) => boolean): number {
    const [first, last] = eventsIn(events, span);
    let sum = 0;
    for (let i = first; i < last; i++) {
      if (!isWanted(this.categories[events.name[i]] as number)) continue;
      sum += Math.max(0, Math.min(endOf(events, i), span.end) - Math.max(events.start[i], span.start));
    }
    return sum;
  }
}

/** Returns the number of events that start in a span. */
function startsIn(events: Events, span: Span): number {
  const [first, last] = eventsIn(events, span);
  return last - first - (first < last && events.start[first] < span.start ? 1 : 0);
}

/** Decodes the sums of a row. Throws an Error for invalid data. */
export function decodeSums(
  bytes: Uint8Array,
  { offset, level, count, columns }: SumsSpec,
  { start_ns: start, end_ns: end, categories }: Pick<Head, "start_ns" | "end_ns" | "categories">,
  ofNames: readonly number[],
): ExactSums {
  if (!(level >= 0 && count * 2 ** level >= end - start)) throw new Error("The sums do not cover the recording.");
  let at = offset;
  const totals = new Map<string, Float64Array>();
  for (const column of columns) {
    totals.set(column.name, runningTotal(decodeColumn(bytes, at, count, column)));
    at += count * column.planes;
  }
  const starts = totals.get(EVENTS);
  if (!starts) throw new Error("The sums have no number of events.");
  totals.delete(EVENTS);
  const sums = [...totals].map(([name, before]) => {
    const category = categories.findIndex((one) => one.name === name);
    if (category < 0) throw new Error(`The sums have an unknown category: ${name}.`);
    return { category, before };
  });
  return new ExactSums({ start, end }, level, starts, sums, ofNames);
}

const EVENTS = "events";

function runningTotal(values: Float64Array): Float64Array {
  const before = new Float64Array(values.length + 1);
  values.forEach((value, i) => {
    before[i + 1] = before[i] + value;
  });
  return before;
}
