/** The page Details: one launch, its findings, then its sections. */

import { useState } from "preact/hooks";
import { plainText, searchPattern, shortened } from "../../base/text";
import { plural } from "../../base/units";
import type { Kernel, Row } from "../data/document";
import { shareOrNone, sizeText, timeOrNone, withUnit } from "../plots/values";
import { Findings } from "./findings";
import type { Model } from "./model";
import { Folded } from "./parts";
import { SECTIONS } from "./sections";

const LONGEST_NAME = 90;
const MOST_METRICS = 300;

export function Details({ model }: { model: Model }) {
  const row = model.shown.value;
  const kernel = model.kernel.value;
  if (!row) return <main class="details"><p class="note">The recording has no profiled launches.</p></main>;
  return (
    <main class="details">
      <Choice model={model} />
      <h1>{plainText(row.name)}</h1>
      <Cards row={row} />
      {row.block_number === null && <p class="note">This report has only the summary of this launch.</p>}
      {kernel && <Content kernel={kernel} model={model} />}
    </main>
  );
}

/** Chooses a launch, among those with details. */
function Choice({ model }: { model: Model }) {
  const rows = model.rows.value;
  const listed = rows.flatMap((row, at) => (row.block_number === null ? [] : [{ row, at }]));
  return (
    <p class="controls">
      <label>
        Launch{" "}
        <select value={String(model.row.value)} onChange={(event) => (model.row.value = Number(event.currentTarget.value))}>
          {listed.map(({ row, at }) => <option key={at} value={String(at)}>{`${row.report === null ? "" : `${plainText(row.report)} `}${row.id}: ${shortened(plainText(row.function), LONGEST_NAME)}, ${timeOrNone(row.duration_ns)}`}</option>)}
        </select>
      </label>
      <button onClick={() => model.step(-1)} disabled={listed[0]?.at === model.row.value}>Previous</button>
      <button onClick={() => model.step(1)} disabled={listed.at(-1)?.at === model.row.value}>Next</button>
    </p>
  );
}

function Cards({ row }: { row: Row }) {
  const cards: readonly (readonly [string, string, number | null])[] = [
    ["Duration", timeOrNone(row.duration_ns), row.duration_ns],
    ["Cycles", withUnit(row.cycles, "count"), row.cycles],
    ["Compute throughput", shareOrNone(row.compute_ratio), row.compute_ratio],
    ["Memory throughput", shareOrNone(row.memory_ratio), row.memory_ratio],
    ["Registers per thread", withUnit(row.registers, "count"), row.registers],
    ["Grid", sizeText(row.grid), null],
    ["Block", sizeText(row.block), null],
  ];
  return (
    <dl class="cards">
      {cards.map(([label, text, value]) => <div key={label}><dt>{label}</dt><dd data-value={value ?? undefined}>{text}</dd></div>)}
    </dl>
  );
}

function Content({ kernel, model }: { kernel: Kernel; model: Model }) {
  const present = SECTIONS.filter(({ id }) => kernel.sections[id] !== undefined);
  const absent = SECTIONS.filter(({ id }) => kernel.sections[id] === undefined);
  const where = [
    kernel.nvtx && `NVTX ${kernel.nvtx}`,
    kernel.device !== null && `GPU ${kernel.device}`,
    kernel.stream !== null && `stream ${kernel.stream}`,
    `invocation ${kernel.invocation}`,
    kernel.passes !== null && plural(kernel.passes, "pass", "passes"),
  ].filter(Boolean).join(", ");
  return (
    <>
      <p class="faint">
        {plainText(where)}. {kernel.code !== null && <button class="link" onClick={() => model.openCode(kernel.code as number)}>Show the source</button>}
      </p>
      <div class="with-index">
        <nav class="index" aria-label="Sections">
          <a href="#findings" onClick={jump("findings")}>Findings</a>
          {present.map(({ id, title }) => <a key={id} href={`#${id}`} onClick={jump(id)}>{title}</a>)}
          <a href="#metrics" onClick={jump("metrics")}>All metrics</a>
        </nav>
        <div class="sections">
          <Findings kernel={kernel} model={model} />
          {present.map(({ id, title, isWide, draw }) => (
            <section key={id} id={id} aria-label={title} class={isWide ? "wide" : undefined}>
              <h3>{title}</h3>
              {draw(kernel.sections)}
            </section>
          ))}
          {absent.length > 0 && <p class="faint wide">Not collected: {absent.map(({ title }) => title.toLowerCase()).join(", ")}.</p>}
          <section id="metrics" class="wide" aria-label="All metrics">
            <h3>All metrics</h3>
            <Folded title={plural(Object.keys(kernel.metrics).length, "metric")}><Metrics kernel={kernel} /></Folded>
          </section>
        </div>
      </div>
    </>
  );
}

/** Scrolls to a section: the fragment of the URL is the address of the launch. */
function jump(id: string) {
  return (event: Event): void => {
    event.preventDefault();
    const section = document.getElementById(id);
    section?.scrollIntoView();
    section?.querySelector("h3")?.setAttribute("tabindex", "-1");
    section?.querySelector("h3")?.focus({ preventScroll: true });
  };
}

function Metrics({ kernel }: { kernel: Kernel }) {
  const [typed, setTyped] = useState("");
  const pattern = searchPattern(typed);
  const found = Object.entries(kernel.metrics).filter(([name]) => !pattern || pattern.test(name));
  return (
    <>
      <p class="controls">
        <label>Filter <input type="search" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} /></label>
        {found.length > MOST_METRICS && <span class="faint">first {MOST_METRICS} of {found.length}</span>}
      </p>
      <table class="all-metrics" aria-label="All metrics">
        <thead><tr><th scope="col">Metric</th><th scope="col" class="number">Value</th></tr></thead>
        <tbody>
          {found.slice(0, MOST_METRICS).map(([name, value]) => (
            <tr key={name}><th scope="row">{plainText(name)}</th><td class="number" data-metric={name} data-value={value === null ? undefined : String(value)}>{plainText(String(value ?? "–"))}</td></tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
