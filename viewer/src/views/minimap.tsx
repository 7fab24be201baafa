/** The whole recording in one strip: busy time, findings, bookmarks, and the current view. */

import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { THEMES } from "../engine/theme";
import { lengthOfSpan, panBy, timeToX, xToTime } from "../engine/view";
import type { Model } from "./model";

const HEIGHT = 34;

/** Returns the highest coverage per bin over the stream rows, otherwise the state rows, otherwise all rows. */
export function meanCoverage(
  kinds: readonly string[],
  coverage: Uint8Array,
  bins: number,
): Float32Array {
  const pick = (wanted: (kind: string) => boolean): number[] =>
    kinds.flatMap((kind, row) => (wanted(kind) ? [row] : []));
  const rows = [
    pick((kind) => kind === "stream"),
    pick((kind) => kind === "state"),
    pick((kind) => kind !== "group" && kind !== "counter" && kind !== "step"),
  ].find((found) => found.length > 0);
  const mean = new Float32Array(bins);
  for (const row of rows ?? []) {
    for (let bin = 0; bin < bins; bin++) {
      mean[bin] = Math.max(mean[bin], (coverage[row * bins + bin] ?? 0) / 255);
    }
  }
  return mean;
}

function draw(canvas: HTMLCanvasElement, model: Model): void {
  const pen = canvas.getContext("2d");
  const width = canvas.clientWidth;
  if (!pen || width === 0) return;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(HEIGHT * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  const theme = THEMES[model.theme.value];
  const { recording, limits } = model;
  pen.fillStyle = theme.band;
  pen.fillRect(0, 0, width, HEIGHT);
  const { overview, head } = recording;
  if (overview) {
    const kinds = head.rows.map((row) => row.kind);
    const mean = meanCoverage(kinds, overview.coverage, overview.bins);
    pen.fillStyle = theme.accent;
    pen.globalAlpha = 0.55;
    for (let x = 0; x < width; x++) {
      const from = Math.floor((x / width) * overview.bins);
      const to = Math.max(from + 1, Math.floor(((x + 1) / width) * overview.bins));
      let high = 0;
      for (let bin = from; bin < to; bin++) high += (mean[bin] ?? 0) / (to - from);
      pen.fillRect(x, HEIGHT - 2 - high * (HEIGHT - 10), 1, high * (HEIGHT - 10));
    }
    pen.globalAlpha = 1;
  }
  for (const finding of head.findings) {
    pen.fillStyle = finding.id === model.finding.value ? theme.warning : "#d98a2b";
    for (const [start] of finding.windows_ns) {
      const x = timeToX(start, limits, width);
      pen.beginPath();
      pen.moveTo(x - 4, 0);
      pen.lineTo(x + 4, 0);
      pen.lineTo(x, 7);
      pen.fill();
    }
  }
  pen.fillStyle = theme.accent;
  for (const { time } of model.bookmarks.value) {
    pen.fillRect(timeToX(time, limits, width), 0, 2, HEIGHT);
  }
  const view = model.view.value;
  const [x0, x1] = [timeToX(view.start, limits, width), timeToX(view.end, limits, width)];
  pen.fillStyle = theme.selection;
  pen.fillRect(x0, 0, Math.max(2, x1 - x0), HEIGHT);
  pen.strokeStyle = theme.text;
  pen.lineWidth = 1;
  pen.strokeRect(x0 + 0.5, 0.5, Math.max(2, x1 - x0) - 1, HEIGHT - 1);
}

export function Minimap({ model }: { model: Model }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    let waiting = 0;
    const stop = effect(() => {
      void [model.view.value, model.theme.value, model.arrived.value, model.finding.value];
      void [model.bookmarks.value, model.size.value];
      if (waiting) return;
      waiting = requestAnimationFrame(() => {
        waiting = 0;
        draw(element, model);
      });
    });
    return () => {
      stop();
      cancelAnimationFrame(waiting);
    };
  }, [model]);
  const centre = (event: PointerEvent, isFirst: boolean): void => {
    const element = canvas.current;
    if (!element || (!isFirst && !element.hasPointerCapture(event.pointerId))) return;
    if (isFirst) element.setPointerCapture(event.pointerId);
    const x = event.clientX - element.getBoundingClientRect().left;
    const time = xToTime(x, model.limits, element.clientWidth);
    const view = model.view.peek();
    model.show(panBy(view, time - view.start - lengthOfSpan(view) / 2, model.limits), isFirst);
  };
  return (
    <canvas
      ref={canvas}
      class="minimap"
      aria-hidden="true"
      onPointerDown={(event) => centre(event, true)}
      onPointerMove={(event) => centre(event, false)}
    />
  );
}
