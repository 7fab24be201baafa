/** Plots of steps: times, idle causes, ranks. */

import { timeText } from "../base/units";
import type { StepsSpec } from "../data/head";
import { Columns, rankLabel, targetOf } from "./columns";
import { FILLED, type Chart, type Heat, type Mark, type Plot, type Series } from "./shapes";

const FAR = 1.2;
const CUT = 4;

export function median(values: readonly number[]): number {
  const ordered = [...values].sort((a, b) => a - b);
  const half = (ordered.length - 1) / 2;
  return ((ordered[Math.floor(half)] ?? 0) + (ordered[Math.ceil(half)] ?? 0)) / 2;
}

/** Rows by rank, labels made distinct: processes can share a rank's label. */
export function byRank(columns: Columns): ReadonlyMap<string, Columns> {
  return columns.by((row) => rankLabel(columns, row));
}

/** Returns the number of each row's step. */
function numbersOf(columns: Columns): string[] {
  return columns.rows.map((row) => columns.text(row, "index"));
}

/** Returns the steps of all GPUs as a table like `rank_steps`, of which a page may have only the first rows. */
export function tableOfSteps(lists: readonly StepsSpec[]): Columns {
  const columns = ["rank", "gpu_index", "index", "step", "device_ns", "start_ns", "end_ns", "analyzed"];
  const numberIn = (label: string, what: string): number | null => {
    const found = new RegExp(`(?:^| )${what} (\\d+)`).exec(label);
    return found ? Number(found[1]) : null;
  };
  const rows = lists.flatMap(({ label, start_ns, end_ns, text, index, excluded }) =>
    start_ns.map((start, at) => {
      const end = end_ns[at] ?? start;
      return [numberIn(label, "rank"), numberIn(label, "GPU"), index?.[at] ?? at, text[at] ?? "", end - start, start, end, excluded[at] ? "no" : "yes"];
    }),
  );
  return new Columns({ columns: columns.map((name) => ({ name, title: name, unit: "none" })), rows });
}

export const STEP_TIMES = "Step times";
const MOST_BARS = 2000;

/** Returns the longest of each `count` consecutive rows. */
function longestOfEach(own: Columns, count: number): readonly number[] {
  if (count === 1) return own.rows;
  const length = (row: number): number => own.number(row, "device_ns") ?? 0;
  const groups = Array.from({ length: Math.ceil(own.rows.length / count) }, (_, i) => own.rows.slice(i * count, (i + 1) * count));
  return groups.map((rows) => rows.reduce((best, row) => (length(row) > length(best) ? row : best)));
}

/** Step times of each rank, with those far from the median as a series of their own. */
export function stepTimes(table: Columns): Plot | null {
  const ranks = new Map([...byRank(table)].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true })));
  const perBar = Math.ceil(Math.max(0, ...[...ranks.values()].map((own) => own.rows.length)) / MOST_BARS) || 1;
  const lengths = table.filter((row) => table.text(row, "analyzed") === "yes");
  const counted = (lengths.rows.length ? lengths : table).rows.map((row) => table.number(row, "device_ns") ?? 0);
  if (!counted.length) return null;
  const middle = median(counted);
  const marks: Record<"analyzed" | "outlier" | "excluded", Mark[]> = { analyzed: [], outlier: [], excluded: [] };
  const width = FILLED / ranks.size; // the bars of a step stand together
  [...ranks.values()].forEach((own, place) => {
    longestOfEach(own, perBar).forEach((row, number) => {
      const time = table.number(row, "device_ns") ?? 0;
      const isIn = table.text(row, "analyzed") === "yes";
      const of = !isIn ? "excluded" : time > FAR * middle ? "outlier" : "analyzed";
      const label = ranks.size > 1 ? `, ${rankLabel(table, row)}` : "";
      const state = isIn ? "" : ", excluded";
      marks[of].push({
        x0: number + place * width,
        x1: number + (place + (ranks.size > 1 ? 0.94 : 1)) * width,
        y0: 0,
        y1: time,
        text: `${table.text(row, "step") || `step ${table.text(row, "index")}`}${label}: ${timeText(time)}${state}`,
        target: targetOf(table, row),
      });
    });
  });
  const most = Math.max(...table.rows.map((row) => table.number(row, "device_ns") ?? 0));
  const series: Series[] = [
    { name: "analyzed", category: "gemm", kind: "bars", marks: marks.analyzed },
    { name: `over ${FAR} times the median`, category: "launch-bound", kind: "bars", marks: marks.outlier },
    { name: "excluded", category: "unknown", kind: "bars", marks: marks.excluded },
  ];
  const chart: Chart = {
    kind: "chart",
    title: STEP_TIMES,
    note: `Median ${timeText(middle)}${ranks.size > 1 ? `. In each step: ${[...ranks.keys()].join(", ")}` : ""}.${perBar > 1 ? ` Each bar is the longest of ${perBar} steps.` : ""}`,
    table: "rank_steps",
    x: { label: "step, in order of time", unit: "count", labels: numbersOf([...ranks.values()].reduce((one, other) => (other.rows.length > one.rows.length ? other : one))).filter((_, i) => i % perBar === 0) },
    y: { label: "time on the GPU", unit: "ns" },
    series: series.filter((one) => one.marks.length > 0),
    lines: [{ text: "median", y: middle }],
  };
  return most > CUT * middle ? { ...chart, top: CUT * middle } : chart;
}

/** Idle time of each step by cause, stacked; a plot per rank. */
export function idleCauses(table: Columns): readonly Plot[] {
  const ranks = byRank(table.whole((row) => `${rankLabel(table, row)} ${table.text(row, "start_ns")}`));
  return [...ranks].flatMap(([rank, own]) => {
    const steps = own.by((row) => own.text(row, "start_ns"));
    const first = new Map([...steps].map(([start, { rows }]) => [start, rows[0] ?? 0]));
    const places = new Map([...steps.keys()].map((start, place) => [start, place]));
    const idle = own.filter((row) => own.text(row, "kind") === "idle");
    if (!idle.rows.length) return [];
    const causes = [...idle.by((row) => own.text(row, "part"))].sort((a, b) => b[1].sum("ns") - a[1].sum("ns"));
    const below = new Map<string, number>();
    const series = causes.map(([cause, rows]): Series => ({
      name: cause,
      category: cause,
      kind: "bars",
      marks: rows.rows.map((row) => {
        const start = own.text(row, "start_ns");
        const x = places.get(start) ?? 0;
        const time = own.number(row, "ns") ?? 0;
        const from = below.get(start) ?? 0;
        below.set(start, from + time);
        return { x0: x, x1: x + FILLED, y0: from, y1: from + time, text: `${own.text(row, "step") || `step ${own.text(row, "index")}`}, ${cause}: ${timeText(time)}`, target: targetOf(own, row) };
      }),
    }));
    return [
      {
        kind: "chart",
        title: ranks.size > 1 ? `Idle time per step, ${rank}` : "Idle time per step",
        note: "By cause. Excluded steps are included here.",
        table: "step_parts",
        x: { label: "step, in order of time", unit: "count", labels: numbersOf(new Columns(own.table, [...first.values()])) },
        y: { label: "idle time of the GPU", unit: "ns" },
        series,
      } satisfies Chart,
    ];
  });
}

/** A matrix of ranks and steps. */
export function rankHeat(table: Columns, column: "device_ns" | "behind_ns" | "wait_ns", title: string, note: string): Heat | null {
  const ranks = [...byRank(table)];
  const numbers = [...new Set(table.rows.map((row) => table.number(row, "index") ?? 0))].sort((a, b) => a - b);
  const places = new Map(numbers.map((number, place) => [number, place]));
  const cells = ranks.flatMap(([rank, own], place) =>
    own.rows.flatMap((row) => {
      const value = own.number(row, column);
      if (value === null) return [];
      const step = own.text(row, "step") || `step ${own.text(row, "index")}`;
      return [{ row: place, column: places.get(own.number(row, "index") ?? 0) ?? 0, value, text: `${rank}, ${step}: ${timeText(value)}`, target: targetOf(own, row) }];
    }),
  );
  if (ranks.length < 2 || !cells.length) return null;
  return {
    kind: "heat",
    title,
    note,
    table: "rank_steps",
    unit: "ns",
    isFromLowest: column === "device_ns",
    rowTitle: "rank",
    columnTitle: "step",
    rows: ranks.map(([rank]) => rank),
    columns: numbers.map(String),
    cells,
  };
}
