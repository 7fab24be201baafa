/** Draws the graph on a canvas: the outermost functions at the top. */

import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { plainText } from "../../base/text";
import { inkOf, kindOf } from "../plots/colors";
import { type Box, boxAt, boxesOf, type Graph } from "../plots/graph";
import type { Model } from "./model";

const LINE = 19;
const GAP = 1;
const PAD = 4;
const LEAST_LABEL = 24;
const LETTER = 6.3; // pixels of one, at least: longer texts are cut before they are measured
const MOST_LEVELS = 2000; // beyond, browsers refuse such a canvas
const FONT = "12px system-ui, sans-serif";

export function FlameCanvas({ model, graph }: { model: Model; graph: Graph }) {
  const room = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useSignal(900);
  useEffect(() => {
    const element = room.current;
    if (!element) return;
    const observer = new ResizeObserver(() => (width.value = Math.max(200, Math.floor(element.clientWidth))));
    observer.observe(element);
    return () => observer.disconnect();
  }, [width]);
  const boxes = useComputed(() => {
    const now = model.graph.value;
    return now ? boxesOf(now, model.zoom.value, width.value).filter((box) => box.level < MOST_LEVELS) : [];
  });
  const levels = Math.max(0, ...boxes.value.map((box) => box.level)) + 1;
  const height = levels * LINE;
  const [pattern, chosen, theme, shown] = [model.pattern.value, model.pointed.value ?? model.chosen.value, model.theme.value, boxes.value];
  useEffect(() => {
    if (canvas.current) draw(canvas.current, { model, graph, boxes: shown, width: width.value, height, pattern, chosen });
  }, [model, graph, shown, width.value, height, pattern, chosen, theme]);
  const at = (event: MouseEvent): Box | null => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return boxAt(boxes.value, event.clientX - box.left, Math.floor((event.clientY - box.top) / LINE));
  };
  return (
    <div ref={room} class="flame-room">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={`Flame graph of ${model.loaded.value?.spec.title ?? ""}. Arrow keys read its boxes; the functions are in the table below.`}
        style={{ width: `${width.value}px`, height: `${height}px` }}
        onPointerMove={(event) => (model.pointed.value = at(event)?.path ?? null)}
        onPointerLeave={() => (model.pointed.value = null)}
        onClick={(event) => {
          const box = at(event);
          if (box) model.zoomTo(box.path);
        }}
      />
    </div>
  );
}

interface Drawing {
  readonly model: Model;
  readonly graph: Graph;
  readonly boxes: readonly Box[];
  readonly width: number;
  readonly height: number;
  readonly pattern: RegExp | null;
  readonly chosen: readonly number[];
}

function draw(canvas: HTMLCanvasElement, { model, graph, boxes, width, height, pattern, chosen }: Drawing): void {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  if (!pen) return;
  const style = getComputedStyle(canvas);
  pen.scale(ratio, ratio);
  pen.font = FONT;
  pen.textBaseline = "middle";
  for (const { branch, path, level, x, width: wide } of boxes) {
    const name = plainText(model.nameOf(graph, branch));
    const ink = inkOf(kindOf(graph.labels, branch.label), name);
    const isMeant = !pattern || (branch.label >= 0 && pattern.test(model.textOf(graph, branch.label, true)));
    const y = level * LINE;
    pen.globalAlpha = isMeant ? 1 : 0.3;
    pen.fillStyle = ink.fill;
    pen.fillRect(x, y, Math.max(wide - GAP, 0.5), LINE - GAP);
    pen.globalAlpha = 1;
    if (wide >= LEAST_LABEL) {
      pen.fillStyle = isMeant ? ink.text : style.color;
      pen.fillText(fitting(pen, name, wide - 2 * PAD), x + PAD, y + LINE / 2);
    }
    if (path.length === chosen.length && path.every((key, at) => key === chosen[at])) {
      pen.strokeStyle = style.color;
      pen.lineWidth = 2;
      pen.strokeRect(x + 1, y + 1, Math.max(wide - GAP - 2, 1), LINE - GAP - 2);
    }
  }
}

/** Returns the beginning of a text that fits. */
function fitting(pen: CanvasRenderingContext2D, text: string, room: number): string {
  let shown = text.slice(0, Math.ceil((room / LETTER) * 2));
  if (shown.length === text.length && pen.measureText(shown).width <= room) return shown;
  while (shown.length > 0 && pen.measureText(`${shown}…`).width > room) {
    shown = shown.slice(0, Math.min(shown.length - 1, Math.floor(shown.length * 0.9)));
  }
  return shown && `${shown}…`;
}
