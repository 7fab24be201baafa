/** The page Summary: time by kernel, and the table of launches with the columns that ncu has. */

import { useState } from "preact/hooks";
import { plainText, searchPattern } from "../../base/text";
import { plural, shareText, timeText } from "../../base/units";
import type { CodeRow, Head, Row } from "../data/document";
import { shareOrNone, sizeText, timeOrNone, withUnit } from "../plots/values";
import type { Model } from "./model";
import { Meter, Number as NumberCell } from "./parts";
import { columnsOf, sortedRows, type SummaryColumn } from "./sorting";

const MOST_PARTS = 8;
const MORE_ROWS = 200;

export function Summary({ model }: { model: Model }) {
  const { head } = model.store;
  return (
    <main class="summary">
      <h1>{plainText(head.title)}</h1>
      <dl class="facts">{head.facts.map(([label, value]) => <div key={label}><dt>{label}</dt><dd>{plainText(value)}</dd></div>)}</dl>
      {head.notes.map((note) => <p key={note} class="note">{plainText(note)}</p>)}
      {head.launches > 0 && <TimeByKernel head={head} model={model} />}
      {head.launches > 0 && <Launches model={model} />}
      {head.code.length > 0 && <Functions model={model} isWhole={head.launches === 0} />}
    </main>
  );
}

/** The largest kernels, and the others as one part. */
function partsOf(head: Head): { name: string; short_name: string; launches: number; total_ns: number; isRest: boolean }[] {
  const parts = head.by_kernel.slice(0, MOST_PARTS).map((one) => ({ ...one, isRest: false }));
  const rest = head.by_kernel.slice(MOST_PARTS);
  if (rest.length === 0) return parts;
  const sum = (of: "launches" | "total_ns"): number => rest.reduce((all, one) => all + one[of], 0);
  const name = plural(rest.length, "other kernel");
  return [...parts, { name, short_name: name, launches: sum("launches"), total_ns: sum("total_ns"), isRest: true }];
}

function TimeByKernel({ head, model }: { head: Head; model: Model }) {
  const parts = partsOf(head);
  const total = head.total_ns || 1;
  let left = 0;
  return (
    <section aria-label="Time by kernel">
      <h2>Time by kernel</h2>
      <p class="faint">{plural(head.launches, "profiled launch", "profiled launches")} of {plural(head.by_kernel.length, "kernel")}, {timeText(head.total_ns)} in all.</p>
      <svg class="time-bar" viewBox="0 0 1000 28" preserveAspectRatio="none" role="img" aria-label="Share of the time by kernel; the list below has the numbers">
        {parts.map((part, at) => {
          const width = (1000 * part.total_ns) / total;
          const x = left;
          left += width;
          return <rect key={at} class={`part-${part.isRest ? "rest" : at}`} x={x} width={Math.max(0, width - 1)} height={28}><title>{`${plainText(part.name)}: ${shareText(part.total_ns / total)}`}</title></rect>;
        })}
      </svg>
      <ol class="parts">
        {parts.map((part, at) => (
          <li key={at} data-kernel={part.isRest ? undefined : part.name} data-value={part.total_ns}>
            <svg class="swatch" viewBox="0 0 10 10" aria-hidden="true"><rect class={`part-${part.isRest ? "rest" : at}`} width={10} height={10} /></svg>
            <span class="share">{shareText(part.total_ns / total)}</span>
            {part.isRest ? <span>{part.name}</span> : (
              <button class="link" title={`Show only the launches of ${plainText(part.name)}`} onClick={() => (model.filter.value = `/^${part.name.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")}$/`)}>{plainText(part.short_name)}</button>
            )}
            <span class="faint">{timeText(part.total_ns)}{part.launches > 1 && `, ${plural(part.launches, "launch", "launches")}`}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Launches({ model }: { model: Model }) {
  const [most, setMost] = useState(MORE_ROWS);
  const pattern = searchPattern(model.filter.value);
  const rows = model.rows.value;
  const found = sortedRows(rows, model.sorting.value).filter((at) => {
    const row = rows[at] as Row;
    return !pattern || pattern.test(row.name) || pattern.test(row.function);
  });
  return (
    <section aria-label="Launches">
      <h2>Launches</h2>
      <p class="controls">
        <label>Filter <input type="search" id="filter" value={model.filter.value} placeholder="name or /pattern/" onInput={(event) => (model.filter.value = event.currentTarget.value)} /></label>
        <span class="faint" role="status">{pattern ? `${plural(found.length, "row")} of ${rows.length}` : plural(found.length, "row")}</span>
      </p>
      <div class="table-room" tabIndex={0} role="group" aria-label="Launches">
        <table class="launches">
          <thead><tr>{columnsOf(rows).map((column) => <Heading key={column.key} column={column} model={model} />)}</tr></thead>
          <tbody>{found.slice(0, most).map((at) => <Launch key={at} at={at} row={rows[at] as Row} model={model} />)}</tbody>
        </table>
      </div>
      {found.length > most && <p><button onClick={() => setMost(most + MORE_ROWS)}>{`Show ${Math.min(MORE_ROWS, found.length - most)} more of ${found.length - most}`}</button></p>}
    </section>
  );
}

function Heading({ column, model }: { column: SummaryColumn; model: Model }) {
  const { key, isDescending } = model.sorting.value;
  const isSorted = key === column.key;
  const turn = (): void => {
    model.sorting.value = { key: column.key, isDescending: isSorted ? !isDescending : column.isNumber };
  };
  return (
    <th scope="col" class={column.isNumber && !column.isText ? "number" : undefined} aria-sort={isSorted ? (isDescending ? "descending" : "ascending") : undefined}>
      <button class="plain" title={column.note} onClick={turn}>{column.title}{isSorted && <span aria-hidden="true">{isDescending ? " ▾" : " ▴"}</span>}</button>
    </th>
  );
}

function Launch({ at, row, model }: { at: number; row: Row; model: Model }) {
  const name = plainText(row.function);
  return (
    <tr data-launch={at}>
      {row.report !== null && <td class="report">{plainText(row.report)}</td>}
      <NumberCell metric={null} value={row.id} text={String(row.id)} />
      <td class="saving" data-value={row.saving_ns ?? undefined}>{savingText(row)}</td>
      <td class="name">{row.block_number === null ? name : <button class="link" onClick={() => model.openKernel(at)}>{name}</button>}</td>
      <td class="long" title={plainText(row.name)}>{plainText(row.name)}</td>
      <NumberCell metric={null} value={row.duration_ns} text={timeOrNone(row.duration_ns)} />
      <Share value={row.compute_ratio} />
      <Share value={row.memory_ratio} />
      <NumberCell metric={null} value={row.registers} text={row.registers === null ? "–" : String(row.registers)} />
      <td class="size">{sizeText(row.grid)}</td>
      <td class="size">{sizeText(row.block)}</td>
      <NumberCell metric={null} value={row.cycles} text={withUnit(row.cycles, "count")} />
    </tr>
  );
}

function Share({ value }: { value: number | null }) {
  return (
    <td class="number share" data-value={value ?? undefined}>{shareOrNone(value)}<Meter part={value} /></td>
  );
}

/** The saving of the largest finding: expected, or at most where only a floor is known. */
function savingText(row: Row) {
  if (row.saving_ns === null || row.outcome === null) return <span class="faint">{row.title ? plainText(row.title) : "–"}</span>;
  const share = row.duration_ns ? ` (${shareText(row.saving_ns / row.duration_ns)})` : "";
  const most = row.outcome === "floor" ? "at most " : "";
  return (
    <>
      <span class="saved"><span class={`severity ${row.severity ?? ""}`}>{row.severity}</span> {most}{timeText(row.saving_ns)}{share}</span>
      <div class="faint">{plainText(row.title ?? "")}</div>
    </>
  );
}

/** Functions with code: those that were sampled, hottest first. */
function Functions({ model, isWhole }: { model: Model; isWhole: boolean }) {
  const { code } = model.store.head;
  const total = code.reduce((sum, one) => sum + one.samples, 0) || 1;
  const has = code.some(({ samples }) => samples > 0);
  if (!has && !isWhole) return null;
  return (
    <section aria-label="Sampled functions">
      <h2>Sampled functions</h2>
      <div class="table-room" tabIndex={0} role="group" aria-label="Sampled functions">
        <table class="sampled">
          <thead><tr><th scope="col">Function</th><th scope="col" class="bar-room"><span class="unseen">Bar</span></th><th scope="col" class="number">Samples</th><th scope="col" class="number">Share</th><th scope="col">Most frequent stall</th></tr></thead>
          <tbody>{code.map((one, at) => <SampledFunction key={at} at={at} one={one} total={total} model={model} />)}</tbody>
        </table>
      </div>
    </section>
  );
}

function SampledFunction({ one, at, total, model }: { one: CodeRow; at: number; total: number; model: Model }) {
  return (
    <tr data-code={at}>
      <td class="long"><button class="link" onClick={() => model.openCode(at)}>{plainText(one.name)}</button></td>
      <td class="bar-room"><Meter part={one.samples / total} /></td>
      <NumberCell metric="samples" value={one.samples} text={withUnit(one.samples, "count")} />
      <td class="number">{shareText(one.samples / total)}</td>
      <td>{one.too_few ? <span class="faint">too few samples</span> : plainText(one.stall ?? "–")}</td>
    </tr>
  );
}
