/** The timeline: row labels, the canvas, and what mouse and wheel do on it. */

import { effect } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { plainText } from "../base/text";
import { axisText, countText, timeText } from "../base/units";
import type { Found } from "../data/answers";
import type { RowSpec } from "../data/head";
import { axisOf } from "../engine/counter";
import { type Area, Painter, RULER_HEIGHT, visibleRows } from "../engine/draw";
import { reachOf } from "../engine/hit";
import { type PlacedRow, rowAt } from "../engine/layout";
import { browserSurface } from "../engine/surface";
import { THEMES } from "../engine/theme";
import { fitSpan, panBy, type Span, xToTime, zoomAt } from "../engine/view";
import { follow } from "./answer";
import { Cursor } from "./cursor";
import { joinedText } from "./means";
import { Minimap } from "./minimap";
import type { Model } from "./model";

const CLICK_PX = 4;

interface Drag {
  readonly kind: "area" | "pan" | "ruler";
  readonly x: number;
  readonly y: number;
  readonly view: Span;
  hasMoved: boolean;
}

/** Redraws the canvas when its inputs change, at most once per frame. */
function keepDrawn(canvas: HTMLCanvasElement, model: Model): () => void {
  const painter = new Painter(browserSurface());
  const pen = canvas.getContext("2d", { alpha: false }); // an opaque canvas is composited faster
  let waiting = 0;
  const draw = (): void => {
    waiting = 0;
    const { width, height } = model.size.peek();
    if (!pen || width < 1 || height < 1) return;
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const { recording } = model;
    const { head } = recording;
    const focus = head.findings.find((one) => one.id === model.finding.peek());
    const focusRows = (focus?.rows ?? []).flatMap((id) => recording.rowOf.get(id) ?? []);
    const { pinned, scrolled } = visibleRows({
      layout: model.layout.peek(),
      scrollTop: model.scrollTop.peek(),
      height,
    });
    const shown = [...pinned, ...scrolled].flatMap(({ placed }) => placed.shows ?? []);
    recording.prepare(shown, model.view.peek(), Math.ceil(width));
    painter.draw(pen, {
      head,
      rows: recording.rows,
      names: recording.names,
      overview: recording.overview,
      inks: model.inks.peek(),
      theme: THEMES[model.theme.peek()],
      layout: model.layout.peek(),
      scrollTop: model.scrollTop.peek(),
      span: model.view.peek(),
      width,
      height,
      pixelRatio: ratio,
      anchor: model.clock.peek().origin,
      selected: model.selected.peek(),
      hovered: model.hovered.peek(),
      area: model.area.peek(),
      measure: model.measure.peek(),
      hits: model.lit.peek() && model.hits.peek(),
      windows: (focus?.windows_ns ?? []).map(([start, end]) => ({ start, end })),
      windowRows: focusRows.length ? new Set(focusRows) : null,
      arrows: model.arrows.peek(),
      bookmarks: model.bookmarks.peek(),
      axes: model.axes.peek(),
    });
    const mark = model.isComplete.peek() ? "warpline-full" : "warpline-frame";
    performance.clearMarks(mark); // keep only the latest
    performance.mark(mark);
  };
  const stop = effect(() => {
    void [model.arrived.value, model.inks.value, model.layout.value, model.scrollTop.value];
    void [model.view.value, model.size.value, model.selected.value, model.hovered.value];
    void [model.area.value, model.measure.value, model.arrows.value, model.bookmarks.value];
    void [model.finding.value, model.isComplete.value, model.theme.value, model.isFromStep.value];
    void [model.refined.value, model.hits.value, model.axes.value];
    if (!waiting) waiting = requestAnimationFrame(draw);
  });
  return () => {
    stop();
    cancelAnimationFrame(waiting);
  };
}

interface LabelProps {
  readonly model: Model;
  readonly placed: PlacedRow;
  readonly top: number;
  /** Pinned rows are shown outside their groups, so their labels include the group. */
  readonly isApart?: boolean;
}

function Label({ model, placed, top, isApart = false }: LabelProps) {
  void model.arrived.value; // to show read errors
  const spec = model.recording.head.rows[placed.row];
  if (!spec) return null;
  const label = plainText(isApart ? model.labelApart(placed.row) : spec.label);
  const isPinned = model.pinned.value.includes(spec.id);
  const error = model.recording.rows[placed.row]?.error;
  const isLane = !isApart && (spec.depth ?? 0) > 0;
  return (
    <div
      class={`row-label ${spec.kind}`}
      data-row={spec.id}
      style={{ top: `${top}px`, height: `${placed.height}px`, paddingLeft: `${4 + placed.indent * 12}px` }}
      title={error ? plainText(error) : fullLabel(spec, label)}
    >
      {placed.hasChildren ? (
        <button
          type="button"
          class="fold"
          aria-expanded={!placed.isCollapsed}
          aria-label={`${placed.isCollapsed ? "Expand" : "Collapse"} ${label}`}
          onClick={() => model.toggle("collapsed", spec.id)}
        >
          {placed.isCollapsed ? "▸" : "▾"}
        </button>
      ) : (
        <span class="fold" />
      )}
      <span class={error ? "text broken" : "text"}>
        {error ? "⚠ " : ""}
        {isLane ? "" : label}
      </span>
      {spec.kind === "counter" && <AxisLabels model={model} spec={spec} />}
      <span class="row-actions">
        <button
          type="button"
          aria-pressed={isPinned}
          aria-label={`${isPinned ? "Unpin" : "Pin"} ${label}`}
          title={`${isPinned ? "Unpin" : "Pin to the top"} (P)`}
          onClick={() => model.togglePin(spec.id)}
        >
          {isPinned ? "★" : "☆"}
        </button>
        <button
          type="button"
          aria-label={`Hide ${label}`}
          title="Hide (H)"
          onClick={() => model.toggle("hidden", spec.id)}
        >
          ✕
        </button>
      </span>
    </div>
  );
}

/** Returns what a row is in full: its label, what it stands for, and whether samples are joined. */
function fullLabel(spec: RowSpec, label: string): string {
  const joined = joinedText([spec]);
  const title = plainText(spec.title ?? label);
  return `${label}${title === label ? "" : `: ${title}`}${joined && ` (${joined})`}`;
}

/** The values at the top and at the bottom of a counter's row. */
function AxisLabels({ model, spec }: { model: Model; spec: RowSpec }) {
  const { low, high } = axisOf(spec, model.axes.value);
  return (
    <span class="axis">
      <span>{axisText(high, spec.unit)}</span>
      <span>{axisText(low, spec.unit)}</span>
    </span>
  );
}

/** Beside the minimap: brings hidden rows back. */
function HiddenRows({ model }: { model: Model }) {
  const count = model.hidden.value.size;
  if (!count) return null;
  return (
    <button type="button" class="hidden-rows" title="Show all hidden rows (Shift+H)" onClick={() => { model.hidden.value = new Set(); }}>
      Show {countText(count)} hidden
    </button>
  );
}

/** The cell next to the ruler: the origin of its times. */
function Origin({ model }: { model: Model }) {
  const { name, device } = model.clock.value;
  if (!model.recording.head.steps[0]) return <div class="origin">from {name}</div>;
  return (
    <button
      type="button"
      class="origin"
      title={`All times are from ${name}${device && ` on ${device}`}. Switch between the step in view and the start of the recording (O)`}
      onClick={() => {
        model.isFromStep.value = !model.isFromStep.value;
      }}
    >
      from {name}
    </button>
  );
}

function Gutter({ model }: { model: Model }) {
  void model.arrived.value;
  const { pinned, scrolled } = visibleRows({
    layout: model.layout.value,
    scrollTop: model.scrollTop.value,
    height: model.size.value.height,
  });
  const cut = RULER_HEIGHT + model.layout.value.pinnedHeight;
  return (
    <div class="gutter">
      <Origin model={model} />
      <div class="zone" style={{ top: `${cut}px` }}>
        {scrolled.map(({ placed, top }) => (
          <Label key={placed.row} model={model} placed={placed} top={top - cut} />
        ))}
      </div>
      {pinned.map(({ placed, top }) => (
        <Label key={`pin ${placed.row}`} model={model} placed={placed} top={top} isApart />
      ))}
    </div>
  );
}

/** Returns the handlers of the drawing area. */
function pointer(model: Model, canvas: () => HTMLCanvasElement | null) {
  let drag: Drag | null = null;
  let isSpaceDown = false;
  const at = (event: MouseEvent): { x: number; y: number } => {
    const box = canvas()?.getBoundingClientRect();
    return { x: event.clientX - (box?.left ?? 0), y: event.clientY - (box?.top ?? 0) };
  };
  const timeAt = (x: number): number => xToTime(x, model.view.peek(), model.size.peek().width);
  const eventAt = async (x: number, y: number): Promise<Found | null> => {
    const row = rowAt(model.layout.peek(), y - RULER_HEIGHT, model.scrollTop.peek());
    const shown = row?.shows ?? null;
    if (shown === null || y < RULER_HEIGHT) return null;
    if (model.recording.head.rows[shown]?.kind === "counter") return null;
    const reach = reachOf(model.view.peek(), model.size.peek().width);
    return model.recording.answers.at(shown, timeAt(x), reach);
  };
  const rowsBetween = (y0: number, y1: number): ReadonlySet<number> => {
    const { pinned, scrolled } = visibleRows({
      layout: model.layout.peek(),
      scrollTop: model.scrollTop.peek(),
      height: model.size.peek().height,
    });
    const [low, high] = y0 < y1 ? [y0, y1] : [y1, y0];
    const hit = [...pinned, ...scrolled].filter(
      ({ placed, top }) => top < high && top + placed.height > low,
    );
    return new Set(hit.flatMap(({ placed }) => [placed.row, ...(placed.shows === null ? [] : [placed.shows])]));
  };
  const { pointed, isDragging } = model;
  const under = follow<Found | null>(null, () => {
    const now = pointed.value;
    return now && !isDragging.value ? eventAt(now.x, now.y) : null;
  });
  effect(() => {
    const [found, old] = [under.value, model.hovered.peek()];
    if (found?.row !== old?.row || found?.event !== old?.event) model.hovered.value = found;
  });
  return {
    down(event: PointerEvent): void {
      const { x, y } = at(event);
      const isPan = event.button === 1 || event.shiftKey || isSpaceDown;
      if (event.button > 1) return;
      drag = {
        kind: y < RULER_HEIGHT ? "ruler" : isPan ? "pan" : "area",
        x,
        y,
        view: model.view.peek(),
        hasMoved: false,
      };
      canvas()?.setPointerCapture(event.pointerId);
      canvas()?.focus({ preventScroll: true });
      event.preventDefault();
    },
    move(event: PointerEvent): void {
      const { x, y } = at(event);
      pointed.value = { x, y };
      if (!drag) return;
      if (!drag.hasMoved && Math.hypot(x - drag.x, y - drag.y) < CLICK_PX) return;
      if (!drag.hasMoved && drag.kind === "pan") model.show(drag.view);
      drag.hasMoved = true;
      isDragging.value = drag.kind !== "pan";
      if (drag.kind === "pan") {
        const { width } = model.size.peek();
        const ns = ((drag.x - x) / width) * (drag.view.end - drag.view.start);
        model.show(panBy(drag.view, ns, model.limits), false);
        return;
      }
      const [start, end] = [timeAt(Math.min(x, drag.x)), timeAt(Math.max(x, drag.x))];
      const span = {
        start: Math.max(model.limits.start, Math.round(start)),
        end: Math.min(model.limits.end, Math.max(Math.round(start) + 1, Math.round(end))),
      };
      const rows = drag.kind === "ruler" ? null : rowsBetween(drag.y, y);
      model.area.value = { span, rows } satisfies Area;
    },
    up(event: PointerEvent): void {
      const { x, y } = at(event);
      const done = drag;
      drag = null;
      isDragging.value = false;
      if (!done) return;
      if (!done.hasMoved) {
        if (done.kind !== "area") return;
        const clicked = eventAt(x, y).then((found) => {
          model.select(found);
          const isStep = found !== null && model.recording.head.rows[found.row]?.kind === "step";
          if (isStep) model.area.value = { span: { start: found.start, end: found.end }, rows: null };
          else if (!found) model.area.value = null;
        });
        model.attempt(clicked);
      } else if (done.kind === "ruler" && model.area.peek()) {
        const { span } = model.area.peek() as Area;
        model.area.value = null;
        model.show(span);
      }
    },
    space(event: KeyboardEvent): void {
      if (event.key !== " ") return;
      isSpaceDown = event.type === "keydown";
      event.preventDefault();
    },
    cancel(): void {
      drag = null;
      isDragging.value = false;
    },
    leave(): void {
      pointed.value = null;
    },
    twice(event: MouseEvent): void {
      const { x, y } = at(event);
      model.attempt(eventAt(x, y).then((found) => found && model.show(fitSpan(found, model.limits))));
    },
    wheel(event: WheelEvent): void {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 16 : 1;
      const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
      const view = model.view.peek();
      const { width } = model.size.peek();
      if (event.ctrlKey || event.metaKey) {
        const factor = Math.exp(Math.max(-1, Math.min(1, dy * 0.004)));
        model.show(zoomAt(view, timeAt(at(event).x), factor, model.limits), false);
        return;
      }
      const sideways = event.shiftKey ? dx + dy : dx;
      if (sideways) {
        model.show(panBy(view, (sideways / width) * (view.end - view.start), model.limits), false);
      }
      if (!event.shiftKey && dy) scrollRows(model, dy);
    },
  };
}

export function scrollRows(model: Model, by: number): void {
  const { pinnedHeight, scrolledHeight } = model.layout.peek();
  const room = model.size.peek().height - RULER_HEIGHT - pinnedHeight;
  const most = Math.max(0, scrolledHeight - room);
  model.scrollTop.value = Math.max(0, Math.min(most, model.scrollTop.peek() + by));
}

function ScrollBar({ model }: { model: Model }) {
  const { pinnedHeight, scrolledHeight } = model.layout.value;
  const room = Math.max(1, model.size.value.height - RULER_HEIGHT - pinnedHeight);
  if (scrolledHeight <= room) return null;
  const bar = useRef<HTMLDivElement>(null);
  const top = model.scrollTop.value;
  useEffect(() => {
    if (bar.current && Math.abs(bar.current.scrollTop - top) > 1) bar.current.scrollTop = top;
  });
  return (
    <div
      ref={bar}
      class="scroll-bar"
      tabIndex={-1}
      style={{ top: `${RULER_HEIGHT + pinnedHeight}px` }}
      onScroll={() => {
        if (bar.current) model.scrollTop.value = bar.current.scrollTop;
      }}
    >
      <div style={{ height: `${scrolledHeight}px` }} />
    </div>
  );
}

function Hover({ model }: { model: Model }) {
  const event = model.hovered.value;
  if (!event) return <div class="hover faint">Drag: select time and rows · Ctrl + wheel: zoom · Shift + drag: pan · ?: all shortcuts</div>;
  return (
    <div class="hover">
      <b title={plainText(model.fullNameOf(event)).slice(0, 1000)}>{plainText(model.nameOf(event)).slice(0, 300)}</b> {timeText(event.end - event.start)}
      <span class="faint"> {plainText(model.labelOf(event.row))}</span>
    </div>
  );
}

export function Timeline({ model }: { model: Model }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const [element, box] = [canvas.current, frame.current];
    if (!element || !box) return;
    const measure = (): void => {
      const { width, height } = box.getBoundingClientRect();
      if (width > 0 && height > 0) model.size.value = { width, height };
    };
    const watch = new ResizeObserver(measure);
    watch.observe(box);
    measure();
    const handlers = pointer(model, () => canvas.current);
    element.addEventListener("pointerdown", handlers.down);
    element.addEventListener("pointermove", handlers.move);
    element.addEventListener("pointerup", handlers.up);
    element.addEventListener("pointerleave", handlers.leave);
    element.addEventListener("pointercancel", handlers.cancel);
    element.addEventListener("keydown", handlers.space);
    element.addEventListener("keyup", handlers.space);
    element.addEventListener("dblclick", handlers.twice);
    element.addEventListener("wheel", handlers.wheel, { passive: false });
    const stop = keepDrawn(element, model);
    return () => {
      watch.disconnect();
      stop();
    };
  }, [model]);
  return (
    <section class="timeline" aria-label="Timeline">
      <HiddenRows model={model} />
      <Minimap model={model} />
      <div class="tracks">
        <Gutter model={model} />
        <div class="frame" ref={frame}>
          <canvas
            ref={canvas}
            tabIndex={0}
            role="application"
            aria-label="Timeline of events. W and S zoom, A and D pan. Comma and period select the previous and next event of a row. Question mark lists all shortcuts. The event table below shows the same data as text."
          />
          <ScrollBar model={model} />
          <Cursor model={model} />
        </div>
      </div>
      <Hover model={model} />
    </section>
  );
}
