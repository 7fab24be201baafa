/** Which instructions and lines of a function are hot, by a chosen metric. Pure. */

import type { Code, CodeFile, Instruction, SourcePlace, Values } from "../data/document";

const STALL = "stall_";
const PTX = "PTX";

/** Places of the metrics that are reasons for stalls. */
export function stallPlaces(code: Code): number[] {
  return code.metrics.flatMap(({ name }, place) => (name.startsWith(STALL) ? [place] : []));
}

/** Place of a metric by name; else of the first one that has a value; else 0. */
export function chosenMetric(code: Code, name: string | null): number {
  const named = code.metrics.findIndex((metric) => metric.name === name);
  if (named >= 0) return named;
  const first = code.metrics.findIndex((_, place) => code.instructions.some(({ values }) => values[place]));
  return Math.max(0, first);
}

interface Valued {
  readonly values: Values | null;
}

export function largest(rows: readonly Valued[], metric: number): number {
  return rows.reduce((most, { values }) => Math.max(most, values?.[metric] ?? 0), 0);
}

export function total(rows: readonly Valued[], metric: number): number {
  return rows.reduce((sum, { values }) => sum + (values?.[metric] ?? 0), 0);
}

/** Per instruction the values of all its rows, for the chosen ones. */
export function sums(rows: readonly Valued[], metrics: readonly number[]): number[] {
  return metrics.map((metric) => total(rows, metric));
}

export interface HotLine {
  readonly file: number;
  readonly line: number;
  readonly text: string | null;
  readonly inlinedAt: SourcePlace | null;
  readonly value: number;
  readonly share: number;
}

/** Returns the lines with the highest values of all files, highest first; those of PTX without others. */
export function hottestLines(files: readonly CodeFile[], metric: number, most: number): HotLine[] {
  const isShown = hasSource(files, metric) ? ({ kind }: CodeFile): boolean => kind !== PTX : () => true;
  const whole = files.filter(isShown).reduce((sum, { lines }) => sum + total(lines, metric), 0) || 1;
  return files
    .flatMap((file, at) => (isShown(file) ? file.lines.map((line) => ({ ...line, file: at })) : []))
    .flatMap(({ file, line, text, inlined_at, values }) => {
      const value = values?.[metric];
      return value ? [{ file, line, text, inlinedAt: inlined_at ?? null, value, share: value / whole }] : [];
    })
    .sort((one, other) => other.value - one.value || one.file - other.file || one.line - other.line)
    .slice(0, most);
}

/** Place of the file with the highest value of a metric, PTX only without another; 0 if none has values. */
export function hottestFile(files: readonly CodeFile[], metric: number): number {
  const sums = files.map(({ lines, kind }) => (kind === PTX && hasSource(files, metric) ? 0 : total(lines, metric)));
  return Math.max(0, sums.indexOf(Math.max(...sums)));
}

/** Whether a file that is not PTX has values: those of PTX are the same ones again. */
function hasSource(files: readonly CodeFile[], metric: number): boolean {
  return files.some(({ kind, lines }) => kind !== PTX && total(lines, metric) > 0);
}

/** Place of the row with the highest value of a metric; -1 if none has values. */
export function hottestRow(rows: readonly Valued[], metric: number): number {
  const most = largest(rows, metric);
  return most > 0 ? rows.findIndex(({ values }) => values?.[metric] === most) : -1;
}

export interface HotInstruction {
  readonly place: number;
  readonly value: number;
}

export function hottestInstructions(instructions: readonly Instruction[], metric: number, most: number): HotInstruction[] {
  return instructions
    .flatMap(({ values }, place) => (values[metric] ? [{ place, value: values[metric] as number }] : []))
    .sort((one, other) => other.value - one.value || one.place - other.place)
    .slice(0, most);
}

/** Returns whether an instruction belongs to a line of a file; PTX has line numbers of its own. */
export function isOf(instruction: Instruction, files: readonly CodeFile[], file: number, line: number): boolean {
  if (files[file]?.kind === PTX) return instruction.ptx_line === line;
  return instruction.file === file && instruction.line === line;
}

/** Returns the line of a file that an instruction belongs to; null if it belongs to another file. */
export function lineOfInstruction(instruction: Instruction, files: readonly CodeFile[], file: number): number | null {
  if (files[file]?.kind === PTX) return instruction.ptx_line;
  return instruction.file === file ? instruction.line : null;
}

/** Returns the samples by reason of some instructions, most first, without those that have none. */
export function stallsOf(code: Code, rows: readonly Valued[]): { readonly place: number; readonly value: number }[] {
  const places = stallPlaces(code);
  return sums(rows, places)
    .map((value, i) => ({ place: places[i] as number, value }))
    .filter(({ value }) => value > 0)
    .sort((one, other) => other.value - one.value);
}
