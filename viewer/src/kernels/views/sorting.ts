/** The columns of the summary, and the order of its rows. Pure. */

import type { Row } from "../data/document";
import type { Sorting } from "./model";

export interface SummaryColumn {
  readonly key: string;
  readonly title: string;
  readonly note: string;
  /** Whether the largest comes first when it is sorted. */
  readonly isNumber: boolean;
  /** Whether it is aligned as text, although it is sorted as a number. */
  readonly isText?: boolean;
}

const COLUMNS: readonly SummaryColumn[] = [
  { key: "id", title: "ID", note: "Number of the launch in its report", isNumber: true },
  { key: "saving_ns", title: "Estimated saving", note: "Of the finding that saves most: expected, or at most where only a floor is known", isNumber: true, isText: true },
  { key: "function", title: "Function name", note: "Name without namespaces and arguments", isNumber: false },
  { key: "name", title: "Demangled name", note: "Whole name", isNumber: false },
  { key: "duration_ns", title: "Duration", note: "GPU time of the launch", isNumber: true },
  { key: "compute_ratio", title: "Compute throughput", note: "Of its peak", isNumber: true },
  { key: "memory_ratio", title: "Memory throughput", note: "Of its peak", isNumber: true },
  { key: "registers", title: "Registers", note: "Per thread", isNumber: true },
  { key: "grid", title: "Grid", note: "Blocks", isNumber: true, isText: true },
  { key: "block", title: "Block", note: "Threads", isNumber: true, isText: true },
  { key: "cycles", title: "Cycles", note: "Elapsed cycles of the SMs", isNumber: true },
];

const REPORT: SummaryColumn = { key: "report", title: "Report", note: "The recording that the launch is from", isNumber: false };

/** Returns the columns of rows: which report they are from is one of them, if there are several. */
export function columnsOf(rows: readonly Row[]): readonly SummaryColumn[] {
  return rows.some(({ report }) => report !== null) ? [REPORT, ...COLUMNS] : COLUMNS;
}

function valueOf(row: Row, key: string): number | string | null {
  const value = row[key as keyof Row];
  if (Array.isArray(value)) return (value as number[]).reduce((product, one) => product * one, 1);
  return value as number | string | null;
}

/** Returns the places of rows in order. Rows without a value come last, equal ones in the order of launches. */
export function sortedRows(rows: readonly Row[], { key, isDescending }: Sorting): number[] {
  const values = rows.map((row) => valueOf(row, key));
  const sign = isDescending ? -1 : 1;
  return rows.map((_, at) => at).sort((one, other) => {
    const [a, b] = [values[one] ?? null, values[other] ?? null];
    if (a === null || b === null) return (a === null ? 1 : 0) - (b === null ? 1 : 0) || one - other;
    const order = typeof a === "string" || typeof b === "string" ? String(a).localeCompare(String(b)) : a - b;
    return sign * order || one - other;
  });
}
