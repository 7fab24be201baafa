/** The tables of `warpline stats`, sortable and searchable; a row lights its events. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { plainText, searchPattern } from "../base/text";
import { valueText } from "../base/units";
import type { ResultTable } from "../data/head";
import { List } from "./list";
import type { Model } from "./model";
import { arranged, type Order } from "./sorting";

function useResult(model: Model, name: string | null): ResultTable | string | null {
  const [found, setFound] = useState<ResultTable | string | null>(null);
  useEffect(() => {
    setFound(null);
    let isStale = false;
    if (name === null) return;
    model.recording.result(name).then(
      (table) => !isStale && setFound(table),
      (error: unknown) => !isStale && setFound(String((error as Error).message)),
    );
    return () => {
      isStale = true;
    };
  }, [model, name]);
  return found;
}

function widthOf(table: ResultTable, column: number): string {
  const isText = table.rows.some((row) => typeof row[column] === "string");
  return isText ? "minmax(9em, 3fr)" : "minmax(6.5em, 1fr)";
}

function Result({ model, table, title }: { model: Model; table: ResultTable; title: string }) {
  const [order, setOrder] = useState<Order | null>(null);
  const [typed, setTyped] = useState("");
  const places = useMemo(() => arranged(table, order, searchPattern(typed)), [table, order, typed]);
  const level = table.columns.findIndex((column) => column.name === "level");
  const shown = table.columns.flatMap((column, at) => (at === level ? [] : [{ column, at }]));
  const light = (line: number): void => {
    const names = table.names?.[places[line] ?? -1];
    if (!names?.length) return;
    model.light(names);
    model.page.value = "timeline";
  };
  const cell = (line: number, at: number, unit: string, isFirst: boolean) => {
    const row = table.rows[places[line] ?? 0] ?? [];
    const text = plainText(valueText(row[at], unit)).slice(0, 500);
    if (!isFirst) return text;
    const depth = level >= 0 && !order ? Number(row[level]) || 0 : 0;
    const inside = table.names?.[places[line] ?? -1]?.length ? (
      <button type="button" class="plain" title="Light on the timeline" onClick={() => light(line)}>
        {text}
      </button>
    ) : (
      text
    );
    return <span style={{ paddingLeft: `${depth * 14}px` }}>{inside}</span>;
  };
  const first = Math.max(0, shown.findIndex(({ at }) => typeof table.rows[0]?.[at] === "string"));
  return (
    <div class="result">
      <p>
        <input
          type="search"
          placeholder="Search (text or /pattern/i)"
          aria-label={`Search in ${title}`}
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <span class="faint"> {places.length} of {table.rows.length} rows</span>
      </p>
      <List
        count={places.length}
        lineHeight={24}
        label={title}
        template={shown.map(({ at }) => widthOf(table, at)).join(" ")}
        columns={shown.map(({ column, at }) => ({
          key: column.name,
          isNumber: !widthOf(table, at).includes("3fr"),
          title: (
            <button
              type="button"
              class="plain"
              aria-label={`Sort by ${column.title}`}
              onClick={() => setOrder({ column: at, isFalling: order?.column === at ? !order.isFalling : true })}
            >
              {plainText(column.title)}
              {order?.column === at ? (order.isFalling ? " ▾" : " ▴") : ""}
            </button>
          ),
        }))}
        cells={(line) => shown.map(({ column, at }, i) => cell(line, at, column.unit, i === first))}
      />
    </div>
  );
}

export function Tables({ model }: { model: Model }) {
  const { results } = model.recording.head;
  const name = model.table.value ?? results[0]?.name ?? null;
  const spec = results.find((one) => one.name === name);
  const table = useResult(model, spec?.name ?? null);
  return (
    <section class="tables" aria-label="Tables">
      <nav aria-label="Tables">
        {results.map((one) => (
          <button
            type="button"
            key={one.name}
            aria-current={one.name === name ? "page" : undefined}
            onClick={() => {
              model.table.value = one.name;
            }}
          >
            {one.title}
          </button>
        ))}
        {results.length === 0 && <p>This file holds no tables.</p>}
      </nav>
      <div class="tables-body">
        {spec && (
          <>
            <h2>{plainText(spec.title)}</h2>
            <p class="faint">
              <code>{plainText(spec.command)}</code>
            </p>
          </>
        )}
        {typeof table === "string" && <p role="alert">{plainText(table)}</p>}
        {table !== null && typeof table === "object" && spec && (
          <Result key={spec.name} model={model} table={table} title={spec.title} />
        )}
      </div>
    </section>
  );
}

export function Environment({ model }: { model: Model }) {
  const { environment, losses } = model.recording.head;
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
      {losses.length > 0 && (
        <>
          <h2>Lost</h2>
          <ul>
            {losses.map((loss) => (
              <li key={loss.text}>{plainText(loss.text)}</li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}
