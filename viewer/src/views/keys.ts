/** All keyboard shortcuts, in one table for the help dialog and the command palette. */

import { zoomAt, panBy, lengthOfSpan } from "../engine/view";
import { switchFollowing } from "./live";
import { goToLongestGap, goToLongestKernel, goToSlowestStep } from "./extremes";
import { formatAddress, type PageName } from "./address";
import type { Model } from "./model";
import { openTopic, type Topic } from "./topics";

export interface Key {
  /** In the notation of `chordOf`. A space separates two keys that are pressed in a row. */
  readonly keys: readonly string[];
  readonly text: string;
  /** Whether the shortcut works on every page. The others work on the timeline only. */
  readonly isGlobal?: boolean;
  readonly run: (model: Model) => void;
}

function zoom(model: Model, factor: number): void {
  const view = model.view.peek();
  model.show(zoomAt(view, (view.start + view.end) / 2, factor, model.limits), false);
}

function pan(model: Model, part: number): void {
  const view = model.view.peek();
  model.show(panBy(view, part * lengthOfSpan(view), model.limits), false);
}

const turn = (page: PageName) => (model: Model): void => {
  model.page.value = page;
};

const open = (topic: Topic) => (model: Model): void => openTopic(model, topic);

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
    [model.isHelpOpen.peek(), () => (model.isHelpOpen.value = false)],
    [model.noting.peek() !== null, () => (model.noting.value = null)],
    [model.measure.peek() !== null, () => (model.measure.value = null)],
    [model.area.peek() !== null, () => (model.area.value = null)],
    [model.selected.peek() !== null, () => model.select(null)],
    [model.lighting.peek() !== null, () => (model.lighting.value = null)],
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
  { keys: ["a", "ArrowLeft"], text: "Pan left", run: (model) => pan(model, -0.12) },
  { keys: ["d", "ArrowRight"], text: "Pan right", run: (model) => pan(model, 0.12) },
  { keys: ["A"], text: "Pan left fast", run: (model) => pan(model, -0.6) },
  { keys: ["D"], text: "Pan right fast", run: (model) => pan(model, 0.6) },
  { keys: ["f"], text: "Zoom to the selection", run: (model) => model.fit() },
  { keys: ["F"], text: "Zoom to all GPU work", run: (model) => model.attempt(model.fitWork()) },
  { keys: ["z", "Backspace"], text: "Go back to the previous view", run: (model) => model.back() },
  { keys: ["Z"], text: "Go forward to the next view", run: (model) => model.forward() },
  { keys: ["0", "Home"], text: "Show the whole recording", run: (model) => model.show(model.limits) },
  { keys: ["."], text: "Next event in the row", run: (model) => void model.stepEvent(1) },
  { keys: [","], text: "Previous event in the row", run: (model) => void model.stepEvent(-1) },
  { keys: [">"], text: "Next highlighted event (from a search or a table)", run: (model) => void model.stepMatch(1) },
  { keys: ["<"], text: "Previous highlighted event", run: (model) => void model.stepMatch(-1) },
  { keys: ["o"], text: "Show times relative to the step in view or to the start of the recording", run: (model) => {
    model.isFromStep.value = !model.isFromStep.peek();
  } },
  { keys: ["ArrowDown"], text: "Row below", run: (model) => void model.stepRow(1) },
  { keys: ["ArrowUp"], text: "Row above", run: (model) => void model.stepRow(-1) },
  { keys: ["["], text: "Follow the arrow back, to the launching call or the forward operator", run: (model) => void model.followLink(true) },
  { keys: ["]"], text: "Follow the arrow forward, to the launched operation", run: (model) => void model.followLink(false) },
  { keys: ["n"], isGlobal: true, text: "Next finding", run: (model) => model.stepFinding(1) },
  { keys: ["N"], isGlobal: true, text: "Previous finding", run: (model) => model.stepFinding(-1) },
  { keys: ["k"], text: "Next step; in a view of several, the first", run: (model) => model.stepStep(1) },
  { keys: ["j"], text: "Previous step", run: (model) => model.stepStep(-1) },
  { keys: ["x i"], isGlobal: true, text: "Longest idle interval between GPU operations, in the selected area if there is one", run: (model) => void goToLongestGap(model) },
  { keys: ["x k"], isGlobal: true, text: "Longest kernel or CUDA graph, in the selected area if there is one", run: (model) => void goToLongestKernel(model) },
  { keys: ["x s"], isGlobal: true, text: "Slowest analyzed step", run: goToSlowestStep },
  {
    keys: ["r"],
    text: "Select the time range of the selected event",
    run: (model) => {
      const place = model.selected.peek();
      if (place) model.area.value = { span: { start: place.start, end: place.end }, rows: null };
    },
  },
  { keys: ["m"], text: "Measure the selection", run: measure },
  { keys: ["b", "Ctrl+m"], text: "Add a bookmark with a note", run: bookmark },
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
  { keys: ["e"], text: "Show or hide the table of the events in view", run: (model) => {
    model.tab.value = model.tab.peek() === "events" ? "summary" : "events";
  } },
  { keys: ["l"], text: "Show or hide the flame graph of the selection", run: (model) => {
    model.tab.value = model.tab.peek() === "flame" ? "summary" : "flame";
  } },
  { keys: ["/"], isGlobal: true, text: "Search (Enter: next match, Shift+Enter: previous match)", run: (model) => {
    model.page.value = "timeline";
    // The next frame may be the first to have the field.
    requestAnimationFrame(() => document.querySelector<HTMLInputElement>("#warpline-search")?.focus());
  } },
  { keys: ["Ctrl+k", "Ctrl+Shift+p"], isGlobal: true, text: "Command palette: commands, rows, tables, findings", run: (model) => {
    model.isPaletteOpen.value = !model.isPaletteOpen.peek();
  } },
  { keys: ["t"], isGlobal: true, text: "Switch between dark and light theme", run: (model) => {
    model.theme.value = model.theme.peek() === "dark" ? "light" : "dark";
  } },
  { keys: ["v"], text: "Of a recording in progress: follow it, or stay with what is shown", run: switchFollowing },
  { keys: ["y"], isGlobal: true, text: "Copy a link to this view", run: (model) => copyLink(model) },
  { keys: ["1", "g o"], isGlobal: true, text: "Overview", run: turn("overview") },
  { keys: ["2", "g t"], isGlobal: true, text: "Timeline", run: turn("timeline") },
  { keys: ["3", "g l"], isGlobal: true, text: "Tables", run: turn("tables") },
  { keys: ["5", "g d"], isGlobal: true, text: "Plots", run: turn("plots") },
  { keys: ["4", "g e"], isGlobal: true, text: "Environment", run: turn("environment") },
  { keys: ["g f"], isGlobal: true, text: "Findings", run: open("findings") },
  { keys: ["g k"], isGlobal: true, text: "Kernels", run: open("kernels") },
  { keys: ["g a"], isGlobal: true, text: "CUDA API calls", run: open("calls") },
  { keys: ["g n"], isGlobal: true, text: "Ranges and layers", run: open("ranges") },
  { keys: ["g p"], isGlobal: true, text: "Operators", run: open("operators") },
  { keys: ["g m"], isGlobal: true, text: "Copies and memory", run: open("memory") },
  { keys: ["g c"], isGlobal: true, text: "Collectives and ranks", run: open("collectives") },
  { keys: ["g s"], isGlobal: true, text: "Steps", run: open("steps") },
  { keys: ["?"], isGlobal: true, text: "Show or hide this help", run: (model) => {
    model.isHelpOpen.value = !model.isHelpOpen.peek();
  } },
  { keys: ["Escape"], isGlobal: true, text: "Close or clear one item: dialog, measurement, selection, highlight, finding", run: clear },
];

export const MOUSE: readonly (readonly [string, string])[] = [
  ["Wheel", "Scroll the rows"],
  ["Ctrl or Cmd + wheel, pinch", "Zoom at the pointer"],
  ["Shift + wheel", "Pan in time"],
  ["Drag", "Select an area (time range and rows)"],
  ["Shift + drag, Space + drag, middle button", "Pan in time"],
  ["Drag on the ruler", "Zoom to that time range"],
  ["Click", "Select an event; of a step, also its time range"],
  ["Double-click", "Zoom to an event"],
  ["Drag the edge of a heading, Shift + ← or → on it", "Resize a column of a table; a double-click resets all"],
];

/** Copies a text to the clipboard and announces the result. */
export function copyText(model: Model, text: string, what: string): void {
  const refused = (): void => {
    model.tell(`The browser blocked copying. ${what}: ${text}`);
  };
  if (!navigator.clipboard) return refused();
  void navigator.clipboard.writeText(text).then(() => model.tell(`${what} copied.`), refused);
}

export function copyLink(model: Model): void {
  const { href } = window.location;
  copyText(model, href.split("#")[0] + formatAddress(model.address()), "Link");
}

/** Returns a key press in the notation of `KEYS`. The Command key of a Mac counts as Ctrl. */
export function chordOf(
  event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "shiftKey" | "altKey">,
): string | null {
  if (event.altKey) return null;
  if (!event.ctrlKey && !event.metaKey) return event.key;
  return `Ctrl+${event.shiftKey ? "Shift+" : ""}${event.key.toLowerCase()}`;
}

const BY_KEY = new Map(KEYS.flatMap((key) => key.keys.map((one) => [one, key] as const)));
const FIRST_OF_TWO = new Set(
  [...BY_KEY.keys()].flatMap((one) => (one.includes(" ") ? [one.split(" ")[0] as string] : [])),
);

/** Whether a key is a single character, which some input devices send by accident (WCAG 2.1.4). */
export function isSingle(keys: string): boolean {
  return keys.length === 1 || keys.includes(" ");
}

function isTyping(target: EventTarget | null): boolean {
  const fields = "input:not([type=checkbox]), textarea, select";
  return target instanceof HTMLElement && target.closest(fields) !== null;
}

/** Returns the shortcut that a key press completes. `model.firstKey` keeps the first key of two. */
export function keyOf(model: Model, chord: string): Key | null {
  const first = model.firstKey.peek();
  const found = (first === null ? undefined : BY_KEY.get(`${first} ${chord}`)) ?? BY_KEY.get(chord);
  const isFirst = first === null && FIRST_OF_TWO.has(chord) && model.hasSingleKeys.peek();
  model.firstKey.value = isFirst ? chord : null;
  if (!found) return null;
  const isOff = isSingle(chord) && !model.hasSingleKeys.peek();
  return isOff || (!found.isGlobal && model.page.peek() !== "timeline") ? null : found;
}

/** Runs the shortcut of a key press. Single keys are ignored while the user types. */
export function onKey(model: Model, event: KeyboardEvent): void {
  const chord = chordOf(event);
  if (chord === null || event.key === "Shift" || event.key === "Control" || event.key === "Meta") return;
  if (model.isPaletteOpen.peek() && !chord.startsWith("Ctrl+")) return;
  if (isTyping(event.target) && !chord.startsWith("Ctrl+")) {
    if (event.key !== "Escape") return;
    event.preventDefault(); // a browser would clear the field
    (event.target as HTMLElement).blur();
    return;
  }
  const target = event.target instanceof HTMLElement ? event.target : null;
  // Focused lists scroll with the arrow keys. Tabs and flame graphs use them to move the focus.
  const isMoving = event.key.startsWith("Arrow") || event.key === "Home";
  if (isMoving && target?.closest(".scroll, .tab-body, nav, [role=tablist], [role=tree], [role=separator]")) return;
  const key = keyOf(model, chord);
  if (!key) return;
  event.preventDefault();
  key.run(model);
}
