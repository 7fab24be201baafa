/** Every key and what it does: one table, which the help page shows. */

import { zoomAt, panBy, lengthOfSpan } from "../engine/view";
import { formatAddress, type PageName } from "./address";
import type { Model } from "./model";

export interface Key {
  readonly keys: readonly string[];
  readonly text: string;
  /** Whether it works on every page; the others would take keys from what one reads there. */
  readonly isGlobal?: boolean;
  readonly run: (model: Model, event: KeyboardEvent) => void;
}

function zoom(model: Model, factor: number): void {
  const view = model.view.peek();
  model.show(zoomAt(view, (view.start + view.end) / 2, factor, model.limits), false);
}

function pan(model: Model, part: number): void {
  const view = model.view.peek();
  model.show(panBy(view, part * lengthOfSpan(view), model.limits), false);
}

const turn = (model: Model, page: PageName): void => {
  model.page.value = page;
};

function selectedRow(model: Model): string | null {
  const place = model.selected.peek() ?? model.hovered.peek();
  return place ? (model.recording.head.rows[place.row]?.id ?? null) : null;
}

function measure(model: Model): void {
  if (model.measure.peek()) {
    model.measure.value = null;
    return;
  }
  const place = model.selected.peek();
  model.measure.value = model.area.peek()?.span ?? (place && { start: place.start, end: place.end });
}

function bookmark(model: Model): void {
  const place = model.selected.peek();
  const view = model.view.peek();
  const time = Math.round(
    model.area.peek()?.span.start ?? place?.start ?? (view.start + view.end) / 2,
  );
  model.noting.value = time;
}

function clear(model: Model): void {
  const steps: readonly [boolean, () => void][] = [
    [model.noting.peek() !== null, () => (model.noting.value = null)],
    [model.isHelpOpen.peek(), () => (model.isHelpOpen.value = false)],
    [model.measure.peek() !== null, () => (model.measure.value = null)],
    [model.area.peek() !== null, () => (model.area.value = null)],
    [model.selected.peek() !== null, () => model.select(null)],
    [model.litNames.peek() !== null, () => (model.litNames.value = null)],
    [model.query.peek() !== "", () => (model.query.value = "")],
    [model.finding.peek() !== null, () => (model.finding.value = null)],
  ];
  steps.find(([isOpen]) => isOpen)?.[1]();
}

/** Letters are as typed: "A" is Shift+A. */
export const KEYS: readonly Key[] = [
  { keys: ["w"], text: "Zoom in", run: (model) => zoom(model, 0.7) },
  { keys: ["W"], text: "Zoom in fast", run: (model) => zoom(model, 0.25) },
  { keys: ["s"], text: "Zoom out", run: (model) => zoom(model, 1 / 0.7) },
  { keys: ["S"], text: "Zoom out fast", run: (model) => zoom(model, 4) },
  { keys: ["a", "ArrowLeft"], text: "Move left", run: (model) => pan(model, -0.12) },
  { keys: ["d", "ArrowRight"], text: "Move right", run: (model) => pan(model, 0.12) },
  { keys: ["A"], text: "Move left fast", run: (model) => pan(model, -0.6) },
  { keys: ["D"], text: "Move right fast", run: (model) => pan(model, 0.6) },
  { keys: ["f"], text: "Fit the selection", run: (model) => model.fit() },
  { keys: ["z", "Backspace"], text: "Go back to the view before", run: (model) => model.back() },
  { keys: ["Z"], text: "Go forward", run: (model) => model.forward() },
  { keys: ["0", "Home"], text: "Show everything", run: (model) => model.show(model.limits) },
  { keys: ["."], text: "Next event in the row", run: (model) => void model.stepEvent(1) },
  { keys: [","], text: "Previous event in the row", run: (model) => void model.stepEvent(-1) },
  { keys: ["ArrowDown"], text: "Row below", run: (model) => void model.stepRow(1) },
  { keys: ["ArrowUp"], text: "Row above", run: (model) => void model.stepRow(-1) },
  { keys: ["["], text: "Follow the arrow back: the call that launched it", run: (model) => void model.followLink(true) },
  { keys: ["]"], text: "Follow the arrow on: what it launched", run: (model) => void model.followLink(false) },
  { keys: ["n"], isGlobal: true, text: "Next finding", run: (model) => model.stepFinding(1) },
  { keys: ["N"], isGlobal: true, text: "Previous finding", run: (model) => model.stepFinding(-1) },
  { keys: ["k"], text: "Next step", run: (model) => model.stepStep(1) },
  { keys: ["j"], text: "Previous step", run: (model) => model.stepStep(-1) },
  {
    keys: ["r"],
    text: "Make the selected event's time the selected area",
    run: (model) => {
      const place = model.selected.peek();
      if (place) model.area.value = { span: { start: place.start, end: place.end }, rows: null };
    },
  },
  { keys: ["m"], text: "Measure the selection", run: measure },
  { keys: ["b"], text: "Bookmark with a note", run: bookmark },
  {
    keys: ["p"],
    text: "Pin or unpin the row",
    run: (model) => {
      const id = selectedRow(model);
      if (id) model.togglePin(id);
    },
  },
  {
    keys: ["h"],
    text: "Hide the row",
    run: (model) => {
      const id = selectedRow(model);
      if (id) model.toggle("hidden", id);
    },
  },
  {
    keys: ["H"],
    text: "Show all hidden rows",
    run: (model) => {
      model.hidden.value = new Set();
    },
  },
  { keys: ["e"], text: "Table of the events in view", run: (model) => {
    model.tab.value = model.tab.peek() === "events" ? "summary" : "events";
  } },
  { keys: ["/"], text: "Search; Enter and Shift+Enter walk what is found", run: () => {
    document.querySelector<HTMLInputElement>("#warpline-search")?.focus();
  } },
  { keys: ["t"], isGlobal: true, text: "Dark or light", run: (model) => {
    model.theme.value = model.theme.peek() === "dark" ? "light" : "dark";
  } },
  { keys: ["y"], isGlobal: true, text: "Copy a link to this view", run: (model) => copyLink(model) },
  { keys: ["1"], isGlobal: true, text: "Overview", run: (model) => turn(model, "overview") },
  { keys: ["2"], isGlobal: true, text: "Timeline", run: (model) => turn(model, "timeline") },
  { keys: ["3"], isGlobal: true, text: "Tables", run: (model) => turn(model, "tables") },
  { keys: ["4"], isGlobal: true, text: "Environment", run: (model) => turn(model, "environment") },
  { keys: ["?"], isGlobal: true, text: "This list", run: (model) => {
    model.isHelpOpen.value = !model.isHelpOpen.peek();
  } },
  { keys: ["Escape"], isGlobal: true, text: "Clear the innermost selection", run: clear },
];

export const MOUSE: readonly (readonly [string, string])[] = [
  ["Wheel", "Scroll the rows"],
  ["Ctrl or Cmd + wheel, pinch", "Zoom at the pointer"],
  ["Shift + wheel", "Move in time"],
  ["Drag", "Select an area: time and rows"],
  ["Shift + drag, middle button", "Move in time"],
  ["Drag on the ruler", "Zoom to that time"],
  ["Click", "Select an event"],
  ["Double click", "Fit an event"],
];

export function copyLink(model: Model): void {
  const { href } = window.location;
  const link = href.split("#")[0] + formatAddress(model.address());
  const done = (): void => {
    model.said.value = "Link copied";
  };
  if (navigator.clipboard) {
    void navigator.clipboard.writeText(link).then(done, () => {
      model.said.value = "The browser did not let the page copy: take the link from the address bar";
    });
  }
}

const BY_KEY = new Map(KEYS.flatMap((key) => key.keys.map((one) => [one, key] as const)));

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("input, textarea, select") !== null;
}

/** Does what a key stands for; single keys never while somebody types. */
export function onKey(model: Model, event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping(event.target)) {
    if (event.key !== "Escape") return;
    event.preventDefault(); // a browser would empty the field
    (event.target as HTMLElement).blur();
    return;
  }
  // A list that has the focus scrolls with the arrow keys.
  const target = event.target instanceof HTMLElement ? event.target : null;
  if (event.key.startsWith("Arrow") && target?.closest(".scroll, .tab-body, nav")) return;
  const key = BY_KEY.get(event.key);
  if (!key || (!key.isGlobal && model.page.peek() !== "timeline")) return;
  event.preventDefault();
  key.run(model, event);
}
