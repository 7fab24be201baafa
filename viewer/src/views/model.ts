/** The state of the page and its operations: signals, no elements. */

import { batch, computed, effect, type ReadonlySignal, signal } from "@preact/signals";
import { plainText, searchPattern } from "../base/text";
import { clockText, plural, timeText } from "../base/units";
import { lowerBound, upperBound } from "../base/search";
import type { Found, Linked, RowSums } from "../data/answers";
import type { Head, RowKind, RowSpec, StepsSpec } from "../data/head";
import { matchingNames, shortName } from "../data/names";
import type { Recording } from "../data/recording";
import { StoppedError } from "../data/server";
import type { CommonAxes } from "../engine/counter";
import { type Area, type Arrow, type HitPicture, RULER_HEIGHT, visibleRows } from "../engine/draw";
import { filled, type Layout, layoutRows, rowTree, topOfRow } from "../engine/layout";
import { chooseInks, type ColourMode, type Inks, type ThemeName, THEMES } from "../engine/theme";
import {
  clampSpan,
  fitSpan,
  goneBack,
  goneForward,
  isSameSpan,
  remembered,
  revealSpan,
  type Span,
  type ViewHistory,
} from "../engine/view";
import { follow, type Followed } from "./answer";
import type { LiveState } from "./live";
import { type Address, type Bookmark, formatAddress, type PageName } from "./address";

const HOST: ReadonlySet<RowKind> = new Set(["sample", "range", "op", "api", "os", "mark"]);

/** Links from backward work to the forward operator with its sequence number. */
const FORWARD: ReadonlySet<string> = new Set(["forward", "forward_op"]);

const SETTLE_MS = 120;
const TOLD_MS = 4000;

export type Tab = "summary" | "events" | "kernels" | "ranges" | "idle" | "flame";

/** The names highlighted from a table or a breakdown part, and the rows to search for their events. */
export interface Lighting {
  readonly title: string;
  readonly names: ReadonlySet<number>;
  /** The rows to search; null: all visible rows. */
  readonly rows: readonly number[] | null;
}

/** The number of highlighted events, and which of them is selected, counted from 1; 0: none. */
export interface Matches {
  readonly place: number;
  readonly total: number;
}

/** A run of one row's events: `[first, last)`. */
export interface RowStretch {
  readonly row: number;
  readonly first: number;
  readonly last: number;
}

/** What the times of the page are relative to. */
export interface Clock {
  readonly origin: number;
  /** "step_2", "start of recording". */
  readonly name: string;
  /** The device of the step; "" if there is only one, or for the recording. */
  readonly device: string;
}

/** Sums of the rows of an area, and that area: numbers are never shown without the time range they are of. */
export interface AreaSums {
  readonly area: Area;
  readonly rows: readonly RowSums[];
}

export class Model {
  limits: Span;
  /** The initial view: the time range of the GPU work, once it is known. */
  home: Span;
  private readonly treeOfRows;
  /** Increases as rows arrive, to trigger updates. */
  readonly arrived = signal(0);
  /** Increases as finer tiles arrive. */
  readonly refined = signal(0);
  readonly isComplete = signal(false);
  /** The message about a pending computation, and whether it has finished. */
  readonly pending = signal<{ readonly text: string; readonly isReady: boolean } | null>(null);
  readonly failure = signal<string | null>(null);
  /** Whether the server of the page has stopped. */
  readonly isServerGone = signal(false);
  /** The numbers of a recording in progress; null: it is finished. */
  readonly live = signal<LiveState | null>(null);
  readonly page = signal<PageName>("timeline");
  readonly theme = signal<ThemeName>("dark");
  readonly mode = signal<ColourMode>("category");
  readonly view;
  readonly history = signal<ViewHistory>({ past: [], future: [] });
  readonly collapsed;
  readonly hidden;
  readonly pinned = signal<readonly string[]>([]);
  readonly area = signal<Area | null>(null);
  readonly measure = signal<Span | null>(null);
  readonly selected = signal<Found | null>(null);
  readonly hovered = signal<Found | null>(null);
  /** The position of the mouse over the rows, in pixels of the drawing area. */
  readonly pointed = signal<{ readonly x: number; readonly y: number } | null>(null);
  /** Whether the mouse is selecting an area: then the tables follow it. */
  readonly isDragging = signal(false);
  readonly finding = signal<string | null>(null);
  readonly query = signal("");
  readonly lighting = signal<Lighting | null>(null);
  readonly bookmarks = signal<readonly Bookmark[]>([]);
  readonly table = signal<string | null>(null);
  readonly scrollTop = signal(0);
  readonly size = signal({ width: 800, height: 400 });
  /** The fraction of the page's height that the statistics take. */
  readonly panelPart = signal(0.4);
  /** Whether times are relative to the step in view, if there is one. */
  readonly isFromStep = signal(true);
  /** The step that another timeline, which this one follows, is aligned by; -1: none. */
  readonly twinStep = signal(-1);
  /** The upper ends of axes that another timeline, beside this one, has in common with it. */
  readonly axes = signal<CommonAxes>(new Map());
  readonly isHelpOpen = signal(false);
  readonly isPaletteOpen = signal(false);
  /** Whether single-key shortcuts are enabled; some input devices trigger them by accident. */
  readonly hasSingleKeys = signal(true);
  /** The first key of two, after it is pressed. */
  readonly firstKey = signal<string | null>(null);
  readonly tab = signal<Tab>("summary");
  /** The text for screen readers; the text of `told` is also shown for a few seconds. */
  readonly said = signal("");
  readonly told = signal("");
  /** The description of the focused column heading. */
  readonly hint = signal("");
  /** The time of the bookmark being edited. */
  readonly noting = signal<number | null>(null);

  /** The rows on the screen; `layout` has them with the heights that they are drawn with. */
  readonly rowsShown: ReadonlySignal<Layout>;
  readonly layout: ReadonlySignal<Layout>;
  readonly lit: ReadonlySignal<Uint8Array | null>;
  readonly inks: ReadonlySignal<Inks>;
  readonly arrows: ReadonlySignal<readonly Arrow[]>;
  /** The area for the tables, updated once the view is still, and now and then during a drag: sums take a while. */
  readonly settled: ReadonlySignal<Area>;
  readonly stretches: Followed<readonly RowStretch[]>;
  /** Sums of the selected area, otherwise of the current view, row by row. */
  readonly sums: Followed<AreaSums>;
  /** Whether `sums` are of another area or of a part of the events. */
  readonly isSumming: ReadonlySignal<boolean>;
  /** The highlighted events in view that are too short to be drawn one by one; null without a highlight. */
  readonly hits: Followed<HitPicture | null>;
  /** How many events are highlighted, and the number of the selected one among them, 0 if it is none of them. */
  readonly matches: Followed<Matches | null>;
  /** The events linked to the selected event. */
  readonly linked: Followed<readonly Linked[]>;
  /** The ranges that enclose the selected event, outermost first. */
  readonly around: Followed<readonly Found[]>;
  /** The ranges and operators whose backward pass the selected event belongs to, outermost first. */
  readonly forwardPath: Followed<readonly Found[]>;
  /** The step of the selected event on its GPU, otherwise on the CPU. */
  readonly stepOfSelected: Followed<Found | null>;
  private walking: Promise<void> = Promise.resolve();
  /** The step that J or K showed last, and the view of it. */
  private walked: { readonly step: number; readonly view: Span } | null = null;
  /** The step in the middle of the view, or -1. */
  readonly step: ReadonlySignal<number>;
  /** The one clock of the page: that of the ruler. */
  readonly clock: ReadonlySignal<Clock>;

  constructor(readonly recording: Recording) {
    const { head } = recording;
    this.limits = limitsOf(head);
    this.home = this.limits;
    this.treeOfRows = computed(() => rowTree(recording.head.rows));
    this.view = signal<Span>(this.limits);
    const ids = (wanted: (row: RowSpec) => boolean): ReadonlySet<string> =>
      new Set(head.rows.filter(wanted).map((row) => row.id));
    this.collapsed = signal(ids((row) => row.collapsed === true));
    this.hidden = signal(ids((row) => row.hidden === true));
    this.rowsShown = computed(() =>
      layoutRows(this.tree, {
        collapsed: this.collapsed.value,
        hidden: this.hidden.value,
        pinned: [...new Set([...this.pinned.value, ...this.rowsOfFinding()])],
      }),
    );
    this.layout = computed(() => filled(this.rowsShown.value, this.size.value.height - RULER_HEIGHT));
    this.lit = computed(() => this.findLit());
    const names = computed(() => {
      void this.arrived.value;
      return recording.names;
    });
    this.inks = computed(() =>
      chooseInks(names.value, head.categories, {
        theme: THEMES[this.theme.value],
        mode: this.mode.value,
        lit: this.lit.value,
      }),
    );
    this.linked = follow<readonly Linked[]>([], () => {
      void this.arrived.value;
      return this.selected.value ? recording.answers.links(this.selected.value) : [];
    });
    this.around = follow<readonly Found[]>([], () => {
      void this.arrived.value;
      return this.selected.value ? this.rangesAround(this.selected.value, this.linked.value) : [];
    });
    this.forwardPath = follow<readonly Found[]>([], () => {
      void this.arrived.value;
      return this.selected.value ? this.forwardOf([...this.around.value, this.selected.value]) : [];
    });
    this.stepOfSelected = follow<Found | null>(null, () => {
      void this.arrived.value;
      return this.selected.value && this.stepAt(this.selected.value);
    });
    this.arrows = computed(() => {
      const event = this.selected.value;
      return event ? arrowsOf(event, this.linksOfSelected()) : [];
    });
    effect(() => {
      const event = this.selected.value;
      const own = this.linksOfSelected().filter((one) => event?.links[one.link] === one.event.tableRow);
      if (event && own.length) this.said.value = this.sentence(event, own);
    });
    this.settled = this.watchArea();
    this.step = computed(() => this.stepInView());
    this.clock = computed(() => this.clockOfView());
    this.stretches = follow<readonly RowStretch[]>([], () => this.stretchesIn(this.settled.value));
    this.hits = follow<HitPicture | null>(null, () => this.hitsInView());
    this.matches = follow<Matches | null>(null, () => this.countMatches());
    this.sums = follow<AreaSums>({ area: this.settled.peek(), rows: [] }, () => {
      // Sums of the page's own events are fast enough for each frame; a server is asked once the view is still.
      const area = head.tiles ? this.settled.value : this.area.value ?? this.wholeView();
      return this.sumsOf(area).then((rows) => ({ area, rows }));
    });
    this.isSumming = computed(() => {
      const { area, view, sums, isComplete } = this;
      const [wanted, known] = [area.value?.span ?? view.value, sums.value.area.span];
      return !isComplete.value || sums.isPending.value || !isSameSpan(wanted, known);
    });
  }

  /** The rows and their groups. */
  get tree() {
    return this.treeOfRows.value;
  }

  /** Returns the links of the selected event; none until they have arrived. */
  linksOfSelected(): readonly Linked[] {
    return this.linked.isPending.value ? [] : this.linked.value;
  }

  private wholeView(): Area {
    return { span: this.view.value, rows: null };
  }

  private watchArea(): ReadonlySignal<Area> {
    const now = (): Area => this.area.value ?? this.wholeView();
    const settled = signal(now());
    let timer: ReturnType<typeof setTimeout> | undefined;
    effect(() => {
      void now();
      if (this.isDragging.value && timer !== undefined) return;
      clearTimeout(timer);
      timer = setTimeout(() => {
        timer = undefined;
        settled.value = now();
      }, SETTLE_MS);
    });
    return settled;
  }

  // -- names and rows ------------------------------------------------------------------------

  /** Returns the name of an event as the page shows it: short for kernels. */
  nameOf({ name }: { readonly name: number }): string {
    return shortName(this.recording.names, name);
  }

  fullNameOf({ name }: { readonly name: number }): string {
    return this.recording.names.texts[name] ?? "";
  }

  /** Returns the label of a row after those of its groups: "GPU 0 · stream 7". */
  labelOf(row: number): string {
    const spec = this.recording.head.rows[row];
    if (!spec) return "";
    const above = this.tree.parent[row];
    return above >= 0 ? `${this.labelOf(above)} · ${spec.label}` : spec.label;
  }

  /** Returns the label of a row before those of its groups, for places that may truncate it. */
  labelApart(row: number): string {
    const spec = this.recording.head.rows[row];
    if (!spec) return "";
    const above = this.tree.parent[row];
    return above >= 0 ? `${spec.label} · ${this.labelApart(above)}` : spec.label;
  }

  private findLit(): Uint8Array | null {
    void this.arrived.value;
    const pattern = searchPattern(this.query.value);
    const chosen = this.lighting.value?.names;
    if (!pattern && !chosen) return null;
    const { names } = this.recording;
    const found = pattern ? matchingNames(names, pattern) : new Uint8Array(names.texts.length).fill(1);
    return chosen ? found.map((one, name) => (chosen.has(name) ? one : 0)) : found;
  }

  /** Highlights the events of some names and ends a search. */
  light(names: Iterable<number>, title = "", rows: readonly number[] | null = null): void {
    const chosen = new Set(names);
    const only = chosen.size === 1 ? [...chosen][0] : undefined;
    const said = title || (only === undefined ? plural(chosen.size, "name") : this.nameOf({ name: only }));
    batch(() => {
      this.query.value = "";
      this.lighting.value = { title: said, names: chosen, rows };
    });
  }

  /** Highlights one category of a GPU's busy or idle time and shows its first interval. */
  showPart(device: number, category: string): void {
    const { head, names } = this.recording;
    const place = head.categories.findIndex((one) => one.name === category);
    const chosen = names.categories.flatMap((own, name) => (own === place ? [name] : []));
    const rows = head.rows.flatMap((row, at) => (row.kind === "state" && row.device === device ? [at] : []));
    batch(() => {
      this.page.value = "timeline";
      const [first] = rows;
      if (first !== undefined) this.uncover(first);
      this.light(chosen, category, rows.length ? rows : null);
      this.mode.value = head.categories[place]?.kind === "idle" ? "cause" : "category";
      this.selected.value = null;
    });
    void this.stepMatch(1);
  }

  /** Shows an error until the next call; null: none. The banner about a stopped server is another. */
  fail(error: Error | null): void {
    this.failure.value = error === null || error instanceof StoppedError ? null : error.message;
  }

  /** Announces the error of failed work, for example that the server has stopped. */
  attempt(work: Promise<unknown>): void {
    work.catch((error: unknown) => this.tell((error as Error).message));
  }

  /** Whether an action cannot be done because the server, which has the events, has stopped. */
  get isCutOff(): boolean {
    return this.isServerGone.value && this.recording.head.tiles != null;
  }

  /** Shows a message, also to screen readers. */
  tell(text: string): void {
    batch(() => {
      this.told.value = text;
      this.said.value = text;
    });
    setTimeout(() => {
      if (this.told.peek() === text) this.told.value = "";
    }, TOLD_MS);
  }

  /** Searches names and ends a highlight from a table. */
  search(typed: string): void {
    batch(() => {
      this.lighting.value = null;
      this.query.value = typed;
    });
  }

  // -- moving --------------------------------------------------------------------------------

  /** Shows a span; `keep`: add the previous view to the history. */
  show(span: Span, keep = true): void {
    batch(() => {
      if (keep) this.history.value = remembered(this.history.value, this.view.value);
      this.view.value = clampSpan(span, this.limits);
    });
  }

  back(): void {
    const [history, view] = goneBack(this.history.value, this.view.value);
    batch(() => {
      this.history.value = history;
      this.view.value = view;
    });
  }

  forward(): void {
    const [history, view] = goneForward(this.history.value, this.view.value);
    batch(() => {
      this.history.value = history;
      this.view.value = view;
    });
  }

  /** Shows the time range of the GPU work, unless the user has already moved the view. */
  goHome(): void {
    const isUnmoved = this.view.peek() === this.home;
    this.home = workSpan(this.recording) ?? this.limits;
    if (isUnmoved) this.view.value = this.home;
  }

  /** Whether the view is the initial one, and nothing is selected. */
  get isUntouched(): boolean {
    const isFree = !this.selected.value && !this.area.value && !this.measure.value && !this.isDragging.value;
    return isFree && isSameSpan(this.view.value, this.home);
  }

  /** Shows the later picture that the recording in progress has taken over. */
  takeLater(known: ReadonlySet<string>): void {
    const { head } = this.recording;
    const added = head.rows.filter(({ id }) => !known.has(id));
    const more = (ids: ReadonlySet<string>, wanted: (row: RowSpec) => boolean): ReadonlySet<string> =>
      new Set([...ids, ...added.filter(wanted).map(({ id }) => id)]);
    batch(() => {
      this.limits = this.home = this.view.value = limitsOf(head);
      this.collapsed.value = more(this.collapsed.value, (row) => row.collapsed === true);
      this.hidden.value = more(this.hidden.value, (row) => row.hidden === true);
      this.hovered.value = null;
      this.lighting.value = null;
      this.history.value = { past: [], future: [] };
      this.arrived.value++;
    });
  }

  /** Follows a recording in progress again. */
  followAgain(): void {
    const { value } = this.live;
    if (!value) return;
    batch(() => {
      this.selected.value = this.area.value = this.measure.value = null;
      this.view.value = this.home;
      this.live.value = { ...value, isFollowing: true };
    });
  }

  /** Centers the view on a time without changing the scale. */
  centreOn(time: number): void {
    const { start, end } = this.view.value;
    const half = (end - start) / 2;
    batch(() => {
      this.page.value = "timeline";
      this.show({ start: time - half, end: time + half });
    });
  }

  /** Zooms to the selected area, otherwise to the selected event. */
  fit(): void {
    const span = this.area.value?.span ?? this.selected.value;
    if (span) this.show(fitSpan(span, this.limits));
  }

  /** Zooms to the GPU work, from the first operation to the last. */
  async fitWork(): Promise<void> {
    const { answers, head } = this.recording;
    const rows = head.rows.flatMap((row, at) => (row.kind === "stream" && row.count > 0 ? [at] : []));
    const first = await Promise.all(rows.map((row) => answers.event(row, 0)));
    const last = await answers.latest(rows, this.limits.end);
    const start = Math.min(...first.flatMap((one) => one?.start ?? []));
    const end = Math.max(...last.flatMap((one) => one?.end ?? []));
    if (end > start) this.show(fitSpan({ start, end }, this.limits, 0.02));
    else this.tell("No GPU work was recorded.");
  }

  /** Shows a row: expands the groups above it and scrolls to it. */
  goToRow(row: number): void {
    batch(() => {
      this.page.value = "timeline";
      this.uncover(row);
      this.said.value = this.labelOf(row);
    });
  }

  // -- selecting -----------------------------------------------------------------------------

  select(event: Found | null, reveal = false): void {
    batch(() => {
      this.selected.value = event;
      if (!event) return;
      if (reveal) {
        const view = this.view.value;
        const next = revealSpan(view, event, this.limits);
        if (next !== view) this.show(next);
        this.uncover(event.row);
      }
      this.said.value = this.sentence(event, []);
    });
  }

  /** Describes an event: "gemm, GPU 0 · stream 7, 41.3 us, launched by …, 38.0 us earlier". */
  private sentence(event: Found, links: readonly Linked[]): string {
    const said = [plainText(this.nameOf(event)).slice(0, 200), this.labelOf(event.row)];
    said.push(timeText(event.end - event.start));
    const cause = links.find((one) => one.isCause);
    if (cause) {
      const wait = event.start - cause.event.start;
      said.push(`${cause.text} ${plainText(this.nameOf(cause.event)).slice(0, 80)}`);
      said.push(`${timeText(Math.abs(wait))} ${wait >= 0 ? "earlier" : "later"}`);
    }
    return said.join(", ");
  }

  /** Selects an event by its id and zooms to it; returns whether it exists. */
  async selectId(id: string): Promise<boolean> {
    const event = await this.recording.answers.find(id);
    if (!event) return false;
    this.select(event, true);
    if (event.end - event.start < (this.view.value.end - this.view.value.start) / 400) {
      this.show(fitSpan(event, this.limits, 12));
    }
    return true;
  }

  /** Expands the groups above a row, unhides it, and scrolls to it. */
  uncover(row: number): void {
    const above: string[] = [];
    for (let at = this.tree.parent[row]; at >= 0; at = this.tree.parent[at]) {
      above.push(this.recording.head.rows[at]?.id ?? "");
    }
    const own = this.recording.head.rows[row]?.id ?? "";
    const without = (from: ReadonlySet<string>, ids: string[]): ReadonlySet<string> =>
      ids.some((id) => from.has(id)) ? new Set([...from].filter((id) => !ids.includes(id))) : from;
    this.collapsed.value = without(this.collapsed.value, above);
    this.hidden.value = without(this.hidden.value, [...above, own]);
    const layout = this.layout.value;
    const placed = topOfRow(layout, row, this.scrollTop.value);
    if (!placed || layout.pinned.some((one) => one.row === row)) return;
    const room = this.size.value.height - RULER_HEIGHT;
    if (placed.y < layout.pinnedHeight || placed.y + placed.height > room) {
      const y = placed.y + this.scrollTop.value - layout.pinnedHeight;
      this.scrollTop.value = Math.max(0, y - (room - layout.pinnedHeight) / 2);
    }
  }

  /** Selects the next (1) or previous (-1) event of the selected row. */
  stepEvent(direction: 1 | -1): Promise<void> {
    return this.walk(async (now) => {
      if (!now) return this.firstInView();
      return this.recording.answers.event(now.row, now.event + direction);
    });
  }

  /** Selects the nearest event in time of the row above (-1) or below (1). */
  stepRow(direction: 1 | -1): Promise<void> {
    return this.walk(async (now) => {
      if (!now) return this.firstInView();
      const { answers, head } = this.recording;
      const shown = [...this.rowsShown.value.pinned, ...this.rowsShown.value.scrolled].map((one) => one.row);
      const beyond = direction > 0 ? shown.slice(shown.indexOf(now.row) + 1) : shown.slice(0, shown.indexOf(now.row)).reverse();
      const row = beyond.find((one) => {
        const spec = head.rows[one];
        return spec && spec.count > 0 && spec.kind !== "counter" && !this.recording.rows[one]?.error;
      });
      if (row === undefined) return null;
      const [before] = await answers.latest([row], now.start);
      return before ?? answers.event(row, 0);
    });
  }

  private async firstInView(): Promise<Found | null> {
    const [first] = await this.stretchesIn(this.settled.value);
    return first ? this.recording.answers.event(first.row, first.first) : null;
  }

  /** Selects the next (1) or previous (-1) highlighted event in time, over all visible rows. */
  stepMatch(direction: 1 | -1): Promise<void> {
    return this.walk(async (now) => {
      const lit = this.lit.value;
      if (!lit) return null;
      const from = now
        ? { row: now.row, event: now.event, time: now.start }
        : { row: -1, event: -1, time: direction > 0 ? this.view.value.start : this.view.value.end };
      const next = await this.recording.answers.match({ lit, rows: this.searchedRows(), from, direction });
      if (!next) this.tell(direction > 0 ? "No later highlighted event." : "No earlier highlighted event.");
      return next;
    });
  }

  /** Returns the rows whose highlighted events are counted and walked. A phase repeats a range of the CPU. */
  private searchedRows(): readonly number[] {
    const { scrolled, pinned } = this.rowsShown.value;
    const { rows } = this.recording.head;
    const shown = [...scrolled, ...pinned].map((one) => one.row);
    return this.lighting.value?.rows ?? shown.filter((row) => rows[row]?.kind !== "phase");
  }

  private async countMatches(): Promise<Matches | null> {
    const [lit, selected] = [this.lit.value, this.selected.value];
    const rows = this.searchedRows();
    if (!lit) return null;
    const from = selected ? { ...selected, time: selected.start } : { row: -1, event: -1, time: this.limits.start };
    const { before, total } = await this.recording.answers.tally({ lit, rows, from });
    const isAmong = selected !== null && lit[selected.name] === 1 && rows.includes(selected.row);
    return { place: isAmong ? before + 1 : 0, total };
  }

  private async hitsInView(): Promise<HitPicture | null> {
    void this.arrived.value;
    const [lit, span, { width, height }] = [this.lit.value, this.view.value, this.size.value];
    const { pinned, scrolled } = visibleRows({ layout: this.layout.value, scrollTop: this.scrollTop.value, height });
    const rows = [...pinned, ...scrolled].flatMap(({ placed }) => placed.shows ?? []);
    if (!lit) return null;
    const bins = Math.max(1, Math.ceil(width));
    const found = await this.recording.answers.hits({ lit, rows: [...new Set(rows)] }, span, bins);
    return { span, bins, byRow: new Map(found.map((one) => [one.row, one])) };
  }

  /** Selects the event that `step` returns. Calls are queued. */
  private walk(step: (now: Found | null) => Promise<Found | null>): Promise<void> {
    const go = async (): Promise<void> => {
      const next = await step(this.selected.value);
      if (next) this.select(next, true);
    };
    this.walking = this.walking.then(go).catch((error: unknown) => this.tell((error as Error).message));
    return this.walking;
  }

  // -- links ---------------------------------------------------------------------------------

  followLink(towardsCause: boolean): Promise<void> {
    return this.walk(async (now) => {
      const links = now ? await this.recording.answers.links(now) : [];
      return links.find((one) => one.isCause === towardsCause)?.event ?? null;
    });
  }

  /** Returns the ranges and operators that enclose an event or its launch on the thread, outermost first. */
  async rangesAround(event: Found, links: readonly Linked[]): Promise<readonly Found[]> {
    const { rows } = this.recording.head;
    const launch = links.find((one) => one.isCause)?.event;
    const inner = HOST.has(rows[event.row]?.kind ?? "group") ? event : launch;
    const spec = inner && rows[inner.row];
    if (!inner || !spec || !HOST.has(spec.kind) || spec.thread === null || spec.thread === undefined) return [];
    const operators = this.recording.head.tables.indexOf("op");
    const lanes = rows.flatMap((row, at) => {
      const isAround = row.kind === "range" || (row.table ?? -1) === operators;
      return isAround && row.thread === spec.thread && at !== inner.row ? [at] : [];
    });
    const latest = await this.recording.answers.latest(lanes, inner.start);
    const around = latest.flatMap((one) => (one && one.end >= inner.end ? [one] : []));
    return around.sort((a, b) => a.start - b.start || b.end - a.end);
  }

  /** Returns what surrounds the forward operator of the innermost of some nested events that has one. */
  private async forwardOf(nested: readonly Found[]): Promise<readonly Found[]> {
    const links = this.recording.head.links.filter((link) => FORWARD.has(link.name));
    for (const event of [...nested].reverse()) {
      for (const { name, table } of links) {
        const row = event.links[name];
        const forward = row === undefined ? null : await this.recording.answers.find(`${table}:${row}`);
        if (forward) return [...(await this.rangesAround(forward, [])), forward];
      }
    }
    return [];
  }

  /** Returns the step at the start of an event, in the rows of steps of its groups. */
  private async stepAt(event: Found): Promise<Found | null> {
    const groups = new Set<number>();
    for (let at = this.tree.parent[event.row] ?? -1; at >= 0; at = this.tree.parent[at]) groups.add(at);
    const lanes = this.recording.head.rows.flatMap((row, at) =>
      row.kind === "step" && groups.has(this.tree.parent[at]) ? [at] : [],
    );
    const latest = await this.recording.answers.latest(lanes, event.start);
    return latest.find((step) => step && event.start < step.end) ?? null;
  }

  // -- steps and findings --------------------------------------------------------------------

  stepStep(direction: 1 | -1): void {
    const steps = this.recording.head.steps[0];
    if (!steps?.start_ns.length) return;
    const wanted = this.stepAfter(steps, direction);
    const at = Math.max(0, Math.min(steps.start_ns.length - 1, wanted));
    this.show(fitSpan({ start: steps.start_ns[at] as number, end: steps.end_ns[at] as number }, this.limits, 0.04));
    this.walked = { step: at, view: this.view.value };
    this.said.value = this.nameOfStep(at);
  }

  /** Returns the next or previous step; in a view of several, the first of them. */
  private stepAfter({ start_ns, end_ns }: StepsSpec, direction: 1 | -1): number {
    const view = this.view.value;
    if (this.walked?.view === view) return this.walked.step + direction;
    const first = lowerBound(start_ns, view.start);
    const hasSeveral = (end_ns[first + 1] ?? Number.POSITIVE_INFINITY) <= view.end;
    const middle = (view.start + view.end) / 2;
    const now = upperBound(start_ns, middle) - 1;
    if (hasSeveral) return first;
    if (now >= 0 && middle < (end_ns[now] ?? 0)) return now + direction;
    return direction > 0 ? now + 1 : now;
  }

  /** Returns the index of the step in the middle of the view, or -1. */
  stepInView(): number {
    const steps = this.recording.head.steps[0];
    if (!steps) return -1;
    const middle = (this.view.value.start + this.view.value.end) / 2;
    const now = upperBound(steps.start_ns, middle) - 1;
    return now >= 0 && middle < (steps.end_ns[now] ?? 0) ? now : -1;
  }

  /** Returns the step that times are relative to; -1 if the view has several steps or the option is off. */
  anchorStep(): number {
    if (!this.isFromStep.value) return -1;
    const steps = this.recording.head.steps[0];
    if (this.twinStep.value >= 0) return this.twinStep.value;
    const step = this.stepInView();
    if (!steps || step < 0) return -1;
    const length = (steps.end_ns[step] ?? 0) - (steps.start_ns[step] ?? 0);
    return this.view.value.end - this.view.value.start <= 3 * length ? step : -1;
  }

  /** Returns the clock for the view: from its step, otherwise from time 0, as in the tables and on the command line. */
  private clockOfView(): Clock {
    const [steps, ...others] = this.recording.head.steps;
    const step = this.anchorStep();
    const origin = steps?.start_ns[step];
    if (!steps || origin === undefined) return { origin: 0, name: "start of recording", device: "" };
    return { origin, name: plainText(this.nameOfStep(step)).slice(0, 30), device: others.length ? plainText(steps.label) : "" };
  }

  /** Returns the name of a step, which is numbered as on the command line: from 0. */
  nameOfStep(step: number): string {
    const text = this.recording.head.steps[0]?.text[step] ?? String(step);
    return /^\d+$/.test(text) ? `step ${text}` : text;
  }

  /** Formats a time of the page's clock, with digits for the view: 100,000 times differ. */
  momentText(time: number): string {
    const { origin } = this.clock.value;
    const { start, end } = this.view.value;
    const size = Math.max(Math.abs(start - origin), Math.abs(end - origin));
    return clockText(time - origin, (end - start) / DISTINCT, Math.max(size, Math.abs(time - origin)));
  }

  /** Shows a finding: its windows, rows, and colors. */
  showFinding(id: string | null, windowPlace = 0): void {
    batch(() => {
      this.finding.value = id;
      const focus = this.recording.head.findings.find((one) => one.id === id);
      if (!focus) return;
      this.page.value = "timeline";
      if (focus.colour) this.mode.value = focus.colour;
      for (const rowId of focus.rows) {
        const row = this.recording.rowOf.get(rowId);
        if (row !== undefined) this.uncover(row);
      }
      const window = focus.windows_ns[windowPlace];
      if (window) this.show(fitSpan({ start: window[0], end: window[1] }, this.limits, 0.6));
      const event = focus.events[0];
      if (event) {
        const found = this.recording.answers.find(event);
        this.attempt(found.then((one) => this.finding.value === id && this.select(one, !window)));
      }
    });
  }

  /** Returns the rows of the selected finding, which stay pinned while it is shown. */
  private rowsOfFinding(): readonly string[] {
    const focus = this.recording.head.findings.find((one) => one.id === this.finding.value);
    return (focus?.rows ?? []).filter((id) => this.recording.rowOf.has(id)).slice(0, MOST_FINDING_ROWS);
  }

  stepFinding(direction: 1 | -1): void {
    const all = (this.recording.head.summary.findings ?? []).map((one) => one.id);
    if (!all.length) return;
    const now = this.finding.value === null ? -1 : all.indexOf(this.finding.value);
    const next = now < 0 ? (direction > 0 ? 0 : all.length - 1) : (now + direction + all.length) % all.length;
    this.showFinding(all[next] ?? null);
  }

  // -- rows ----------------------------------------------------------------------------------

  toggle(kind: "collapsed" | "hidden", id: string): void {
    const next = new Set(this[kind].value);
    if (!next.delete(id)) next.add(id);
    this[kind].value = next;
  }

  togglePin(id: string): void {
    const now = this.pinned.value;
    this.pinned.value = now.includes(id) ? now.filter((one) => one !== id) : [...now, id];
  }

  /** Returns the outermost group of a row: a GPU or a process. */
  topOf(row: number): number {
    const above = this.tree.parent[row] ?? -1;
    return above >= 0 ? this.topOf(above) : row;
  }

  /** Returns the rows for the statistics of an area. */
  rowsOfArea(area: Area): number[] {
    const shown = [...this.rowsShown.value.pinned, ...this.rowsShown.value.scrolled].map((one) => one.row);
    return shown.filter((row) => area.rows === null || area.rows.has(row));
  }

  /** Returns the sums of the rows of an area. */
  sumsOf(area: Area): Promise<readonly RowSums[]> {
    void this.arrived.value;
    return this.recording.answers.sums(this.rowsOfArea(area), area.span);
  }

  private async stretchesIn(area: Area): Promise<readonly RowStretch[]> {
    return (await this.sumsOf(area)).filter(({ first, last }) => last > first);
  }

  // -- addresses -----------------------------------------------------------------------------

  address(): Address {
    const { head } = this.recording;
    const byDefault = new Set(head.rows.filter((row) => row.hidden).map((row) => row.id));
    const view = this.view.value;
    const isHome = view.start === this.home.start && view.end === this.home.end;
    const selected = this.selected.value;
    return {
      page: this.page.value,
      view: isHome ? null : view,
      selected: selected?.id ?? null,
      area: this.area.value?.span ?? null,
      pinned: this.pinned.value,
      hidden: [...this.hidden.value].filter((id) => !byDefault.has(id)),
      finding: this.finding.value,
      colour: this.mode.value,
      query: this.query.value,
      table: this.page.value === "tables" ? this.table.value : null,
      bookmarks: this.bookmarks.value,
    };
  }

  addressText(): string {
    return formatAddress(this.address());
  }

  /** Restores the state of an address; the event is selected once its row has arrived. */
  go(address: Address): void {
    const known = (id: string): boolean => this.recording.rowOf.has(id);
    batch(() => {
      this.page.value = address.page;
      this.view.value = address.view ? clampSpan(address.view, this.limits) : this.home;
      this.area.value = address.area && { span: clampSpan(address.area, this.limits), rows: null };
      this.pinned.value = address.pinned.filter(known);
      this.hidden.value = new Set([...this.hidden.value, ...address.hidden.filter(known)]);
      this.finding.value = address.finding;
      this.mode.value = address.colour;
      this.query.value = address.query;
      this.bookmarks.value = address.bookmarks;
      if (address.table) this.table.value = address.table;
      if (address.selected) this.attempt(this.selectArrived(address.selected));
      else this.selected.value = null;
    });
  }

  /** Selects the event of an address without moving the view; returns whether it has arrived. */
  async selectArrived(id: string): Promise<boolean> {
    const event = await this.recording.answers.find(id);
    if (!event) return false;
    this.select(event);
    this.uncover(event.row);
    return true;
  }
}

/** Returns the time range that the page can show. */
function limitsOf(head: Head): Span {
  const { start_ns, end_ns } = head.live ?? head;
  return { start: start_ns, end: Math.max(end_ns, start_ns + 20) };
}

/** Returns the time range of the GPU work according to the overview, or null. */
function workSpan({ head, overview }: Recording): Span | null {
  if (!overview) return null;
  const { bins, coverage } = overview;
  let [first, last] = [bins, -1];
  head.rows.forEach((row, at) => {
    if (row.kind !== "stream") return;
    const own = coverage.subarray(at * bins, (at + 1) * bins);
    const begin = own.findIndex((part) => part > 0);
    if (begin < 0) return;
    first = Math.min(first, begin);
    last = Math.max(last, own.findLastIndex((part) => part > 0));
  });
  if (last < first) return null;
  const bin = (head.end_ns - head.start_ns) / bins;
  const work = { start: head.start_ns + first * bin, end: head.start_ns + (last + 1) * bin };
  const limits = { start: head.start_ns, end: head.end_ns };
  return work.end - work.start >= LEAST_WORK * (limits.end - limits.start) ? null : fitSpan(work, limits, 0.03);
}

/** If GPU work covers this fraction of the recording, the whole recording is shown. */
const LEAST_WORK = 0.9;
const DISTINCT = 100_000; // times in a view with different texts
const MOST_ARROWS = 64;
const MOST_FINDING_ROWS = 4;

function arrowsOf(event: Found, links: readonly Linked[]): Arrow[] {
  return links.slice(0, MOST_ARROWS).map((link) => ({
    from: link.isCause ? link.event : event,
    to: link.isCause ? event : link.event,
    isQueue: link.link === "launch",
  }));
}
