/** Small parts that several sections share: bars with their numbers, tables, and a plot that is read by pointer and keys. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { plainText } from "../../base/text";
import type { Cell } from "../data/document";
import { exactText, underLabel } from "../plots/values";

export interface Bar {
  readonly label: string;
  /** Shown at the pointer: the name of the metric. */
  readonly metric: string | null;
  readonly value: number | null;
  readonly text: string;
  /** Length of the bar, 0 to 1; null without one. */
  readonly part: number | null;
  readonly isStrong?: boolean;
}

export interface BarsProps {
  readonly label: string;
  readonly headings: readonly [string, string];
  readonly bars: readonly Bar[];
}

/** A table with a bar in each row. Rows of 0 are folded. */
export function Bars({ label, headings, bars }: BarsProps) {
  const rest = bars.filter(({ value }) => value === 0);
  return (
    <>
      <BarTable label={label} headings={headings} bars={bars.filter(({ value }) => value !== 0)} />
      {rest.length > 0 && <Folded title={`${rest.length} with 0`}><BarTable label={`${label}: those with 0`} headings={headings} bars={rest} /></Folded>}
    </>
  );
}

function BarTable({ label, headings, bars }: BarsProps) {
  if (bars.length === 0) return null;
  return (
    <table class="bars" aria-label={label}>
      <thead>
        <tr>
          <th scope="col">{headings[0]}</th>
          <th scope="col" class="bar-room"><span class="unseen">Bar</span></th>
          <th scope="col" class="number">{headings[1]}</th>
        </tr>
      </thead>
      <tbody>
        {bars.map((bar, at) => (
          <tr key={at} class={bar.isStrong ? "strong" : undefined}>
            <th scope="row" title={bar.metric ?? undefined}>{plainText(bar.label)}</th>
            <td class="bar-room"><Meter part={bar.part} /></td>
            <Number metric={bar.metric} value={bar.value} text={bar.text} />
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Meter({ part }: { part: number | null }) {
  if (part === null) return null;
  const width = 100 * Math.max(0, Math.min(1, part));
  return (
    <svg class="meter" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <rect class="meter-room" width={100} height={10} />
      <rect class="meter-value" width={width} height={10} />
    </svg>
  );
}

/** A cell with a number; `data-value` has all its digits. */
export function Number({ metric, value, text }: { metric: string | null; value: Cell | undefined; text: string }) {
  return (
    <td class="number" data-metric={metric ?? undefined} data-value={value === null || value === undefined ? undefined : String(value)} title={metric ?? undefined}>
      {text}
    </td>
  );
}

export interface TableColumn {
  readonly name: string;
  readonly unit: string;
}

export interface TableProps {
  readonly label: string;
  readonly columns: readonly TableColumn[];
  readonly rows: readonly (readonly Cell[])[];
  /** Returns the metric of a cell. */
  readonly metricOf?: (row: number, column: number) => string | null;
}

/** A table of values with units. The first column names the rows. */
export function Table({ label, columns, rows, metricOf = () => null }: TableProps) {
  return (
    <div class="table-room" tabIndex={0} role="group" aria-label={label}>
      <table aria-label={label}>
        <thead>
          <tr>{columns.map(({ name }, i) => <th key={i} scope="col" class={isNumeric(rows, i) ? "number" : undefined}>{plainText(name)}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              {row.map((cell, i) =>
                i === 0 ? (
                  <th key={i} scope="row">{plainText(underLabel(cell, columns[i]?.unit ?? ""))}</th>
                ) : (
                  <td key={i} class={isNumeric(rows, i) ? "number" : undefined} data-value={cell === null ? undefined : String(cell)} data-metric={metricOf(at, i) ?? undefined} title={titleOf(cell, columns[i]?.unit ?? "", metricOf(at, i))}>
                    {plainText(underLabel(cell, columns[i]?.unit ?? ""))}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** All digits of a number, and its metric. */
function titleOf(cell: Cell, unit: string, metric: string | null): string | undefined {
  return typeof cell === "number" ? [exactText(cell, unit), metric].filter(Boolean).join("\n") : undefined;
}

function isNumeric(rows: readonly (readonly Cell[])[], column: number): boolean {
  return column > 0 && rows.some((row) => typeof row[column] === "number");
}

/** A part that is folded at first: the numbers of a drawing. */
export function Folded({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <details class="folded">
      <summary>{title}</summary>
      {children}
    </details>
  );
}

export interface PlotProps {
  readonly label: string;
  readonly width: number;
  readonly height: number;
  readonly texts: readonly string[];
  /** Returns the place of the point at the pointer, in the plot's own pixels; -1 without one. */
  readonly find: (x: number, y: number) => number;
  readonly children: (at: number) => ComponentChildren;
}

/** A drawing whose points are read one by one, at the pointer or with the arrow keys; the text is below. */
export function Plot({ label, width, height, texts, find, children }: PlotProps) {
  const [at, setAt] = useState(-1);
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step === undefined || !texts.length) return;
    setAt(Math.max(0, Math.min(texts.length - 1, at + step)));
    event.preventDefault();
  };
  const onPointerMove = (event: PointerEvent): void => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    setAt(find(((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height));
  };
  return (
    <div class="plot">
      <svg
        viewBox={`0 0 ${width} ${height}`}
        style={{ maxWidth: `${width}px` }}
        role="img"
        tabindex={texts.length ? 0 : undefined}
        aria-label={`${plainText(label)}${texts.length ? ". Arrow keys: next point." : ""}`}
        onKeyDown={onKeyDown}
        onPointerMove={onPointerMove}
        onPointerLeave={() => setAt(-1)}
      >
        {children(at)}
      </svg>
      <p class="said" role="status">{plainText(texts[at] ?? "")}</p>
    </div>
  );
}
