/** Goes to the longest idle interval, the longest kernel, or the slowest step. */

import { plainText } from "../base/text";
import { timeText } from "../base/units";
import type { RowKind, StepsSpec } from "../data/head";
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

interface Step {
  readonly of: StepsSpec;
  readonly start: number;
  readonly end: number;
  readonly text: string;
  readonly isExcluded: boolean;
}

/** Returns the longest step of all GPUs, among those that are analyzed if there are any; null without steps. */
export function slowestStep(model: Model): Step | null {
  const all = model.recording.head.steps.flatMap((of) =>
    of.start_ns.map((start, at): Step => ({ of, start, end: of.end_ns[at] ?? start, text: of.text[at] ?? "", isExcluded: of.excluded[at] === true })),
  );
  const included = all.filter((step) => !step.isExcluded);
  const length = (step: Step): number => step.end - step.start;
  return (included.length ? included : all).reduce<Step | null>((best, step) => (best && length(best) >= length(step) ? best : step), null);
}

/** Selects the slowest step and its time. */
export async function goToSlowestStep(model: Model): Promise<void> {
  const { answers, head } = model.recording;
  const step = slowestStep(model);
  if (!step) return model.tell("No steps.");
  const { start, end } = step;
  const lanes = head.rows.flatMap((row, at) => (row.kind === "step" && step.of.rows.includes(row.parent ?? "") ? [at] : []));
  const latest = await answers.latest(lanes, start);
  model.page.value = "timeline";
  model.show(fitSpan({ start, end }, model.limits, 0.04));
  model.select(latest.find((one) => one?.start === start && one.end === end) ?? null);
  model.area.value = { span: { start, end }, rows: null };
  const where = head.steps.length > 1 ? `, ${plainText(step.of.label)}` : "";
  model.tell(`Slowest step: ${plainText(step.text)}, ${timeText(end - start)}${where}`);
}
