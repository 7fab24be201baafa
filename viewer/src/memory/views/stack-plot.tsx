/** The stack plots: bytes by layer over time, one for each recording, on the same axes. */

import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { plainText } from "../../base/text";
import { bytesText, clockText, countText } from "../../base/units";
import { place, scaleOf, type Scale, ticks, tickTexts } from "../../plots/scale";
import type { Pool } from "../data/pool";
import { bytesOfColumns, statesOfColumns, xOf } from "../plots/layers";
import { areaPath, linePath } from "../plots/shapes";
import type { Model } from "./model";

const LEFT = 64;
const RIGHT = 8;
const STRIP = 18;
const AXIS = 22;
const HEIGHT = 400;
const HEIGHT_OF_TWO = 250;
const LETTER = 6.4; // pixels of one in a label
const WHEEL = 1.0015;

export function Plots({ model }: { model: Model }) {
  const room = useRef<HTMLDivElement>(null);
  const width = useSignal(800);
  useEffect(() => {
    const element = room.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      width.value = Math.max(200, Math.floor(element.clientWidth) - LEFT - RIGHT);
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [width]);
  const drawn = useComputed(() => {
    const { low, high } = model.view.value;
    return model.pools.value.map((pool, side) => {
      const origin = model.origins.value[side] as number;
      const states = statesOfColumns(pool, model.axis.value, low + origin, high + origin, width.value);
      return { states, layers: bytesOfColumns(pool, model.layering.value, states) };
    });
  });
  const top = useComputed(() => Math.max(1, ...model.pools.value.map((pool, side) => highest(pool, (drawn.value[side] as Drawn).states))));
  return (
    <div class="plots" ref={room}>
      {model.pools.value.map((pool, side) => (
        <figure key={side}>
          {model.hasTwo && <figcaption>{side === 0 ? "Before" : "After"}: {plainText(model.store.head.sides[side]?.name ?? "")}, {plainText(pool.spec.label)}</figcaption>}
          <StackPlot model={model} pool={pool} side={side} width={width.value} top={top.value} drawn={drawn.value} />
        </figure>
      ))}
    </div>
  );
}

interface Drawn {
  readonly states: Int32Array;
  readonly layers: Float64Array[];
}

interface PlotProps {
  readonly model: Model;
  readonly pool: Pool;
  readonly side: number;
  readonly width: number;
  /** The bytes at the upper end. */
  readonly top: number;
  /** Of all sides: the others' totals are lines. */
  readonly drawn: readonly Drawn[];
}

/** Returns the most bytes in a view, allocated or reserved. */
function highest(pool: Pool, states: Int32Array): number {
  let most = 0;
  for (const state of states) if (state >= 0) most = Math.max(most, pool.allocated[state] as number, pool.reserved?.[state] ?? 0);
  return most;
}

function StackPlot({ model, pool, side, width, top, drawn }: PlotProps) {
  const { states, layers } = drawn[side] as Drawn;
  const view = model.view.value;
  const strips = [model.spansOf(side, pool.texts.steps), model.spansOf(side, pool.texts.phases)].filter((spans) => spans.length > 0);
  const above = strips.length * STRIP + 6;
  const height = above + (model.hasTwo ? HEIGHT_OF_TWO : HEIGHT);
  const y = scaleOf(0, top * 1.04, height, above);
  const x = scaleOf(view.low, view.high, 0, width);
  const at = (state: number): number => place(x, xOf(pool, model.axis.value, state) - (model.origins.value[side] as number));
  const moment = at(model.moment.value[side] as number);
  const peak = at(pool.spec.peak.state);
  const { spec } = pool;
  const label = `Memory by ${model.by.value} over ${model.axis.value === "time" ? "time" : "allocations and frees"}. Peak: ${bytesText(spec.peak.allocated_bytes)}.`;
  return (
    <svg class="stack" viewBox={`0 0 ${LEFT + width + RIGHT} ${height + AXIS}`} width={LEFT + width + RIGHT} height={height + AXIS} role="img" aria-label={label}>
      <Bytes y={y} width={width} />
      <svg x={LEFT} y={0} width={width} height={height + AXIS} viewBox={`0 0 ${width} ${height + AXIS}`}>
        {strips.map((spans, row) => <Strip key={row} spans={spans} x={x} top={row * STRIP} height={height} isFirst={row === 0} />)}
        <g class="layers">{areas(model, states, layers, y)}</g>
        {pool.reserved && <path class="reserved" d={linePath(states, heights(states, pool.reserved, y))} />}
        {drawn.map((other, one) => one !== side && <path key={one} class="other-side" d={linePath(other.states, heights(other.states, (model.pools.value[one] as Pool).allocated, y))} />)}
        {peak >= 0 && peak <= width && <path class="peak" d={`M${peak} ${place(y, spec.peak.allocated_bytes) - 2}l-5 -8h10Z`} />}
        {moment >= 0 && moment <= width && <line class="moment" x1={moment} x2={moment} y1={above} y2={height} />}
        <Pointing model={model} x={x} states={states} side={side} height={height} />
        <Times model={model} x={x} top={height} />
      </svg>
    </svg>
  );
}

function heights(states: Int32Array, values: Float64Array, y: Scale): Float64Array {
  return Float64Array.from(states, (state) => (state < 0 ? 0 : place(y, values[state] as number)));
}

function areas(model: Model, states: Int32Array, layers: readonly Float64Array[], y: Scale) {
  const { names, colors } = model.layering.value;
  let sums = new Float64Array(states.length);
  let bottom = sums.map((bytes) => place(y, bytes));
  return layers.map((layer, number) => {
    const next = sums.map((bytes, column) => bytes + (layer[column] as number));
    const top = next.map((bytes) => place(y, bytes));
    const path = areaPath(states, bottom, top);
    [sums, bottom] = [next, top];
    const name = names[number] as string;
    const isFaded = model.layer.value !== null && model.layer.value !== name;
    return <path key={name} class={`layer-${colors[number]}${isFaded ? " faded" : ""}`} d={path}><title>{plainText(name)}</title></path>;
  });
}

function Bytes({ y, width }: { y: Scale; width: number }) {
  const values = ticks(y, "bytes", 6);
  const texts = tickTexts(values, "bytes");
  return (
    <g class="axis">
      {values.map((value, at) => (
        <g key={value}>
          <line x1={LEFT} x2={LEFT + width} y1={place(y, value)} y2={place(y, value)} />
          <text x={LEFT - 6} y={place(y, value) + 4} text-anchor="end">{texts[at]}</text>
        </g>
      ))}
    </g>
  );
}

function Times({ model, x, top }: { model: Model; x: Scale; top: number }) {
  const isTime = model.axis.value === "time";
  const values = ticks(x, isTime ? "ns" : "count", Math.max(2, (x.to - x.from) / 110));
  const texts = isTime ? tickTexts(values, "ns") : values.map(countText);
  return (
    <g class="axis">
      {values.map((value, at) => {
        const left = place(x, value);
        const anchor = left < 20 ? "start" : left > x.to - 30 ? "end" : "middle";
        return (
          <g key={value}>
            <line x1={left} x2={left} y1={top} y2={top + 4} />
            <text x={left} y={top + 16} text-anchor={anchor}>{texts[at]}</text>
          </g>
        );
      })}
    </g>
  );
}

interface StripProps {
  readonly spans: readonly { name: string; low: number; high: number }[];
  readonly x: Scale;
  readonly top: number;
  readonly height: number;
  /** Whether lines through the plot continue it. */
  readonly isFirst: boolean;
}

function Strip({ spans, x, top, height, isFirst }: StripProps) {
  const shown = spans.filter(({ low, high }) => high >= x.low && low <= x.high);
  return (
    <g class="strip">
      {shown.map(({ name, low, high }, at) => {
        const [left, right] = [Math.max(x.from, place(x, low)), Math.min(x.to, place(x, high))];
        const letters = Math.floor((right - left - 6) / LETTER);
        const text = plainText(name);
        return (
          <g key={at}>
            <title>{text}</title>
            <rect x={left} y={top} width={Math.max(0.5, right - left - 1)} height={STRIP - 3} />
            {letters >= Math.min(3, text.length) && <text x={left + 3} y={top + 11}>{text.length > letters ? `${text.slice(0, letters - 1)}…` : text}</text>}
            {isFirst && right - left > 3 && <line x1={left} x2={left} y1={top} y2={height} />}
          </g>
        );
      })}
    </g>
  );
}

interface PointingProps {
  readonly model: Model;
  readonly x: Scale;
  readonly states: Int32Array;
  readonly side: number;
  readonly height: number;
}

/** Takes the pointer: shows what is under it, chooses a moment by a click, and a part by dragging. */
function Pointing({ model, x, states, side, height }: PointingProps) {
  const drag = useSignal<{ from: number; to: number } | null>(null);
  const column = (event: MouseEvent): number => {
    const box = (event.currentTarget as SVGRectElement).getBoundingClientRect();
    return Math.max(0, Math.min(states.length - 1, Math.floor(((event.clientX - box.left) / box.width) * states.length)));
  };
  const valueAt = (at: number): number => x.low + (at / states.length) * (x.high - x.low);
  // What is drawn in the column: its state with the most bytes. The other side is read at the same place.
  const statesAt = (at: number): number[] => model.statesAt(valueAt(at + 0.5)).map((state, one) => (one === side && (states[at] as number) >= 0 ? (states[at] as number) : state));
  const selected = drag.value;
  return (
    <g>
      {selected && <rect class="dragged" x={Math.min(selected.from, selected.to)} y={0} width={Math.abs(selected.to - selected.from)} height={height} />}
      <rect
        class="pointing" data-side={side} x={0} y={0} width={states.length} height={height}
        onPointerDown={(event) => {
          if (event.button !== 0) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          drag.value = { from: column(event), to: column(event) };
        }}
        onPointerMove={(event) => {
          const at = column(event);
          if (drag.value) drag.value = { ...drag.value, to: at };
          model.pointed.value = statesAt(at);
        }}
        onPointerUp={(event) => {
          const span = drag.value;
          drag.value = null;
          if (!span) return;
          if (Math.abs(span.to - span.from) > 4) model.setView(valueAt(Math.min(span.from, span.to)), valueAt(Math.max(span.from, span.to)));
          else model.choose(statesAt(column(event)));
        }}
        onPointerCancel={() => (drag.value = null)}
        onPointerLeave={() => (model.pointed.value = null)}
        onWheel={(event) => {
          event.preventDefault();
          model.zoomBy(WHEEL ** event.deltaY, valueAt(column(event)));
        }}
      />
    </g>
  );
}

/** Returns a moment in words. */
export function momentText(pool: Pool, state: number): string {
  const time = pool.time[state] as number;
  const named = [pool.texts.steps, pool.texts.phases].flatMap((spans) => {
    const found = spans.find(([, start, end]) => start <= time && time < end);
    return found ? [plainText(found[0])] : [];
  });
  const clock = clockText(time, 1000, Math.max(...pool.time.slice(-1), time));
  return [clock, ...named, `after ${countText(state)} of ${countText(pool.time.length - 1)} allocations and frees`].join(", ");
}
