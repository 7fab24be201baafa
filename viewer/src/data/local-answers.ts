/** Answers from the arrays of a recording in the page. */

import { lowerBound, upperBound } from "../base/search";
import type { Span } from "../base/span";
import {
  type Answers,
  type Found,
  type Highlight,
  type Linked,
  MOST_LINES,
  MOST_LINKED,
  type Place,
  type Position,
  type RowHits,
  type RowSums,
  type Tally,
  type Walk,
} from "./answers";
import { meansIn, type RowMeans } from "./counter-means";
import { endOf, type Events, lengthOf } from "./events";
import type { ExactSums } from "./exact-sums";
import type { Head } from "./head";
import { binnedHits, type Hits, hitsAmong } from "./hits";
import { eventsIn, type NameTotals, nearestEvent, rowTotals, totalsByName } from "./selection";

export interface LocalSource {
  readonly head: Head;
  readonly names: { readonly texts: readonly string[]; readonly categories: readonly number[] };
  readonly rows: readonly { readonly events: Events | null; readonly sums?: ExactSums }[];
  readonly rowOf: ReadonlyMap<string, number>;
}

export class LocalAnswers implements Answers {
  private readonly indices = new Map<string, TableIndex>();
  private readonly hitsByRow = new Map<number, Hits>();
  private lit: Uint8Array | null = null;

  constructor(private readonly source: LocalSource) {}

  /** Invalidates the indices after more events have arrived. */
  forget(): void {
    this.indices.clear();
    this.hitsByRow.clear();
  }

  event(row: number, event: number): Promise<Found | null> {
    return Promise.resolve(this.foundAt({ row, event }));
  }

  stretch(row: number, first: number, last: number): Promise<readonly Found[]> {
    const events = this.eventsOf(row);
    const from = Math.max(0, first);
    const until = Math.min(last, from + MOST_LINES, events?.count ?? 0);
    const lines = Array.from({ length: Math.max(0, until - from) }, (_, i) => from + i);
    return Promise.resolve(lines.flatMap((event) => this.foundAt({ row, event }) ?? []));
  }

  find(id: string): Promise<Found | null> {
    const made = /^(.+)#(\d+)$/s.exec(id);
    if (made) {
      const row = this.source.rowOf.get(made[1] as string);
      return this.event(row ?? -1, Number(made[2]));
    }
    const [, table, number] = /^([a-z_]+):(\d+)$/.exec(id) ?? [];
    return Promise.resolve(table === undefined ? null : this.ofTable(table, Number(number)));
  }

  at(row: number, time: number, reach: number): Promise<Found | null> {
    const events = this.eventsOf(row);
    const event = events && nearestEvent(events, time, reach);
    return Promise.resolve(event === null ? null : this.foundAt({ row, event }));
  }

  latest(rows: readonly number[], time: number): Promise<readonly (Found | null)[]> {
    const found = rows.map((row) => {
      const events = this.eventsOf(row);
      return events ? this.foundAt({ row, event: upperBound(events.start, time) - 1 }) : null;
    });
    return Promise.resolve(found);
  }

  links(of: Found): Promise<readonly Linked[]> {
    const found: Linked[] = [];
    for (const { name, table, text } of this.source.head.links) {
      const row = of.links[name];
      const cause = row === undefined ? null : this.ofTable(table, row);
      if (cause) found.push({ link: name, text, isCause: true, event: cause });
      if (of.table !== table || of.tableRow === null) continue;
      for (const place of this.indexOfLink(name).findAll(of.tableRow, MOST_LINKED)) {
        const event = this.foundAt(place);
        if (event) found.push({ link: name, text: name, isCause: false, event });
      }
    }
    return Promise.resolve(found);
  }

  match({ lit, rows, from, direction }: Walk): Promise<Found | null> {
    const key = (place: Place, time: number): readonly number[] => [time, place.row, place.event];
    const start = key(from, from.time);
    let best: Place | null = null;
    let bestKey: readonly number[] | null = null;
    for (const row of rows) {
      const events = this.summedOf(row);
      if (!events?.count) continue;
      let i = direction > 0 ? lowerBound(events.start, from.time) : upperBound(events.start, from.time) - 1;
      for (; i >= 0 && i < events.count; i += direction) {
        const own = key({ row, event: i }, events.start[i]);
        if (bestKey && compare(own, bestKey) * direction >= 0) break;
        if (!lit[events.name[i]] || compare(own, start) * direction <= 0) continue;
        best = { row, event: i };
        bestKey = own;
        break;
      }
    }
    return Promise.resolve(best && this.foundAt(best));
  }

  tally({ lit, rows, from }: Position): Promise<Tally> {
    let [before, total] = [0, 0];
    for (const row of rows) {
      const events = this.summedOf(row);
      const hits = events && this.hitsOf(row, events, lit);
      if (!hits) continue;
      const bound = row > from.row ? lowerBound : upperBound;
      const preceding = row === from.row ? from.event : bound(events.start, from.time);
      before += lowerBound(hits.event, preceding);
      total += hits.event.length;
    }
    return Promise.resolve({ before, total });
  }

  hits({ lit, rows }: Highlight, span: Span, bins: number): Promise<readonly RowHits[]> {
    const found = rows.flatMap((row) => {
      const events = this.summedOf(row);
      return events ? [{ row, ...binnedHits(this.hitsOf(row, events, lit), span, bins) }] : [];
    });
    return Promise.resolve(found);
  }

  /** Returns a row's highlighted events; those of the latest names are kept. */
  private hitsOf(row: number, events: Events, lit: Uint8Array): Hits {
    if (this.lit !== lit) this.hitsByRow.clear();
    this.lit = lit;
    let hits = this.hitsByRow.get(row);
    if (!hits) {
      hits = hitsAmong(events, lit);
      this.hitsByRow.set(row, hits);
    }
    return hits;
  }

  longest(rows: readonly number[], span: Span, lit: Uint8Array): Promise<Found | null> {
    let best: Place | null = null;
    let bestKey: readonly number[] = [];
    for (const row of rows) {
      const events = this.summedOf(row);
      if (!events) continue;
      const [first, last] = eventsIn(events, span);
      for (let event = first; event < last; event++) {
        if (!lit[events.name[event]]) continue;
        const key = [-lengthOf(events, event), events.start[event], row];
        if (best && compare(key, bestKey) >= 0) continue;
        best = { row, event };
        bestKey = key;
      }
    }
    return Promise.resolve(best && this.foundAt(best));
  }

  sums(rows: readonly number[], span: Span): Promise<readonly RowSums[]> {
    const found = rows.flatMap((row) => {
      const events = this.summedOf(row);
      if (!events) return [];
      const sums = this.source.rows[row]?.sums;
      const recorded = sums && {
        count: sums.count(events, span),
        busy_ns: sums.time(events, span, this.countsAsBusy(row)),
      };
      return [{ row, ...rowTotals(events, span), ...(recorded && { recorded }) }];
    });
    return Promise.resolve(found);
  }

  names(rows: readonly number[], span: Span): Promise<readonly NameTotals[]> {
    const all = new Map<number, NameTotals>();
    const parts: NameTotals[] = [];
    const whole: Events[] = [];
    let isCut = false; // whether events of unknown names are missing
    for (const row of rows) {
      const events = this.summedOf(row);
      const sums = this.source.rows[row]?.sums;
      if (!events) continue;
      if (!sums || sums.hasAll(events, span)) whole.push(events);
      else if (this.source.head.rows[row]?.kind === "state") parts.push(...this.partsOfState(events, sums, span));
      else {
        whole.push(events);
        isCut = true;
      }
    }
    parts.push(...totalsByName(whole, span, this.source.names.texts.length));
    for (const one of parts) all.set(one.name, addedTo(all.get(one.name), one));
    const found = [...all.values()].map((one) => (isCut ? { ...one, most_ns: Number.POSITIVE_INFINITY } : one));
    return Promise.resolve(found.sort((a, b) => b.ns - a.ns || b.count - a.count || a.name - b.name));
  }

  /** Returns the time of a state row by category. The names of its segments are those of the categories. */
  private partsOfState(events: Events, sums: ExactSums, span: Span): NameTotals[] {
    const { head, names } = this.source;
    const counts = new Map(totalsByName([events], span, names.texts.length).map(({ name, count }) => [name, count]));
    return sums.present.flatMap((category) => {
      const { low, high } = sums.time(events, span, (one) => one === category);
      const name = names.texts.findIndex((text, i) => names.categories[i] === category && text === head.categories[category]?.name);
      return high > 0 && name >= 0 ? [{ name, count: counts.get(name) ?? 0, ns: low, most_ns: high }] : [];
    });
  }

  private countsAsBusy(row: number): (category: number) => boolean {
    const { rows, categories } = this.source.head;
    return rows[row]?.kind === "state" ? (category) => categories[category]?.kind !== "idle" : () => true;
  }

  events(rows: readonly number[], span: Span, most: number): Promise<readonly Events[] | null> {
    const cuts: Events[] = [];
    let left = most;
    for (const row of rows) {
      const events = this.eventsOf(row);
      const [first, last] = events ? eventsIn(events, span) : [0, 0];
      left -= last - first;
      if (left < 0) return Promise.resolve(null);
      cuts.push(events ? cutOut(events, first, last) : EMPTY);
    }
    return Promise.resolve(cuts);
  }

  means(rows: readonly number[], span: Span): Promise<readonly RowMeans[]> {
    const found = rows.flatMap((row) => {
      const events = this.eventsOf(row);
      const means = events && meansIn(events, span);
      return means ? [{ row, ...means }] : [];
    });
    return Promise.resolve(found);
  }

  private eventsOf(row: number): Events | null {
    return this.source.rows[row]?.events ?? null;
  }

  private summedOf(row: number): Events | null {
    return this.source.head.rows[row]?.kind === "counter" ? null : this.eventsOf(row);
  }

  private foundAt({ row, event }: Place): Found | null {
    const events = this.eventsOf(row);
    const spec = this.source.head.rows[row];
    if (!events || !spec || !(event >= 0 && event < events.count)) return null;
    const place = events.table ? events.table[event] : spec.table;
    const table = place === null || place === undefined ? null : (this.source.head.tables[place] ?? null);
    const isOfTable = events.row !== null && table !== null;
    const links: Record<string, number> = {};
    for (const [name, ends] of events.links) if (ends[event] >= 0) links[name] = ends[event];
    return {
      ...{ row, event, links, start: events.start[event], end: endOf(events, event) },
      id: isOfTable ? `${table}:${events.row[event]}` : `${spec.id}#${event}`,
      name: events.name[event],
      table: isOfTable ? table : null,
      tableRow: isOfTable ? events.row[event] : null,
    };
  }

  private ofTable(table: string, row: number): Found | null {
    let index = this.indices.get(table);
    if (!index) {
      const wanted = this.source.head.tables.indexOf(table);
      index = new TableIndex(this.source, (events, place) => {
        const { table: tables, row: numbers } = events;
        if (!numbers) return null;
        if (tables) return { row: numbers, keep: (i) => tables[i] === wanted };
        return this.source.head.rows[place]?.table === wanted ? { row: numbers, keep: () => true } : null;
      });
      this.indices.set(table, index);
    }
    const all = index.findAll(row, MOST_LINKED);
    // A phase has the id of its range: prefer the range.
    const place = all.find((one) => this.source.head.rows[one.row]?.kind !== "phase") ?? all[0];
    return place ? this.foundAt(place) : null;
  }

  private indexOfLink(link: string): TableIndex {
    const key = `${link}>`;
    let index = this.indices.get(key);
    if (!index) {
      index = new TableIndex(this.source, (events) => {
        const ends = events.links.get(link);
        return ends ? { row: ends, keep: () => true } : null;
      });
      this.indices.set(key, index);
    }
    return index;
  }
}

function addedTo(sum: NameTotals | undefined, one: NameTotals): NameTotals {
  if (!sum) return one;
  const added = { name: one.name, count: sum.count + one.count, ns: sum.ns + one.ns };
  const isCut = sum.most_ns !== undefined || one.most_ns !== undefined;
  return isCut ? { ...added, most_ns: (sum.most_ns ?? sum.ns) + (one.most_ns ?? one.ns) } : added;
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return a[i] - b[i];
  return 0;
}

const EMPTY: Events = {
  ...{ count: 0, start: new Float64Array(0), before: new Float64Array(1), busy: new Float64Array(1) },
  ...{ name: new Uint32Array(0), row: null, table: null, value: null, links: new Map() },
};

function cutOut(events: Events, first: number, last: number): Events {
  return {
    count: last - first,
    start: events.start.subarray(first, last),
    before: events.before.subarray(first, last + 1),
    busy: events.busy.subarray(first, last + 1),
    name: events.name.subarray(first, last),
    row: events.row?.subarray(first, last) ?? null,
    table: events.table?.subarray(first, last) ?? null,
    value: events.value?.subarray(first, last) ?? null,
    links: new Map([...events.links].map(([name, ends]) => [name, ends.subarray(first, last)])),
  };
}

type Selector = (
  events: Events,
  row: number,
) => { readonly row: Int32Array | Float64Array; readonly keep: (event: number) => boolean } | null;

/** A hash index of events by one of their numbers, with about as many buckets as events. */
class TableIndex {
  private readonly mask: number;
  /** The first entry of each bucket. */
  private readonly first: Uint32Array;
  private readonly number: Int32Array;
  private readonly row: Uint32Array;
  private readonly event: Uint32Array;

  constructor(source: LocalSource, select: Selector) {
    let count = 0;
    const visit = (each: (number: number, row: number, event: number) => void): void => {
      source.rows.forEach((data, row) => {
        const chosen = data.events && select(data.events, row);
        if (!data.events || !chosen) return;
        for (let i = 0; i < data.events.count; i++) {
          const number = chosen.row[i] as number;
          if (number >= 0 && chosen.keep(i)) each(number, row, i);
        }
      });
    };
    visit(() => count++);
    const drawers = 2 ** Math.ceil(Math.log2(count + 1));
    this.mask = drawers - 1;
    this.first = new Uint32Array(drawers + 1);
    this.number = new Int32Array(count);
    this.row = new Uint32Array(count);
    this.event = new Uint32Array(count);
    visit((number) => this.first[(number & this.mask) + 1]++);
    for (let drawer = 0; drawer < drawers; drawer++) this.first[drawer + 1] += this.first[drawer];
    const next = this.first.slice();
    visit((number, row, event) => {
      const at = next[number & this.mask]++;
      this.number[at] = number;
      this.row[at] = row;
      this.event[at] = event;
    });
  }

  findAll(number: number, most: number): Place[] {
    const found: Place[] = [];
    const drawer = number & this.mask;
    const end = this.first[drawer + 1];
    for (let i = this.first[drawer]; i < end && found.length < most; i++) {
      if (this.number[i] === number) found.push({ row: this.row[i], event: this.event[i] });
    }
    return found;
  }
}
