/** The tables of `warpline stats`, sortable and searchable. A row highlights its events. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { plainText, searchPattern } from "../base/text";
import { clockText, countText, plural, valueText } from "../base/units";
import type { Head, ResultSpec, ResultTable } from "../data/head";
import { fitSpan } from "../engine/view";
import { flameOfTable } from "./flame";
import { FlameGraph } from "./flame-graph";
import { copyText } from "./keys";
import { List } from "./list";
import type { Model } from "./model";
import { arranged, type Order } from "./sorting";
import { clockSizes, columnOrder, headingOf, LineNames, stepOfLine } from "./table-lines";
import { byTopic } from "./topics";

function useResult(model: Model, name: string | null): ResultTable | string | null {
  const [answer, setAnswer] = useState<{ name: string; found: ResultTable | string } | null>(null);
  useEffect(() => {
    let isStale = false;
    if (name === null) return;
    const take = (found: ResultTable | string): void => {
      if (!isStale) setAnswer({ name, found });
    };
    model.recording.result(name).then(take, (error: unknown) => take(String((error as Error).message)));
    return () => {
      isStale = true;
    };
  }, [model, name, model.arrived.value]);
  // Return nothing until the answer arrives: never the rows of one table under the title of another.
  return answer?.name === name ? answer.found : null;
}

function isText(table: ResultTable, column: number): boolean {
  return table.rows.some((row) => typeof row[column] === "string");
}

interface ResultProps {
  readonly model: Model;
  readonly table: ResultTable;
  readonly spec: ResultSpec;
}

function Result({ model, table, spec }: ResultProps) {
  const [order, setOrder] = useState<Order | null>(null);
  const [typed, setTyped] = useState("");
  const [isFlame, setFlame] = useState(false);
  const pattern = useMemo(() => searchPattern(typed), [typed]);
  const { names, head } = model.recording;
  const lineNames = useMemo(() => new LineNames(names, head.categories), [names, head]);
  const places = useMemo(
    () => arranged(table, order, pattern, lineNames.shown),
    [table, order, pattern, lineNames],
  );
  const flame = useMemo(
    () => flameOfTable(spec.name, table, (line) => lineNames.of(table, line)),
    [spec, table, lineNames],
  );
  const title = plainText(spec.title);
  return (
    <div class="result">
      <p class="result-bar">
        <input
          type="search"
          placeholder="Search: text or /regex/"
          aria-label={`Search in ${title}`}
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <span class="faint" role="status">{countText(places.length)} of {plural(table.rows.length, "row")}</span>
        {flame && (
          <button type="button" aria-pressed={isFlame} onClick={() => setFlame(!isFlame)}>
            Flame graph
          </button>
        )}
      </p>
      {flame && isFlame ? (
        <div class="flame-room"><FlameGraph model={model} flame={flame} title={title} pattern={pattern} /></div>
      ) : (
        <Lines model={model} table={table} spec={spec} places={places} order={order} onOrder={setOrder} lineNames={lineNames} />
      )}
      {table.notes?.map((note) => <p class="faint" key={note}>{plainText(note)}</p>)}
    </div>
  );
}

/** Returns the width that a column needs for its heading and values, in em. */
function leastWidth(table: ResultTable, column: number, isWord: boolean, clockSize: number | null): number {
  const spec = table.columns[column];
  const ofNumber = clockSize === null ? 7 : clockText(clockSize, 1).length + 1;
  const longest = isWord ? Math.max(...table.rows.slice(0, 200).map((row) => String(row[column] ?? "").length)) : ofNumber;
  const letters = Math.max(longest, spec ? headingOf(spec).length : 0);
  return Math.min(16, Math.max(4.5, 0.56 * letters + 1));
}

interface LinesProps extends ResultProps {
  readonly places: readonly number[];
  readonly order: Order | null;
  readonly onOrder: (order: Order) => void;
  readonly lineNames: LineNames;
}

function Lines({ model, table, spec, places, order, onOrder, lineNames }: LinesProps) {
  const shown = useMemo(() => columnOrder(table), [table]);
  const texts = useMemo(() => table.columns.map((_, at) => isText(table, at)), [table]);
  const sizes = useMemo(() => clockSizes(table), [table]);
  const depth = table.columns.findIndex((column) => column.name === "depth");
  const steps = model.recording.head.steps[0];
  const isWide = (at: number): boolean => texts[at] === true && (at === shown[0] || table.columns[at]?.name === "name");
  const least = shown.map((at) => (isWide(at) ? 15 : leastWidth(table, at, texts[at] === true, sizes[at] ?? null)));
  const widths = shown.map((at, i) => `minmax(${least[i]}em, ${isWide(at) ? "1fr" : `${(least[i] ?? 6) + 0.5}em`})`);
  const light = (place: number, text: string): void => {
    const names = lineNames.of(table, place);
    const step = stepOfLine(table, place, steps);
    model.page.value = "timeline";
    if (step) model.show(fitSpan(step, model.limits, 0.04));
    if (!names.length || (step && !table.names?.[place]?.length)) return;
    model.light(names, text.trim());
    void model.stepMatch(1);
  };
  const cell = (line: number, at: number) => {
    const place = places[line] ?? 0;
    const row = table.rows[place] ?? [];
    const [value, size] = [row[at], sizes[at] ?? null];
    const isInstant = size !== null && typeof value === "number";
    const shownValue = isInstant ? clockText(value, 1, size) : valueText(value, table.columns[at]?.unit ?? "none");
    const full = plainText(shownValue).slice(0, 1000);
    const text = typeof value === "string" ? plainText(lineNames.shown(value)).slice(0, 1000) : full;
    if (at !== shown[0]) return <span title={texts[at] ? full : undefined}>{text}</span>;
    const indent = depth >= 0 && !order ? Number(row[depth]) || 0 : 0;
    const leads = lineNames.of(table, place).length > 0 || stepOfLine(table, place, steps) !== null;
    const inside = leads ? (
      <button type="button" class="plain lead" title={`${full}\nHighlight on the timeline`} onClick={() => light(place, text)}>
        {text.trim()}
      </button>
    ) : (
      <span title={full}>{text.trim()}</span>
    );
    return <span style={{ paddingLeft: `${indent * 14}px` }}>{inside}</span>;
  };
  return (
    <List
      count={places.length}
      lineHeight={24}
      label={plainText(spec.title)}
      template={widths.join(" ")}
      leastWidth={least.reduce((sum, one) => sum + one + 1, 2)}
      columns={shown.map((at) => {
        const column = table.columns[at] as ResultTable["columns"][number];
        const doc = table.doc?.[column.name] ?? "";
        const isSorted = order?.column === at;
        return {
          key: column.name,
          isNumber: !texts[at],
          sorted: isSorted ? (order.isFalling ? ("descending" as const) : ("ascending" as const)) : undefined,
          title: (
            <button
              type="button"
              class="plain"
              title={doc ? `${plainText(doc)} (${column.name})` : column.name}
              aria-description={doc ? plainText(doc) : undefined}
              onClick={() => onOrder({ column: at, isFalling: isSorted ? !order.isFalling : !texts[at] })}
              onFocus={() => {
                if (doc) model.hint.value = plainText(`${headingOf(column)}: ${doc}`);
              }}
              onBlur={() => {
                model.hint.value = "";
              }}
            >
              {plainText(headingOf(column))}
              {isSorted ? (order.isFalling ? " ▾" : " ▴") : ""}
            </button>
          ),
        };
      })}
      cells={(line) => shown.map((at) => cell(line, at))}
    />
  );
}

export function Command({ model, command }: { model: Model; command: string }) {
  return (
    <p class="command">
      <code>{plainText(command)}</code>{" "}
      <button type="button" onClick={() => copyText(model, command, "Command")}>Copy</button>
    </p>
  );
}

export function Tables({ model }: { model: Model }) {
  const { results } = model.recording.head;
  const topics = useMemo(() => byTopic(results), [results]);
  const name = model.table.value ?? topics[0]?.tables[0]?.name ?? null;
  const spec = results.find((one) => one.name === name);
  const table = useResult(model, spec?.name ?? null);
  return (
    <section class="tables" aria-label="Tables">
      <nav aria-label="Tables">
        {topics.map((topic) => (
          <div key={topic.topic}>
            <h2>{topic.title}</h2>
            {topic.tables.map((one) => (
              <button
                type="button"
                key={one.name}
                aria-current={one.name === name ? "page" : undefined}
                disabled={model.isServerGone.value && !model.recording.hasResult(one.name)}
                onClick={() => {
                  model.table.value = one.name;
                }}
              >
                {plainText(one.title)}
              </button>
            ))}
          </div>
        ))}
        {results.length === 0 && <p>No tables in this file.</p>}
      </nav>
      <div class="tables-body">
        {spec && (
          <>
            <h2>{plainText(spec.title)}</h2>
            <Command model={model} command={spec.command} />
          </>
        )}
        {typeof table === "string" && <p role="alert">{plainText(table)}</p>}
        {table !== null && typeof table === "object" && spec && (
          <Result key={spec.name} model={model} table={table} spec={spec} />
        )}
        <p class="hint" role="status">{model.hint.value}</p>
      </div>
    </section>
  );
}

/** Returns the times of equal warnings, such as those of several ranks. */
function timesByText(losses: Head["losses"]): ReadonlyMap<string, readonly number[]> {
  const times = new Map<string, number[]>();
  for (const { text, time_ns } of losses) times.set(text, [...(times.get(text) ?? []), time_ns]);
  return times;
}

export function Environment({ model }: { model: Model }) {
  const { environment, losses, results } = model.recording.head;
  const tables = ["device_sum", "process_sum", "recording", "profiling_cost"];
  const more = results.filter((one) => tables.includes(one.name));
  return (
    <section class="environment" aria-label="Environment">
      <h2>Environment</h2>
      <dl>
        {environment.map(([name, value]) => (
          <>
            <dt key={name}>{plainText(name)}</dt>
            <dd key={`${name} value`}>{plainText(value)}</dd>
          </>
        ))}
      </dl>
      {more.length > 0 && (
        <p>
          Related tables:{" "}
          {more.map((one) => (
            <button
              type="button"
              key={one.name}
              onClick={() => {
                model.table.value = one.name;
                model.page.value = "tables";
              }}
            >
              {plainText(one.title)}
            </button>
          ))}
        </p>
      )}
      {losses.length > 0 && (
        <>
          <h2>Recorder warnings</h2>
          <ul>
            {[...timesByText(losses)].map(([text, times]) => (
              <li key={text}>
                {plainText(text)}{" "}
                {times.map((time, i) => (
                  <span key={i}>
                    {i > 0 && ", "}
                    <button type="button" class="link" title="Show on the timeline" onClick={() => model.centreOn(time)}>{clockText(time)}</button>
                  </span>
                ))}
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}
