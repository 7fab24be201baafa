/** The page's data: its head, and the JSON of `warpline kernels` for each launch and each function. */

export type Outcome = "expected" | "floor" | "no-gain";

/** A row of the summary: a launch of a kernel. */
export interface Row {
  readonly id: number;
  /** The recording that it is from; null if there is only one. */
  readonly report: string | null;
  readonly function: string;
  readonly name: string;
  readonly grid: readonly number[] | null;
  readonly block: readonly number[] | null;
  readonly duration_ns: number | null;
  readonly cycles: number | null;
  readonly compute_ratio: number | null;
  readonly memory_ratio: number | null;
  readonly registers: number | null;
  /** Of the finding that saves most: expected, or at most where only a floor is known. */
  readonly saving_ns: number | null;
  readonly outcome: Outcome | null;
  readonly severity: string | null;
  readonly title: string | null;
  /** Block with its `Kernel`; null if the page has only the summary of it. */
  readonly block_number: number | null;
}

/** A row of the list of functions with code. */
export interface CodeRow {
  readonly function: string;
  readonly name: string;
  readonly samples: number;
  readonly too_few: boolean;
  /** The reason with the most samples. */
  readonly stall: string | null;
  /** IDs of the launches that it belongs to; empty for samples of the whole program. */
  readonly kernels: readonly number[];
  readonly block_number: number;
}

export interface BlockInfo {
  readonly raw_bytes: number;
}

export interface Head {
  readonly schema_version: number;
  readonly title: string;
  readonly facts: readonly (readonly [label: string, value: string])[];
  /** What is not in the page, and how to see it. */
  readonly notes: readonly string[];
  /** Number of launches and their total time, also of those that the page has no row of. */
  readonly launches: number;
  readonly total_ns: number;
  readonly by_kernel: readonly { readonly name: string; readonly short_name: string; readonly launches: number; readonly total_ns: number }[];
  /** Names of the metrics of launches: a block has only their values. */
  readonly metrics: readonly string[];
  readonly rows_block: number;
  readonly code: readonly CodeRow[];
  readonly blocks: readonly BlockInfo[];
}

export interface SourceLine {
  readonly file: string;
  readonly line: number;
  readonly text: string | null;
  readonly metric: string | null;
  readonly value: number | null;
  readonly ratio: number | null;
}

export interface Finding {
  readonly rule: string;
  readonly title: string;
  readonly severity: string;
  readonly saving_ns: number | null;
  readonly saving_low_ns: number;
  readonly saving_high_ns: number;
  readonly outcome: Outcome;
  readonly before_ns: number;
  readonly predicted_ns: number | null;
  readonly predicted_low_ns: number;
  readonly predicted_high_ns: number;
  readonly next_limiter: string;
  readonly claim: string;
  /** What it gives a step of the timeline, where there is one. */
  readonly step_saving_ns?: number | null;
  readonly step_saving_low_ns?: number | null;
  readonly step_saving_high_ns?: number | null;
  readonly step_ns?: number | null;
  readonly evidence: readonly { readonly metric: string; readonly value: number; readonly unit: string }[];
  readonly lines: readonly SourceLine[];
  readonly fix: string;
}

export interface Ratio {
  readonly name: string;
  readonly metric: string;
  readonly ratio: number | null;
}

export interface Throughput extends Ratio {
  readonly breakdown?: readonly { readonly metric: string; readonly label: string; readonly ratio: number | null }[];
}

export interface RooflinePoint {
  readonly precision: string;
  readonly name?: string;
  readonly level: string;
  readonly flop_per_byte: number | null;
  readonly flop_per_s: number;
  readonly bytes_per_s?: number | null;
  /** Of the ceiling at this intensity. */
  readonly ratio?: number | null;
  readonly governed_by?: string | null;
}

export interface Ceiling {
  readonly kind: "compute" | "bandwidth";
  readonly name?: string;
  readonly precision?: string;
  readonly level?: string;
  readonly flop_per_s?: number;
  readonly bytes_per_s?: number;
  readonly source: string;
}

export interface Roofline {
  readonly points: readonly RooflinePoint[];
  readonly ceilings: readonly Ceiling[];
  /** What bounds the kernel, in words. */
  readonly bound?: string | null;
}

export interface MemoryNode {
  readonly id: string;
  readonly label: string;
  readonly ratio: number | null;
  readonly ratio_label?: string | null;
}

export interface MemoryEdge {
  readonly from: string;
  readonly to: string;
  /** What `requests` counts; requests if absent. */
  readonly counts?: string;
  readonly requests: number | null;
  readonly bytes: number | null;
  readonly ratio: number | null;
}

export interface Column {
  readonly name: string;
  readonly unit: string;
}

export type Cell = string | number | boolean | null;

/** The first cell of a row names it, and has no column. */
export interface MemoryTable {
  readonly title: string;
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly Cell[])[];
  /** The metrics of the other cells, by row. */
  readonly metrics?: readonly (readonly string[])[];
}

export interface Fact {
  readonly label: string;
  readonly metric: string | null;
  readonly value: Cell;
  readonly unit: string;
}

export interface Stall {
  readonly stall: string;
  readonly label: string;
  readonly metric?: string;
  readonly cycles_per_instruction: number | null;
  readonly ratio: number | null;
}

export interface Curve {
  readonly by: string;
  readonly current: number | null;
  readonly points: readonly (readonly [number, number])[];
}

export interface Occupancy {
  readonly theoretical_ratio: number | null;
  readonly achieved_ratio: number | null;
  readonly limits: readonly { readonly limit: string; readonly blocks: number | null; readonly is_limiting: boolean }[];
  readonly curves: readonly Curve[];
}

export interface Spread {
  readonly unit: string;
  readonly metric: string;
  readonly min: number | null;
  readonly avg: number | null;
  readonly max: number | null;
}

export interface Sampled {
  readonly metric: string;
  readonly label: string;
  readonly unit: string;
  readonly times_ns: readonly number[];
  readonly values: readonly (number | null)[];
}

/** A key is absent if its counters were not collected. */
export interface Sections {
  readonly speed_of_light?: readonly Throughput[];
  readonly roofline?: Roofline;
  readonly pipes?: readonly Ratio[];
  readonly memory?: {
    readonly nodes: readonly MemoryNode[];
    readonly edges: readonly MemoryEdge[];
    readonly tables: readonly MemoryTable[];
  };
  readonly scheduler?: readonly Fact[];
  readonly warp_states?: readonly Stall[];
  readonly instructions?: readonly { readonly opcode: string; readonly executed: number }[];
  readonly launch?: readonly Fact[];
  readonly occupancy?: Occupancy;
  readonly workload?: readonly Spread[];
  readonly samples?: readonly Sampled[];
}

export interface Kernel {
  readonly id: number;
  readonly name: string;
  readonly grid: readonly number[] | null;
  readonly block: readonly number[] | null;
  readonly invocation: number;
  readonly context: number | null;
  readonly stream: number | null;
  readonly device: number | null;
  readonly nvtx: string | null;
  readonly metrics: Readonly<Record<string, number | string | null>>;
  readonly passes: number | null;
  readonly findings: readonly Finding[];
  readonly sections: Sections;
  /** Place in `Head.code`. */
  readonly code: number | null;
}

export interface CodeMetric {
  readonly name: string;
  readonly label: string;
  readonly unit: string;
}

/** Of each metric; null where it has none. */
export type Values = readonly (number | null)[];

/** Where a function that is inlined is called: place of the file, and line. */
export interface SourcePlace {
  readonly file: number;
  readonly line: number;
}

export interface Instruction {
  readonly offset: number;
  readonly sass: string | null;
  readonly encoding: string | null;
  readonly file: number | null;
  readonly line: number | null;
  readonly inlined_at?: SourcePlace | null;
  readonly ptx_line: number | null;
  readonly values: Values;
}

export interface CodeLine {
  readonly line: number;
  readonly text: string | null;
  readonly inlined_at?: SourcePlace | null;
  /** Null for a line without instructions. */
  readonly values: Values | null;
}

export interface CodeFile {
  readonly path: string;
  readonly kind: string;
  readonly lines: readonly CodeLine[];
}

export interface Code {
  readonly function: string;
  readonly name: string;
  readonly has_sass: boolean;
  readonly note: string | null;
  readonly too_few: boolean;
  readonly samples: number;
  readonly metrics: readonly CodeMetric[];
  readonly instructions: readonly Instruction[];
  readonly files: readonly CodeFile[];
}

/** Parses the head of the page. Throws an Error if it is of another version or damaged. */
export function readHead(text: string): Head {
  const head = JSON.parse(text) as Head;
  if (head.schema_version !== 1) throw new Error("The data of this report has another version than its script. Create the report again.");
  return head;
}
