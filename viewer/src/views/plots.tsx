/** The plots, by topic. Each is made from a table of `warpline stats`; a point leads to its events. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { plainText } from "../base/text";
import { countText, shareText, timeText } from "../base/units";
import type { Head, ResultTable } from "../data/head";
import { fitSpan } from "../engine/view";
import { ChartView, HeatView } from "../plots/chart";
import { Columns, rankLabel, type Target } from "../plots/columns";
import type { Plot } from "../plots/shapes";
import { idleCauses, rankHeat, STEP_TIMES, stepTimes, tableOfSteps } from "../plots/steps";
import { collectiveSizes, copyRates, exposedShares, kernelDurations, launchQueue, memoryUse, waitMatrix } from "../plots/work";
import type { Model } from "./model";
import { LineNames } from "./table-lines";
import { tableNamed } from "./topics";

interface Made {
  readonly table: (name: string) => Columns | null;
  readonly kernel: string;
  /** The steps of all GPUs, also those that the table lacks. */
  readonly steps: Columns;
  /** The end of the recording. */
  readonly end: number;
}

interface TopicOfPlots {
  readonly title: string;
  readonly tables: readonly string[];
  readonly make: (made: Made) => readonly (Plot | null)[];
}

/** Applies a function to a table of the recording; nothing without the table. */
function of<T>(table: Columns | null, make: (columns: Columns) => T): T | null {
  return table && make(table);
}

const TOPICS: readonly TopicOfPlots[] = [
  {
    title: "Steps",
    tables: ["rank_steps", "step_parts"],
    make: ({ table, steps }) => [table("rank_steps") && stepTimes(steps), ...(of(table("step_parts"), idleCauses) ?? [])],
  },
  {
    title: "Kernels",
    tables: ["kernel_durations"],
    make: ({ table, kernel }) => [of(table("kernel_durations"), (own) => kernelDurations(own, kernel))],
  },
  { title: "Launches", tables: ["launch_queue"], make: ({ table }) => of(table("launch_queue"), launchQueue) ?? [] },
  { title: "Memory", tables: ["memory_use"], make: ({ table, end }) => of(table("memory_use"), (own) => memoryUse(own, end)) ?? [] },
  { title: "Copies", tables: ["copy_rates"], make: ({ table }) => of(table("copy_rates"), copyRates) ?? [] },
  {
    title: "Ranks",
    tables: ["rank_steps", "rank_sum"],
    make: ({ table }) => {
      const own = table("rank_steps");
      return [
        of(own, (it) => rankHeat(it, "device_ns", "Step time by rank and step", "A cell leads to the step on its GPU.")),
        of(own, (it) => rankHeat(it, "behind_ns", "Delay behind the fastest rank", "How much longer the step took than on the fastest rank.")),
        of(own, (it) => rankHeat(it, "wait_ns", "Waits for other ranks", "Time of the step in collectives that wait for another rank.")),
      ];
    },
  },
  {
    title: "Communication",
    tables: ["rank_sum", "wait_matrix", "collective_sizes"],
    make: ({ table }) => [of(table("rank_sum"), exposedShares), of(table("wait_matrix"), waitMatrix), of(table("collective_sizes"), collectiveSizes)],
  },
];

/** Returns a table with the times of the page: those of the container. */
function inPage(table: ResultTable, head: Head): ResultTable {
  const offset = Number(head.offset_ns ?? 0);
  if (!offset) return table;
  const isMoment = table.columns.map(({ name, unit }) => unit === "ns" && /^(start|end|time)_/.test(name));
  const rows = table.rows.map((row) => row.map((value, at) => (isMoment[at] && typeof value === "number" ? value - offset : value)));
  return { ...table, rows };
}

function useTables(model: Model, names: readonly string[]): ReadonlyMap<string, ResultTable> | string | null {
  const [answer, setAnswer] = useState<{ names: readonly string[]; found: ReadonlyMap<string, ResultTable> | string } | null>(null);
  useEffect(() => {
    let isStale = false;
    const { head } = model.recording;
    const known = names.flatMap((name) => {
      const spec = tableNamed(head.results, name);
      return spec ? [[name, spec.name] as const] : [];
    });
    const each = known.map(async ([name, full]) => [name, inPage(await model.recording.result(full), head)] as const);
    const take = (found: ReadonlyMap<string, ResultTable> | string): void => {
      if (!isStale) setAnswer({ names, found });
    };
    Promise.all(each).then((found) => take(new Map(found)), (error: unknown) => take(String((error as Error).message)));
    return () => {
      isStale = true;
    };
  }, [model, names, model.arrived.value]);
  return answer?.names === names ? answer.found : null;
}

/** Shows what a point of a plot stands for: the event and its surroundings, else the time. */
export async function showTarget(model: Model, { event, span }: Target): Promise<void> {
  model.page.value = "timeline";
  if (span) model.show(fitSpan(span, model.limits, 0.04));
  if (event && !(await model.selectId(event))) model.tell("The event is not in this file: short events were omitted.");
}

const KERNEL_LETTERS = 110;

interface KernelChoiceProps {
  readonly model: Model;
  readonly table: Columns;
  readonly kernel: string;
  readonly onKernel: (name: string) => void;
}

function KernelChoice({ model, table, kernel, onKernel }: KernelChoiceProps) {
  const names = useMemo(() => [...table.by((row) => table.text(row, "name")).keys()], [table]);
  const { recording } = model;
  const short = useMemo(() => new LineNames(recording.names, recording.head.categories), [recording, model.arrived.value]);
  return (
    <p>
      <label>
        Kernel{" "}
        <select class="kernel-choice" value={kernel} title={plainText(kernel)} onChange={(event) => onKernel(event.currentTarget.value)}>
          {names.map((name) => <option key={name} value={name} title={plainText(name)}>{plainText(short.shown(name)).slice(0, KERNEL_LETTERS)}</option>)}
        </select>
      </label>
    </p>
  );
}

/** Says that a plot shows only the first rows of its table; step times are complete. */
function Cut({ plot, table }: { plot: Plot; table: ResultTable | undefined }) {
  const { rows, row_count = 0 } = table ?? { rows: [] };
  if (row_count <= rows.length || plot.title === STEP_TIMES) return null;
  return <span class="cut-note">Only the first {countText(rows.length)} of {countText(row_count)} rows of the table. </span>;
}

/** Says which tables a topic lacks. */
function Notes({ model, topic, tables }: { model: Model; topic: TopicOfPlots; tables: ReadonlyMap<string, ResultTable> }) {
  const missing = topic.tables.filter((name) => !tables.has(name));
  const isPending = model.pending.value !== null && !model.pending.value.isReady;
  const absent = Object.entries(model.recording.head.absent ?? {}).map(([name, reason]) => ({ name, reason }));
  const reasonOf = (name: string): string => {
    const found = tableNamed(absent, name);
    return found ? `: ${plainText(found.reason)}` : "";
  };
  return (
    <>
      {missing.length > 0 && isPending && <p class="faint">Some plots follow when the diagnosis is ready.</p>}
      {!isPending && missing.map((name) => (
        <p class="faint" key={name}>No data for <code>{name}</code>{reasonOf(name)}.</p>
      ))}
    </>
  );
}

/** Names the rank that the others wait for most. */
function Latest({ table }: { table: Columns | null }) {
  if (!table) return null;
  const waited = table.sum("caused_ns");
  const [latest] = [...table.rows].sort((a, b) => (table.number(b, "caused_ns") ?? 0) - (table.number(a, "caused_ns") ?? 0));
  if (latest === undefined || waited <= 0) return null;
  const caused = table.number(latest, "caused_ns") ?? 0;
  return (
    <p class="latest">
      The others wait for <b>{rankLabel(table, latest)}</b> most: {timeText(caused)} in the analyzed steps, {shareText(caused / waited)} of all waiting for ranks.
    </p>
  );
}

const ROOM_FOR_RANKS = 0.22; // of the window's height, for each of three matrices

export function Plots({ model }: { model: Model }) {
  const { results } = model.recording.head;
  const shown = useMemo(() => TOPICS.filter((topic) => topic.tables.some((name) => tableNamed(results, name))), [results]);
  const [title, setTitle] = useState(shown[0]?.title ?? TOPICS[0]?.title ?? "");
  const [kernel, setKernel] = useState("");
  const topic = TOPICS.find((one) => one.title === title) as TopicOfPlots;
  const tables = useTables(model, topic.tables);
  const isReady = tables !== null && typeof tables === "object";
  const columns = useMemo(() => new Map(isReady ? [...tables].map(([name, table]) => [name, new Columns(table)] as const) : []), [tables, isReady]);
  const durations = of(columns.get("kernel_durations") ?? null, (own) => own.whole((row) => own.text(row, "name")));
  const [first = 0] = durations?.rows ?? [];
  const chosen = kernel || (durations?.text(first, "name") ?? "");
  const { head } = model.recording;
  const steps = useMemo(() => tableOfSteps(head.steps), [head]);
  const plots = useMemo(
    () => topic.make({ table: (name) => columns.get(name) ?? null, kernel: chosen, steps, end: model.limits.end }).filter((plot) => plot !== null),
    [topic, columns, chosen, steps, model],
  );
  const go = (target: Target): void => void showTarget(model, target);
  const room = Math.max(60, window.innerHeight * ROOM_FOR_RANKS);
  return (
    <section class="tables plots" aria-label="Plots">
      <nav aria-label="Topics of plots">
        {TOPICS.map((one) => (
          <button type="button" key={one.title} aria-current={one.title === title ? "page" : undefined} onClick={() => setTitle(one.title)}>
            {one.title}
          </button>
        ))}
      </nav>
      <div class="plots-body">
        {topic.title === "Ranks" && <Latest table={columns.get("rank_sum") ?? null} />}
        {typeof tables === "string" && <p role="alert">{plainText(tables)}</p>}
        {durations && <KernelChoice model={model} table={durations} kernel={chosen} onKernel={setKernel} />}
        {plots.map((plot) => (
          <figure key={plot.title} class="plot">
            <figcaption>
              <h2>{plainText(plot.title)}</h2>
              <span class="faint">{plainText(plot.note)} </span>
              <Cut plot={plot} table={columns.get(plot.table)?.table} />
              <button type="button" class="link" onClick={() => { model.table.value = tableNamed(results, plot.table)?.name ?? null; model.page.value = "tables"; }}>Table</button>
            </figcaption>
            {plot.kind === "chart" ? <ChartView chart={plot} onTarget={go} /> : <HeatView heat={plot} room={room} onTarget={go} />}
          </figure>
        ))}
        {isReady && plots.length === 0 && tables.size > 0 && <p class="faint">Nothing to draw: {topic.title === "Ranks" ? "the recording has one rank." : "the tables are empty."}</p>}
        {isReady && <Notes model={model} topic={topic} tables={tables} />}
      </div>
    </section>
  );
}
