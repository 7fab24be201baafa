/**
 * Moves the timelines of two recordings together: in a page with both, each in a frame of its own,
 * a view is sent relative to the start of a step, and shown at the step of the same number.
 */

import { batch, effect } from "@preact/signals";
import { upperBound } from "../base/search";
import type { StepsSpec } from "../data/head";
import type { CommonAxes } from "../engine/counter";
import type { Span } from "../engine/view";
import type { Model } from "./model";

const PANEL_PART = 0.22; // two timelines share the height

/** A view relative to the start of a step; step -1: to the start of the recording. */
export interface StepView {
  readonly step: number;
  readonly start: number;
  readonly end: number;
}

/** Returns the view relative to the step that its middle is in or after. */
export function viewFromStep(view: Span, steps: StepsSpec | undefined, origin: number): StepView {
  const middle = (view.start + view.end) / 2;
  const starts = steps?.start_ns ?? [];
  const step = starts.length ? Math.max(0, upperBound(starts, middle) - 1) : -1;
  const from = starts[step] ?? origin;
  return { step, start: view.start - from, end: view.end - from };
}

/** Returns the span of a view that is relative to a step; null if there is no such step. */
export function viewAtStep(view: StepView, steps: StepsSpec | undefined, origin: number): Span | null {
  const from = view.step < 0 ? origin : steps?.start_ns[view.step];
  return from === undefined ? null : { start: from + view.start, end: from + view.end };
}

/** Returns a message as a view; null for anything else. */
export function readStepView(message: unknown): StepView | null {
  const { step, start, end } = (message ?? {}) as Partial<StepView>;
  const isView = Number.isInteger(step) && Number.isFinite(start) && Number.isFinite(end);
  return isView && (end as number) > (start as number) ? { step, start, end } as StepView : null;
}

/** Returns a message as the upper ends of axes by row id; null for anything else. */
export function readAxes(message: unknown): CommonAxes | null {
  const { axes } = (message ?? {}) as { readonly axes?: unknown };
  if (typeof axes !== "object" || axes === null) return null;
  const entries = Object.entries(axes as Record<string, unknown>);
  return entries.every(([, high]) => Number.isFinite(high)) ? new Map(entries as [string, number][]) : null;
}

/** Follows the frame around this page, if it asks for that with "follow", and sends it each new view. */
export function startTwin(model: Model): void {
  const around = window.parent;
  if (around === window) return;
  const { head } = model.recording;
  const steps = head.steps[0];
  let isFollowed = false;
  let isMoved = true; // by the user; false for what the other side asks for
  const follow = (): void => {
    isFollowed = true;
    model.panelPart.value = PANEL_PART;
    let isFirst = true; // where the view was before the other side knew of it
    effect(() => {
      const view = viewFromStep(model.view.value, steps, head.start_ns);
      if (isMoved && !isFirst) {
        model.twinStep.value = -1;
        around.postMessage({ warpline: view }, "*");
      }
      isFirst = false;
    });
  };
  window.addEventListener("message", ({ source, data }: MessageEvent<unknown>) => {
    if (source !== around) return;
    const asked = (data as { readonly warpline?: unknown } | null)?.warpline;
    if (asked === "follow" && !isFollowed) follow();
    const axes = readAxes(asked);
    if (axes) model.axes.value = axes;
    const view = readStepView(asked);
    const span = view && viewAtStep(view, steps, head.start_ns);
    if (!span) return;
    isMoved = false;
    model.page.value = "timeline";
    // Also beyond the ends of this recording: a view that moved back would no longer be aligned.
    batch(() => {
      model.twinStep.value = view.step;
      model.view.value = span;
    });
    isMoved = true;
  });
  around.postMessage({ warpline: "ready" }, "*");
}
