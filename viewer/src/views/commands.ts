/** The commands of the palette: every action, page, table, finding, row, step, and bookmark. */

import { plainText } from "../base/text";
import { fitSpan } from "../engine/view";
import { KEYS } from "./keys";
import type { Model } from "./model";

export interface Command {
  /** The kind of its target: "Row". */
  readonly kind: string;
  readonly title: string;
  readonly keys: readonly string[];
  readonly run: (model: Model) => void;
}

const MOST_STEPS = 5000;
const LONGEST_TITLE = 200;

function titled(text: string): string {
  return plainText(text.slice(0, LONGEST_TITLE));
}

/** Returns all commands of a page, actions first. */
export function commandsOf(model: Model): Command[] {
  return [
    ...actions(),
    ...findings(model),
    ...tables(model),
    ...rows(model),
    ...bookmarks(model),
    ...steps(model),
  ];
}

function actions(): Command[] {
  const own = KEYS.filter((key) => !key.keys.includes("Escape") && !key.keys.includes("Ctrl+k"));
  return own.map(({ text, keys, run, isGlobal }) => ({
    kind: isGlobal ? "Page" : "Timeline",
    title: text,
    keys,
    run: (model) => {
      if (!isGlobal) model.page.value = "timeline";
      run(model);
    },
  }));
}

function findings(model: Model): Command[] {
  return (model.recording.head.summary.findings ?? []).map(({ id, title }) => ({
    kind: "Finding",
    title: titled(`${id} ${title}`),
    keys: [],
    run: () => model.showFinding(id),
  }));
}

function tables(model: Model): Command[] {
  return model.recording.head.results.map(({ name, title }) => ({
    kind: "Table",
    title: titled(`${title} (${name})`),
    keys: [],
    run: () => {
      model.table.value = name;
      model.page.value = "tables";
    },
  }));
}

function rows(model: Model): Command[] {
  return model.recording.head.rows.flatMap((row, at) => {
    const isLane = (row.depth ?? 0) > 0;
    if (isLane) return [];
    const go = {
      kind: "Row",
      title: titled(`Go to ${model.labelOf(at)}`),
      keys: [],
      run: () => model.goToRow(at),
    };
    const pin = {
      kind: "Row",
      title: titled(`Pin or unpin ${model.labelOf(at)}`),
      keys: [],
      run: () => model.togglePin(row.id),
    };
    return row.kind === "group" ? [go] : [go, pin];
  });
}

function bookmarks(model: Model): Command[] {
  return model.bookmarks.peek().map(({ time, text }) => ({
    kind: "Bookmark",
    title: titled(text || model.momentText(time)),
    keys: [],
    run: () => model.centreOn(time),
  }));
}

function stepTitle(name: string): string {
  return /^step/i.test(name) ? name : `Step ${name}`;
}

function steps(model: Model): Command[] {
  const list = model.recording.head.steps[0];
  return (list?.text ?? []).slice(0, MOST_STEPS).map((_, at) => ({
    kind: "Step",
    title: titled(stepTitle(model.nameOfStep(at))),
    keys: [],
    run: () => {
      const [start, end] = [list?.start_ns[at] ?? 0, list?.end_ns[at] ?? 0];
      model.page.value = "timeline";
      model.show(fitSpan({ start, end }, model.limits, 0.04));
    },
  }));
}
