/** The types of the container's head; see CONTAINER.md. */

export const CONTAINER_VERSION = 1;

export type Encoding = "plain" | "optional" | "delta" | "optional-delta" | "float32" | "float64";

export interface ColumnSpec {
  readonly name: string;
  readonly planes: number;
  readonly encoding?: Encoding;
}

export interface PartSpec {
  readonly block: number;
  readonly offset: number;
  readonly count: number;
  readonly first_ns: number;
  readonly columns: readonly ColumnSpec[];
}

export type RowKind =
  | "group"
  | "state"
  | "step"
  | "stream"
  | "phase"
  | "thread"
  | "sample"
  | "range"
  | "op"
  | "api"
  | "os"
  | "mark"
  | "limit"
  | "counter";

/** Exact sums of a row by bins of `2 ** level` ns: the events that start in each, and the time of each category. */
export interface SumsSpec {
  readonly block: number;
  readonly offset: number;
  readonly level: number;
  readonly count: number;
  readonly columns: readonly ColumnSpec[];
}

export interface RowSpec {
  readonly id: string;
  readonly parent: string | null;
  readonly label: string;
  readonly kind: RowKind;
  readonly device?: number | null;
  readonly process?: number | null;
  readonly thread?: number | null;
  readonly stream?: number | null;
  readonly table?: number | null;
  readonly count: number;
  readonly busy_ns?: number;
  readonly depth?: number;
  readonly collapsed?: boolean;
  readonly hidden?: boolean;
  readonly unit?: string | null;
  readonly min?: number | null;
  readonly max?: number | null;
  /** The upper end of a counter's axis; absent: the highest value. */
  readonly axis_max?: number | null;
  /** What the label stands for, such as the full name of a metric. */
  readonly title?: string | null;
  /** Whether a counter has samples at regular times, so that its mean says something. */
  readonly sampled?: boolean;
  readonly clock_error_ns?: number | null;
  readonly parts: readonly PartSpec[];
  /** Of a row with omitted events. */
  readonly sums?: SumsSpec | null;
}

export interface Category {
  readonly name: string;
  readonly kind: "busy" | "idle" | "host" | "range" | "op" | "api" | "os" | "other";
  readonly meaning: string;
}

export interface BlockSpec {
  readonly kind: "overview" | "names" | "events" | "sums" | "attributes" | "stacks" | "results";
  readonly raw_bytes: number;
  readonly bytes: number;
}

export interface LinkSpec {
  readonly name: string;
  readonly table: string;
  readonly text: string;
}

export interface StepsSpec {
  readonly label: string;
  readonly rows: readonly string[];
  readonly start_ns: readonly number[];
  readonly end_ns: readonly number[];
  readonly text: readonly string[];
  /** Numbers as in tables. */
  readonly index?: readonly number[];
  readonly excluded: readonly boolean[];
}

export interface Focus {
  readonly id: string;
  readonly windows_ns: readonly (readonly [number, number])[];
  readonly rows: readonly string[];
  readonly events: readonly string[];
  readonly colour?: "category" | "name" | "cause";
}

export interface AttributeColumn extends ColumnSpec {
  readonly unit: string;
  readonly doc: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly texts?: boolean;
}

export interface AttributeSpec {
  readonly table: string;
  readonly count: number;
  readonly block: number;
  readonly offset: number;
  readonly columns: readonly AttributeColumn[];
}

/** The stacks of samples: the distance to the caller's, 0 without one, and the name of the innermost frame. */
export interface StacksSpec {
  readonly block: number;
  readonly offset: number;
  readonly count: number;
  readonly columns: readonly ColumnSpec[];
}

export interface ResultSpec {
  readonly name: string;
  readonly title: string;
  readonly command: string;
  readonly block: number;
}

export interface ResultTable {
  readonly columns: readonly { readonly name: string; readonly title: string; readonly unit: string }[];
  readonly rows: readonly (readonly unknown[])[];
  readonly names?: readonly (readonly number[])[];
  /** A description per column, by its name. */
  readonly doc?: Readonly<Record<string, string>>;
  readonly notes?: readonly string[];
  /** The number of rows of the whole table, if the page has only the first. */
  readonly row_count?: number;
}

export interface SummaryFinding {
  readonly id: string;
  readonly rule: string;
  readonly severity: string;
  readonly title: string;
  readonly claim?: string;
  readonly saving_ns?: number | null;
  readonly saving_low_ns?: number | null;
  readonly saving_high_ns?: number | null;
  readonly share?: number | null;
  readonly fix?: string;
  readonly verify?: string;
  readonly evidence?: readonly { readonly text: string }[];
}

export interface Summary {
  readonly verdict?: string;
  readonly findings?: readonly SummaryFinding[];
  readonly breakdown?: readonly { readonly count: number }[];
}

export interface Thinned {
  readonly text: string;
  readonly spans: readonly {
    readonly rows: readonly string[];
    readonly start_ns: number;
    readonly end_ns: number;
    readonly kept: number;
    readonly total: number;
  }[];
}

/** The grid of tiles: level k has bins of 2 ** k ns, with `bins` bins per tile. */
export interface TilesSpec {
  readonly bins: number;
  readonly levels: number;
  readonly start_ns: number;
}

export interface Head {
  readonly container_version: number;
  readonly producer?: string;
  readonly title: string;
  readonly source: "inline" | "http";
  /** The initial page if the address has none; absent: the overview. */
  readonly first_page?: "overview" | "timeline";
  readonly start_ns: number;
  readonly end_ns: number;
  readonly origin_utc_ns: string | null;
  /** Subtracted from all times of the trace; its tables keep their own. */
  readonly offset_ns?: string;
  readonly overview_bins: number;
  readonly blocks: readonly BlockSpec[];
  readonly tables: readonly string[];
  readonly categories: readonly Category[];
  readonly rows: readonly RowSpec[];
  readonly links: readonly LinkSpec[];
  readonly steps: readonly StepsSpec[];
  readonly findings: readonly Focus[];
  readonly attributes: readonly AttributeSpec[];
  readonly results: readonly ResultSpec[];
  /** Absent or null: no samples. */
  readonly stacks?: StacksSpec | null;
  /** Why tables are missing, by name. */
  readonly absent?: Readonly<Record<string, string>>;
  readonly summary: Summary;
  readonly environment: readonly (readonly [string, string])[];
  readonly losses: readonly { readonly time_ns: number; readonly text: string }[];
  readonly thinned: Thinned | null;
  /** The events are not in the file: the page requests tiles from the server. */
  readonly tiles?: TilesSpec | null;
  /** A sentence about a computation in progress. */
  /** What the page shows of a recording in progress; absent: it is finished. */
  readonly live?: { readonly start_ns: number; readonly end_ns: number };
  readonly pending?: string | null;
}

/** Defaults of a head. */
export const EMPTY_HEAD = {
  producer: "",
  title: "",
  source: "inline",
  origin_utc_ns: null,
  overview_bins: 0,
  blocks: [],
  tables: [],
  categories: [],
  rows: [],
  links: [],
  steps: [],
  findings: [],
  attributes: [],
  results: [],
  summary: {},
  environment: [],
  losses: [],
  thinned: null,
} satisfies Partial<Head>;

/** Parses a head. Throws an Error if this page cannot show it. */
export function readHead(text: string): Head {
  const head = JSON.parse(text) as Partial<Head>;
  if (head.container_version !== CONTAINER_VERSION) {
    throw new Error(
      `Unsupported container version ${String(head.container_version)}. This page supports version ${CONTAINER_VERSION}.`,
    );
  }
  const length = (head.end_ns ?? Number.NaN) - (head.start_ns ?? Number.NaN);
  if (!(length >= 0)) throw new Error("The file has no start or end time of the recording.");
  return { ...EMPTY_HEAD, ...head } as Head;
}
