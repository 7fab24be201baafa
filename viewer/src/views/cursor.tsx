/** What follows the mouse over the rows: a line with its time, a tooltip, and the numbers of a drag. */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { plainText } from "../base/text";
import { boundsText, clockText, counterText, shareText, timeText } from "../base/units";
import { busyOf } from "../data/answers";
import { counterAt } from "../engine/counter";
import { RULER_HEIGHT } from "../engine/draw";
import { rowAt } from "../engine/layout";
import { xToTime } from "../engine/view";
import type { Model } from "./model";

const APART_PX = 14;
const LONGEST = 200;

export function Cursor({ model }: { model: Model }) {
  const pointed = model.pointed.value;
  if (!pointed) return null;
  const { width } = model.size.value;
  const { x, y } = pointed;
  const view = model.view.value;
  const time = pixelTime(model, xToTime(x, view, width));
  const isRight = x > width / 2; // the label is on the side with more room
  return (
    <div class="cursor" aria-hidden="true">
      <div class="cursor-line" style={{ transform: `translateX(${x}px)` }} />
      <div class="cursor-time" style={{ transform: `translateX(${x}px)${isRight ? " translateX(-100%)" : ""}` }}>
        {time}
      </div>
      {model.isDragging.value ? <DragNumbers model={model} x={x} y={y} /> : <Pointed model={model} x={x} y={y} />}
    </div>
  );
}

/** Returns a time of the page's clock, to the pixel. */
function pixelTime(model: Model, time: number): string {
  const [view, { width }, { origin }] = [model.view.value, model.size.value, model.clock.value];
  const size = Math.max(Math.abs(view.start - origin), Math.abs(view.end - origin));
  return clockText(time - origin, (view.end - view.start) / width, size);
}

interface Place {
  readonly model: Model;
  readonly x: number;
  readonly y: number;
}

/** A box beside the mouse that stays inside the drawing area. */
function Tooltip({ model, x, y, children }: Place & { readonly children: preact.ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ wide: 0, tall: 0 });
  useLayoutEffect(() => {
    const [wide, tall] = [box.current?.offsetWidth ?? 0, box.current?.offsetHeight ?? 0];
    if (wide !== size.wide || tall !== size.tall) setSize({ wide, tall });
  });
  const { width, height } = model.size.value;
  const left = x + APART_PX + size.wide <= width ? x + APART_PX : Math.max(0, x - APART_PX - size.wide);
  const top = y + APART_PX + size.tall <= height ? y + APART_PX : Math.max(0, y - APART_PX - size.tall);
  return (
    <div class="tooltip" ref={box} style={{ transform: `translate(${left}px, ${top}px)` }}>
      {children}
    </div>
  );
}

/** The event or the counter's value under the mouse. */
function Pointed({ model, x, y }: Place) {
  void model.refined.value;
  const { head, rows, names } = model.recording;
  const row = y < RULER_HEIGHT ? null : rowAt(model.layout.value, y - RULER_HEIGHT, model.scrollTop.value);
  const shown = row?.shows ?? -1;
  const spec = head.rows[shown];
  const data = rows[shown];
  if (spec?.kind === "counter" && data) {
    const found = counterAt(data, model.view.value, model.size.value.width, x);
    if (!found) return null;
    const [mean, least, most] = [found.mean, found.least, found.most].map((value) => counterText(value, spec.unit));
    return (
      <Tooltip model={model} x={x} y={y}>
        <p><b>{mean}</b> {least !== most && <span class="faint">mean, {least} to {most}</span>}</p>
        <p class="faint">{timeText(found.end - found.start)} from {model.momentText(found.start)}</p>
        <p class="faint">{plainText(model.labelOf(shown))}</p>
        {spec.title && spec.title !== spec.label && <p class="faint">{plainText(spec.title).slice(0, LONGEST)}</p>}
      </Tooltip>
    );
  }
  const event = model.hovered.value;
  if (!event || event.row !== shown) return null;
  const name = plainText(model.nameOf(event));
  const label = plainText(names.labels?.[event.name] ?? "");
  const category = head.categories[names.categories[event.name] ?? -1];
  return (
    <Tooltip model={model} x={x} y={y}>
      <p><b>{(label || name).slice(0, LONGEST)}</b></p>
      {label && label !== name && <p class="faint">{name.slice(0, LONGEST)}</p>}
      <p>
        {timeText(event.end - event.start)} <span class="faint">from {model.momentText(event.start)}</span>
        {category && <span class="faint"> · {category.name}</span>}
      </p>
      <p class="faint">{plainText(model.labelOf(event.row))}</p>
    </Tooltip>
  );
}

/** The length of the area that is being selected, and the busy share of its GPUs. */
function DragNumbers({ model, x, y }: Place) {
  const { rows: specs } = model.recording.head;
  const area = model.area.value;
  if (!area) return null;
  const length = area.span.end - area.span.start;
  const rows = model.isSumming.value ? [] : model.sums.value.rows;
  return (
    <Tooltip model={model} x={x} y={y}>
      <p><b>{timeText(length)}</b></p>
      {rows.filter(({ row }) => specs[row]?.kind === "state").map((one) => (
        <p key={one.row}>
          {plainText(model.labelOf(model.tree.parent[one.row] ?? one.row))}:{" "}
          <b>{boundsText(busyOf(one).low / length, busyOf(one).high / length, shareText)}</b> busy
        </p>
      ))}
    </Tooltip>
  );
}
