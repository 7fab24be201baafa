/** Draws plots as SVG. The marks of a series are one path; the one at the pointer has its text below. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { plainText } from "../base/text";
import { valueText } from "../base/units";
import { nearest, outline, type Placed, placed, scalesOf } from "./geometry";
import type { Target } from "./columns";
import { place, roundStep, type Scale, ticks, tickTexts } from "./scale";
import { FILLED, type Cell, type Chart, type Heat, type Series } from "./shapes";

const HEIGHT = 190;
const MARGIN = { left: 66, right: 12, top: 18, bottom: 34 };
const LEAST_WIDTH = 240;
const FALLBACK = ["gemm", "copy-h2d", "collective", "attention", "launch-bound", "optimizer"];

export type OnTarget = (target: Target) => void;

function useWidth(): readonly [{ current: HTMLDivElement | null }, number] {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setWidth(element.clientWidth));
    watch.observe(element);
    setWidth(element.clientWidth);
    return () => watch.disconnect();
  }, []);
  return [box, Math.max(width, LEAST_WIDTH)];
}

/** The color of a series: that of its category, the same as on the timeline. */
function colourOf(series: Series, number: number): string {
  const name = series.category ?? FALLBACK[number % FALLBACK.length] ?? "gemm";
  return `var(--wl-part-${name.toLowerCase().replace(/[^a-z0-9]/g, "-")})`;
}

const HINT = "Arrow keys: next point. Enter: show its events.";

interface PickingProps<T extends { readonly text: string; readonly target: Target | null }> {
  readonly count: number;
  readonly of: (at: number) => T | undefined;
  readonly onTarget: OnTarget;
}

/** The point that is chosen by pointer or keys, and the handlers of both. */
function usePicking<T extends { readonly text: string; readonly target: Target | null }>({ count, of, onTarget }: PickingProps<T>) {
  const [at, setAt] = useState(-1);
  const chosen = at >= 0 ? of(at) : undefined;
  const open = (): void => {
    if (chosen?.target) onTarget(chosen.target);
  };
  return {
    at,
    chosen,
    setAt,
    open,
    onKeyDown: (event: KeyboardEvent): void => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (step !== undefined && count) setAt(Math.max(0, Math.min(count - 1, at + step)));
      else if (event.key === "Enter" || event.key === " ") open();
      else return;
      event.preventDefault();
      event.stopPropagation();
    },
  };
}

interface Tick {
  readonly value: number;
  readonly text: string;
}

function ticksOf(scale: Scale, unit: string, most: number): Tick[] {
  const values = ticks(scale, unit, most);
  const texts = tickTexts(values, unit, scale.isLog);
  return values.map((value, i) => ({ value, text: texts[i] ?? "" }));
}

/** Returns the values and texts of the horizontal axis. */
function acrossTicks({ x }: Chart, scale: Scale, most: number): Tick[] {
  if (!x.labels) return ticksOf(scale, x.unit, most);
  const every = roundStep(x.labels.length / most, 10);
  return x.labels.flatMap((label, i) => (i % every ? [] : [{ value: i + FILLED / 2, text: plainText(label).slice(0, 14) }]));
}

function pointOf(event: PointerEvent): readonly [number, number] {
  const box = (event.currentTarget as Element).getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

export function ChartView({ chart, onTarget }: { chart: Chart; onTarget: OnTarget }) {
  const [box, width] = useWidth();
  const frame = useMemo(() => ({ left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: HEIGHT - MARGIN.bottom }), [width]);
  const { scales, drawn, all } = useMemo(() => {
    const own = scalesOf(chart, frame);
    const each = chart.series.map((series) => placed(series, own));
    return { scales: own, drawn: each, all: each.flat() };
  }, [chart, frame]);
  const picking = usePicking({ count: all.length, of: (at) => all[at]?.mark, onTarget });
  const now: Placed | undefined = all[picking.at];
  const across = acrossTicks(chart, scales.x, Math.max(2, Math.floor(width / 85)));
  return (
    <div class="plot-room" ref={box}>
      <svg
        width={width}
        height={HEIGHT}
        role="img"
        tabindex={0}
        aria-label={`${plainText(chart.title)}. ${plainText(chart.note)} ${HINT}`}
        class={picking.chosen?.target ? "leads" : undefined}
        onKeyDown={picking.onKeyDown}
        onPointerMove={(event) => {
          const found = nearest(all, ...pointOf(event));
          picking.setAt(found ? all.indexOf(found) : -1);
        }}
        onPointerLeave={() => picking.setAt(-1)}
        onClick={picking.open}
      >
        {ticksOf(scales.y, chart.y.unit, 5).map(({ value, text }) => (
          <g key={value}>
            <line class="grid" x1={frame.left} x2={frame.right} y1={place(scales.y, value)} y2={place(scales.y, value)} />
            <text class="tick" x={frame.left - 5} y={place(scales.y, value) + 4} text-anchor="end">{text}</text>
          </g>
        ))}
        {across.map(({ value, text }) => (
          <g key={value}>
            <line class="grid" x1={place(scales.x, value)} x2={place(scales.x, value)} y1={frame.bottom} y2={frame.bottom + 4} />
            <text class="tick" x={place(scales.x, value)} y={frame.bottom + 15} text-anchor="middle">{text}</text>
          </g>
        ))}
        <text class="axis" x={2} y={11}>{chart.y.label}</text>
        <text class="axis" x={frame.right} y={HEIGHT - 5} text-anchor="end">{chart.x.label}</text>
        {chart.series.map((series, i) => {
          const colour = colourOf(series, i);
          const style = series.kind === "steps" ? { stroke: colour, fill: "none" } : { fill: colour };
          return <path key={series.name} class={`series ${series.kind}`} style={style} d={outline(series.kind, drawn[i] ?? [])} />;
        })}
        {all.filter((one) => one.isCut).map((one, i) => (
          <path key={i} class="cut" d={`M${one.left} ${frame.top + 6}l${(one.right - one.left) / 2} -6l${(one.right - one.left) / 2} 6z`} />
        ))}
        {chart.lines?.map((line) => (
          <g key={line.text}>
            <line class="mark-line" x1={frame.left} x2={frame.right} y1={place(scales.y, line.y)} y2={place(scales.y, line.y)} />
            <text class="tick line-text" x={frame.right} y={place(scales.y, line.y) - 3} text-anchor="end">{line.text}</text>
          </g>
        ))}
        {now && <rect class="chosen" x={now.left - 1} y={now.top - 1} width={now.right - now.left + 2} height={Math.max(now.bottom - now.top, 1) + 2} />}
      </svg>
      <Legend series={chart.series} />
      <Said text={picking.chosen?.text ?? (chart.top === undefined ? "" : `Values above ${valueText(chart.top, chart.y.unit)} are cut off and marked with a triangle.`)} leads={Boolean(picking.chosen?.target)} />
    </div>
  );
}

function Legend({ series }: { series: readonly Series[] }) {
  if (series.length < 2) return null;
  return (
    <p class="legend">
      {series.map((one, i) => (
        <span key={one.name}><span class="swatch" style={{ background: colourOf(one, i) }} /> {plainText(one.name)}</span>
      ))}
    </p>
  );
}

function Said({ text, leads }: { text: string; leads: boolean }) {
  return <p class="plot-said" role="status">{plainText(text)}{leads && <span class="faint"> · click to show on the timeline</span>}</p>;
}

const CELL_HEIGHT = 22;
const LABELS_LEFT = 92;
const LEAST_CELL = 34; // pixels for a number above a column

/** The darkest or brightest cell has the accent color; places without a value are empty. */
export function HeatView({ heat, room, onTarget }: { heat: Heat; room: number; onTarget: OnTarget }) {
  const [box, width] = useWidth();
  const values = heat.cells.map((cell) => cell.value);
  const most = Math.max(...values);
  const least = Math.min(...values);
  const low = heat.isFromLowest ? least : 0;
  const across = (width - LABELS_LEFT - MARGIN.right) / heat.columns.length;
  const down = Math.max(CELL_HEIGHT, Math.min(64, room / heat.rows.length));
  const every = Math.max(1, Math.ceil(LEAST_CELL / across));
  const picking = usePicking<Cell>({ count: heat.cells.length, of: (at) => heat.cells[at], onTarget });
  const height = heat.rows.length * down;
  const now = picking.chosen;
  const find = ([x, y]: readonly [number, number]): number => {
    const [row, column] = [Math.floor((y - 16) / down), Math.floor((x - LABELS_LEFT) / across)];
    return heat.cells.findIndex((cell) => cell.row === row && cell.column === column);
  };
  return (
    <div class="plot-room" ref={box}>
      <svg
        width={width}
        height={height + 34}
        role="img"
        tabindex={0}
        aria-label={`${plainText(heat.title)}. ${plainText(heat.note)} ${HINT}`}
        class={now?.target ? "leads" : undefined}
        onKeyDown={picking.onKeyDown}
        onPointerMove={(event) => picking.setAt(find(pointOf(event)))}
        onPointerLeave={() => picking.setAt(-1)}
        onClick={picking.open}
      >
        <text class="axis" x={2} y={11}>{heat.rowTitle}</text>
        {heat.rows.map((text, i) => (
          <text key={i} class="tick" x={LABELS_LEFT - 6} y={16 + i * down + down / 2 + 4} text-anchor="end">{plainText(text).slice(0, 14)}</text>
        ))}
        {heat.columns.map((text, i) =>
          i % every === 0 && <text key={i} class="tick" x={LABELS_LEFT + (i + 0.5) * across} y={height + 29} text-anchor="middle">{plainText(text).slice(0, 10)}</text>,
        )}
        <text class="axis" x={2} y={height + 29}>{heat.columnTitle}</text>
        <rect class="heat-room" x={LABELS_LEFT} y={16} width={across * heat.columns.length} height={height} />
        {heat.cells.map((cell, i) => (
          <rect
            key={i}
            class="heat-cell"
            x={LABELS_LEFT + cell.column * across}
            y={16 + cell.row * down}
            width={Math.max(across - 1, 0.5)}
            height={down - 1}
            fill-opacity={most > low ? (0.06 + 0.94 * ((cell.value - low) / (most - low))).toFixed(3) : "0.06"}
          />
        ))}
        {now && <rect class="chosen" x={LABELS_LEFT + now.column * across} y={16 + now.row * down} width={across} height={down} />}
      </svg>
      <p class="legend">
        <span>{valueText(low, heat.unit)}</span>
        <span class="heat-scale" aria-hidden="true" />
        <span>{valueText(most, heat.unit)}</span>
      </p>
      <Said text={now?.text ?? ""} leads={Boolean(now?.target)} />
    </div>
  );
}
