/** Goes to the longest idle interval, the longest kernel, or the slowest step. */

import { plainText } from "../base/text";
import { timeText } from "../base/units";
import type { RowKind } from "../data/head";
import { isKernelName } from "../data/names";
import { fitSpan } from "../engine/view";
import type { Model } from "./model";

/** The category of the time before the first GPU operation and after the last. */
const OUTSIDE = "tail";

/** Selects the longest event of some names in rows of a kind: in the selected area, otherwise anywhere. */
async function goToLongest(
  model: Model,
  what: string,
  kind: RowKind,
  isWanted: (name: number) => boolean,
): Promise<void> {
  const { answers, head, names } = model.recording;
  const area = model.area.peek();
  const isIn = (row: number): boolean => area?.rows == null || area.rows.has(row);
  const rows = head.rows.flatMap((row, place) => (row.kind === kind && isIn(place) ? [place] : []));
  const lit = Uint8Array.from(names.texts, (_, name) => (isWanted(name) ? 1 : 0));
  const found = await answers.longest(rows, area?.span ?? model.limits, lit);
  const where = area ? " in the selected area" : "";
  if (!found) return model.tell(`No ${what}${where}${head.thinned ? " among the events in this file" : ""}.`);
  model.page.value = "timeline";
  model.show(fitSpan(found, model.limits, 1));
  model.select(found, true);
  const name = plainText(model.nameOf(found)).slice(0, 80);
  model.tell(`Longest ${what}${where}: ${timeText(found.end - found.start)}, ${name}, ${plainText(model.labelOf(found.row))}`);
}

export function goToLongestGap(model: Model): Promise<void> {
  const { head, names } = model.recording;
  const isGap = (name: number): boolean => {
    const category = head.categories[names.categories[name] ?? -1];
    return category?.kind === "idle" && category.name !== OUTSIDE;
  };
  return goToLongest(model, "idle interval", "state", isGap);
}

export function goToLongestKernel(model: Model): Promise<void> {
  const { head, names } = model.recording;
  return goToLongest(model, "kernel", "stream", (name) => isKernelName(names, head.categories, name));
}

/** Returns the longest step, among those that are analyzed if there are any; -1 without steps. */
export function slowestStep(model: Model): number {
  const steps = model.recording.head.steps[0];
  if (!steps) return -1;
  const all = steps.start_ns.map((_, step) => step);
  const included = all.filter((step) => !steps.excluded[step]);
  const length = (step: number): number => (steps.end_ns[step] ?? 0) - (steps.start_ns[step] ?? 0);
  return (included.length ? included : all).reduce((best, step) => (best < 0 || length(step) > length(best) ? step : best), -1);
}

export function goToSlowestStep(model: Model): void {
  const steps = model.recording.head.steps[0];
  const step = slowestStep(model);
  if (!steps || step < 0) return model.tell("No steps.");
  const span = { start: steps.start_ns[step] as number, end: steps.end_ns[step] as number };
  model.page.value = "timeline";
  model.show(fitSpan(span, model.limits, 0.04));
  model.tell(`Slowest step: ${plainText(steps.text[step] ?? "")}, ${timeText(span.end - span.start)}`);
}
