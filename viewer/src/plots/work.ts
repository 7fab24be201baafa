/** Plots of kernels, launches, copies, memory, and communication. */

import { bytesText, clockText, countText, shareText, timeText, valueText } from "../base/units";
import { type Columns, rankLabel, targetOf } from "./columns";
import { FILLED, type Chart, type Heat, type Mark, type Plot, type Series } from "./shapes";

/** The distribution of the durations of one kernel. */
export function kernelDurations(table: Columns, name: string): Plot | null {
  const own = table.filter((row) => table.text(row, "name") === name);
  if (!own.rows.length) return null;
  const marks = own.rows.map((row): Mark => {
    const [low, high, count] = [own.number(row, "shortest_ns") ?? 0, own.number(row, "longest_ns") ?? 0, own.number(row, "instances") ?? 0];
    const from = Math.max(low, 0.5);
    return {
      x0: from,
      x1: Math.max(high, from * 1.01),
      y0: 0,
      y1: count,
      text: `${timeText(low)} to ${timeText(high)}: ${countText(count)} of ${countText(own.sum("instances"))}, ${timeText(own.number(row, "total_ns") ?? 0)} in all`,
      target: targetOf(own, row),
    };
  });
  return {
    kind: "chart",
    title: "Distribution of kernel times",
    note: `${countText(own.sum("instances"))} kernels, ${timeText(own.sum("total_ns"))} in all. A bar leads to its longest kernel.`,
    table: "kernel_durations",
    x: { label: "duration", unit: "ns", isLog: true },
    y: { label: "kernels", unit: "count" },
    series: [{ name: "kernels", category: "gemm", kind: "bars", marks }],
  };
}

interface OverTime {
  readonly title: string;
  readonly note: string;
  readonly table: string;
  readonly label: string;
  readonly unit: string;
  readonly isLog?: boolean;
}

function overTime(what: OverTime, series: readonly Series[], lines?: Chart["lines"]): Chart {
  const plain: Chart = {
    kind: "chart",
    title: what.title,
    note: what.note,
    table: what.table,
    x: { label: "time from start of recording", unit: "ns" },
    y: { label: what.label, unit: what.unit, isLog: what.isLog === true },
    series,
  };
  return lines ? { ...plain, lines } : plain;
}

/** Returns a mark per row, over the row's interval. */
function timed(columns: Columns, value: string, unit: string, words: string): Mark[] {
  return columns.rows.flatMap((row) => {
    const y = columns.number(row, value);
    if (y === null) return [];
    const [from, to] = [columns.number(row, "start_ns") ?? 0, columns.number(row, "end_ns") ?? 0];
    const moment = (time: number): string => clockText(time, (to - from) / 10, Math.max(Math.abs(from), Math.abs(to)));
    const text = `${moment(from)} to ${moment(to)}: ${valueText(y, unit)} ${words}`;
    return [{ x0: from, x1: to, y0: 0, y1: y, text, target: targetOf(columns, row) }];
  });
}

/** Launch-to-start delay and length of the launch queue, for each GPU. */
export function launchQueue(table: Columns): Plot[] {
  const gpus = [...table.by((row) => table.text(row, "gpu_index"))];
  return gpus.flatMap(([gpu, own]) => {
    const where = gpus.length > 1 ? `, GPU ${gpu}` : "";
    const common = { table: "launch_queue" };
    return [
      overTime(
        { ...common, title: `Launch-to-start delay${where}`, note: "Of the kernels that start in each interval.", label: "delay", unit: "ns", isLog: true },
        [
          { name: "longest", category: "launch-bound", kind: "steps", marks: timed(own, "max_ns", "ns", "longest") },
          { name: "median", category: "gemm", kind: "steps", marks: timed(own, "median_ns", "ns", "median") },
        ],
      ),
      overTime(
        { ...common, title: `Length of the launch queue${where}`, note: "Kernels that are launched and have not started.", label: "kernels", unit: "count" },
        [
          { name: "largest", category: "launch-bound", kind: "steps", marks: timed(own, "max_queued", "count", "largest") },
          { name: "mean", category: "gemm", kind: "steps", marks: timed(own, "mean_queued", "none", "mean") },
        ],
      ),
    ];
  });
}

const COPIES: Readonly<Record<string, string>> = {
  "Host-to-Device": "copy-h2d",
  "Device-to-Host": "copy-d2h",
  "Device-to-Device": "copy-d2d",
  "Peer-to-Peer": "copy-p2p",
};

/** Bytes and bandwidth of copies by direction. */
export function copyRates(table: Columns): Plot[] {
  const several = new Set(table.rows.map((row) => table.text(row, "gpu_index"))).size > 1;
  const kinds = [...table.by((row) => `${table.text(row, "direction")}${several ? `, GPU ${table.text(row, "gpu_index")}` : ""}`)];
  if (!kinds.length) return [];
  const series = (kind: Series["kind"], column: string, unit: string): Series[] =>
    kinds.map(([name, own]) => {
      const [first = 0] = own.rows;
      return { name, category: COPIES[own.text(first, "direction")] ?? "copy-other", kind, marks: timed(own, column, unit, name) };
    });
  const total = (own: Columns): string => bytesText(own.sum("total_bytes"));
  const sums = kinds.map(([name, own]) => `${name}: ${total(own)} in ${countText(own.sum("instances"))} copies`);
  return [
    overTime(
      { title: "Copied bytes by direction", note: `${sums.join("; ")}. Each point is an interval and leads to its largest copy.`, table: "copy_rates", label: "bytes per interval", unit: "bytes" },
      series("points", "total_bytes", "bytes"),
    ),
    overTime(
      { title: "Copy bandwidth by direction", note: "Bytes divided by the time in which copies run.", table: "copy_rates", label: "bandwidth", unit: "bytes_per_s" },
      series("points", "bandwidth_bytes_per_s", "bytes_per_s"),
    ),
  ];
}

/** Memory in use until the end of the recording: a plot per place, with its kinds. */
export function memoryUse(table: Columns, end: number): Plot[] {
  const places = table.by((row) => [table.text(row, "place"), table.text(row, "allocator"), table.text(row, "pid")].join("\n"));
  const many = new Set(table.rows.map((row) => table.text(row, "pid"))).size > 1;
  const most = (own: Columns): number => Math.max(...own.rows.map((row) => own.number(row, "max_bytes") ?? 0));
  const byPlace = [...places].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
  return byPlace.flatMap(([place, own]) => {
    const [where, allocator, pid] = place.split("\n");
    const highest = most(own);
    if (highest <= 0) return [];
    const series = [...own.by((row) => own.text(row, "memory"))].flatMap(([kind, rows]): Series[] => [
      ...(rows.rows.some((row) => rows.number(row, "reserved_bytes") !== null)
        ? [{ name: `${kind}, reserved`, category: "unknown", kind: "steps" as const, marks: held(timed(rows, "reserved_bytes", "bytes", "reserved"), end) }]
        : []),
      { name: `${kind}, in use`, kind: "steps", marks: held(timed(rows, "max_bytes", "bytes", "in use"), end) },
    ]);
    const peak = own.rows.find((row) => own.number(row, "max_bytes") === highest) ?? 0;
    return [
      overTime(
        {
          title: `Memory in use, ${where}${many ? `, process ${pid}` : ""} (${(allocator ?? "").toLowerCase()})`,
          note: `Peak ${bytesText(highest)} (${own.text(peak, "memory")}) at ${clockText(own.number(peak, "time_ns") ?? 0, 1000)}. The line shows the most in each interval.`,
          table: "memory_use",
          label: "bytes in use",
          unit: "bytes",
        },
        series,
        [{ text: "peak", y: highest }],
      ),
    ];
  });
}

/** Extends each mark to the next one: without an event, the memory in use does not change. */
function held(marks: readonly Mark[], end: number): Mark[] {
  return marks.map((mark, i) => ({ ...mark, x1: marks[i + 1]?.x0 ?? Math.max(end, mark.x1) }));
}

/** Collectives by message size: bandwidth beside that of the link. */
export function collectiveSizes(table: Columns): Plot | null {
  const kinds = [...table.by((row) => `${table.text(row, "operation")}, ${table.text(row, "ranks")} ranks`)];
  const [first] = table.rows;
  if (first === undefined) return null;
  const link = table.number(first, "link_bytes_per_s");
  const mark = (own: Columns, column: string, name: string) => (row: number): Mark[] => {
    const y = own.number(row, column);
    if (y === null) return [];
    const least = own.number(row, "least_bytes") ?? 1;
    const count = own.number(row, "collectives") ?? 0;
    const took = timeText(own.number(row, "median_intrinsic_ns") ?? 0);
    const text = `${bytesText(least)} to ${bytesText(2 * least)}: ${valueText(y, "bytes_per_s")} ${name}, ${countText(count)} collectives, median ${took}`;
    return [{ x0: least, x1: 2 * least, y0: 0, y1: y, text, target: targetOf(own, row) }];
  };
  const series = kinds.flatMap(([name, own]): Series[] => [
    { name: `${name}: algorithm`, kind: "steps", marks: own.rows.flatMap(mark(own, "algorithm_bytes_per_s", "algorithm")) },
    { name: `${name}: bus`, kind: "points", marks: own.rows.flatMap(mark(own, "bus_bytes_per_s", "bus")) },
  ]);
  const chart: Chart = {
    kind: "chart",
    title: "Bandwidth of collectives by message size",
    note: "Message sizes divided by the time after the last rank's arrival; bus: what a ring moves over each link. A step leads to its slowest collective.",
    table: "collective_sizes",
    x: { label: "message size", unit: "bytes", isLog: true },
    y: { label: "bandwidth", unit: "bytes_per_s", isLog: true },
    series: series.filter((one) => one.marks.length > 0),
  };
  return link === null ? chart : { ...chart, lines: [{ text: `NVLink, ${valueText(link, "bytes_per_s")}`, y: link }] };
}

/** The share of each rank's time in communication that nothing hides. */
export function exposedShares(table: Columns): Plot | null {
  if (!table.rows.some((row) => (table.number(row, "collective_ns") ?? 0) > 0)) return null;
  const exposed = (row: number): number => table.number(row, "exposed_ns") ?? 0;
  const whole = (row: number): number => table.number(row, "collective_ns") ?? 0;
  const bars = (name: string, category: string, from: (row: number) => number, to: (row: number) => number): Series => ({
    name,
    category,
    kind: "bars",
    marks: table.rows.flatMap((row, place) => {
      const [low, high, total] = [from(row), to(row), table.number(row, "total_ns") ?? 1];
      const text = `${rankLabel(table, row)}: ${timeText(high - low)} ${name}, ${shareText((high - low) / total)} of its time`;
      return high > low ? [{ x0: place, x1: place + FILLED, y0: low / total, y1: high / total, text, target: null }] : [];
    }),
  });
  const series = [bars("exposed", "launch-bound", () => 0, exposed), bars("overlapped with compute", "collective", exposed, whole)];
  return {
    kind: "chart",
    title: "Communication of each rank",
    note: "Share of the analyzed time in collectives: exposed, and overlapped with compute.",
    table: "rank_sum",
    x: { label: "rank", unit: "count", labels: table.rows.map((row) => rankLabel(table, row)) },
    y: { label: "share of the rank's time", unit: "ratio" },
    series,
  };
}

/** Which rank waits for which. */
export function waitMatrix(table: Columns): Heat | null {
  const names = [...new Set(table.rows.flatMap((row) => [rankLabel(table, row), rankLabel(table, row, "for_")]))];
  names.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  if (!table.rows.length) return null;
  const cells = table.rows.map((row) => {
    const [one, other, wait] = [rankLabel(table, row), rankLabel(table, row, "for_"), table.number(row, "wait_ns") ?? 0];
    const count = countText(table.number(row, "collectives") ?? 0);
    return { row: names.indexOf(one), column: names.indexOf(other), value: wait, text: `${one} waits for ${other}: ${timeText(wait)} in ${count} collectives`, target: targetOf(table, row) };
  });
  return { kind: "heat", title: "Waits of ranks for each other", note: "Row: the rank that waits. Column: the rank that arrives last. A cell leads to the longest wait.", table: "wait_matrix", unit: "ns", isFromLowest: false, rowTitle: "waits", columnTitle: "arrives last", rows: names, columns: names, cells };
}
