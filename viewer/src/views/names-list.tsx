/** All names of an area in a sortable list: GPU operations, ranges, idle causes. */

import { useMemo, useState } from "preact/hooks";
import { plainText } from "../base/text";
import { boundsText, countText, shareText, timeText } from "../base/units";
import type { NameTotals } from "../data/selection";
import type { Spread } from "./event-lines";
import { List } from "./list";
import type { Model } from "./model";
import { Swatch } from "./swatch";

/** What the shares of a table are of: a heading for their column, its description, and the time. */
export interface Whole {
  readonly ns: number;
  readonly title: string;
  readonly doc: string;
}

/** What one rank, GPU, or process has of the totals, by name. */
export interface Part {
  readonly label: string;
  readonly totals: ReadonlyMap<number, NameTotals>;
}

interface NameLine extends NameTotals {
  readonly text: string;
  readonly full: string;
  readonly category: string;
  readonly spread: Spread | undefined;
  /** Time in each part. */
  readonly parts: readonly number[];
}

/** The mean of the whole events; if these are too many, of their parts in the time range. */
function meanOf({ spread, ns, count }: NameLine): number {
  return spread?.mean ?? ns / count;
}

const COLUMNS = [
  { key: "text", title: "Name", isNumber: false, of: (one: NameLine) => one.text },
  { key: "category", title: "Category", isNumber: false, of: (one: NameLine) => one.category },
  { key: "count", title: "Count", isNumber: true, of: (one: NameLine) => one.count },
  { key: "ns", title: "Time", isNumber: true, of: (one: NameLine) => one.ns },
  { key: "mean", title: "Mean", isNumber: true, of: (one: NameLine) => meanOf(one) },
  { key: "min", title: "Min", isNumber: true, of: (one: NameLine) => one.spread?.min ?? -1 },
  { key: "median", title: "Median", isNumber: true, of: (one: NameLine) => one.spread?.median ?? -1 },
  { key: "max", title: "Max", isNumber: true, of: (one: NameLine) => one.spread?.max ?? -1 },
  { key: "share", title: "Share", isNumber: true, of: (one: NameLine) => one.ns },
] as const;

type Counted = Pick<NameTotals, "count" | "most_ns">;

/** Whether all events of the name are in the file. */
function isWhole({ most_ns: most }: Counted): boolean {
  return most === undefined;
}

/** Returns the number of events of a name: "≥ 12" if the file lacks events. */
export function fewestText(one: Counted): string {
  return boundsText(one.count, isWhole(one) ? one.count : Number.POSITIVE_INFINITY, countText);
}

/** Sorts lines by a column; the sort is stable. */
export function sortedLines(lines: readonly NameLine[], key: string, isFalling: boolean): NameLine[] {
  const part = Number(/^part (\d+)$/.exec(key)?.[1] ?? -1);
  const ofPart = (one: NameLine): number => one.parts[part] ?? 0;
  const value = part >= 0 ? ofPart : (COLUMNS.find((one) => one.key === key)?.of ?? COLUMNS[3].of);
  const sign = isFalling ? -1 : 1;
  return [...lines].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    return x === y ? 0 : sign * (x < y ? -1 : 1);
  });
}

export function NamesList({ model, title, totals, whole, spreads, parts }: {
  model: Model;
  title: string;
  totals: readonly NameTotals[];
  /** What the shares are of; absent: no shares, because the events may nest. */
  whole?: Whole;
  /** By name: the spread of the durations of the whole events; none if there are too many. */
  spreads: ReadonlyMap<number, Spread>;
  parts: readonly Part[];
}) {
  const of = whole?.ns ?? 0;
  const [order, setOrder] = useState({ key: "ns", isFalling: true });
  const { names, head } = model.recording;
  const lines = useMemo(() => {
    const all = totals.map((one) => ({
      ...one,
      text: model.nameOf(one),
      full: model.fullNameOf(one),
      spread: spreads.get(one.name),
      category: head.categories[names.categories[one.name] ?? -1]?.name ?? "",
      parts: parts.map((part) => part.totals.get(one.name)?.ns ?? 0),
    }));
    return sortedLines(all, order.key, order.isFalling);
  }, [totals, spreads, parts, order, names]);
  const ofParts = parts.map(({ label }, i) => ({ key: `part ${i}`, title: label, isNumber: true }));
  const columns = COLUMNS.filter((one) => of > 0 || one.key !== "share").flatMap((one) => (one.key === "ns" ? [one, ...ofParts] : [one]));
  if (!totals.length) return <p class="empty">{title}: none in this time range.</p>;
  return (
    <List
      count={lines.length}
      lineHeight={22}
      label={title}
      template={`minmax(12em, 5fr) minmax(7em, 1fr) 6em 6em${" 6em".repeat(parts.length)} 6em 6em 6em 6em${of > 0 ? " 6em" : ""}`}
      leastWidth={62 + 7 * parts.length}
      columns={columns.map(({ key, title: heading, isNumber }) => ({
        key,
        isNumber,
        sorted: order.key === key ? (order.isFalling ? "descending" : "ascending") : undefined,
        title: (
          <button
            type="button"
            class="plain"
            title={key === "share" ? whole?.doc : key.startsWith("part") ? `Time on ${heading}` : undefined}
            onClick={() => setOrder({ key, isFalling: order.key === key ? !order.isFalling : isNumber })}
          >
            {key === "share" ? whole?.title : heading}
            {order.key === key ? (order.isFalling ? " ▾" : " ▴") : ""}
          </button>
        ),
      }))}
      cells={(line) => {
        const one = lines[line];
        if (!one) return [];
        const text = plainText(one.text);
        const most = one.most_ns ?? one.ns;
        return [
          <button
            type="button"
            class="plain"
            key="n"
            title={plainText(one.full).slice(0, 1000)}
            onClick={() => {
              model.light([one.name]);
              void model.stepMatch(1);
            }}
          >
            <Swatch model={model} name={one.name} /> {text.slice(0, 300)}
          </button>,
          one.category,
          fewestText(one),
          boundsText(one.ns, most, timeText),
          ...parts.map(({ totals: own }) => {
            const part = own.get(one.name);
            return part ? boundsText(part.ns, part.most_ns ?? part.ns, timeText) : "–";
          }),
          // Those of the longer events alone would be too high.
          ...[meanOf(one), one.spread?.min, one.spread?.median, one.spread?.max].map((ns) =>
            ns === undefined || !isWhole(one) ? "–" : timeText(ns),
          ),
          ...(of > 0 ? [boundsText(one.ns / of, most / of, shareText)] : []),
        ];
      }}
    />
  );
}
