/** The state of the page and what can be done with it: signals, no elements. */

import { batch, computed, effect, type ReadonlySignal, signal } from "@preact/signals";
import { searchPattern } from "../base/text";
import { upperBound } from "../base/search";
import { endOf, type Events } from "../data/events";
import type { RowKind, RowSpec } from "../data/head";
import type { Place, Recording } from "../data/recording";
import type { Area, Arrow } from "../engine/draw";
import { type Layout, layoutRows, rowTree, topOfRow } from "../engine/layout";
import { eventsIn } from "../engine/lod";
import { chooseInks, type ColourMode, type Inks, type ThemeName, THEMES } from "../engine/theme";
import {
  clampSpan,
  fitSpan,
  goneBack,
  goneForward,
  remembered,
  revealSpan,
  type Span,
  type ViewHistory,
} from "../engine/view";
import { type Address, type Bookmark, formatAddress, type PageName } from "./address";

const HOST: ReadonlySet<RowKind> = new Set(["range", "op", "api", "os", "mark"]);

const SETTLE_MS = 120;

/** A stretch of one row's events: `[first, last)`. */
export interface RowStretch {
  readonly row: number;
  readonly first: number;
  readonly last: number;
}

export class Model {
  readonly limits: Span;
  readonly tree;
  /** Grows as rows arrive, so that what shows them is done again. */
  readonly arrived = signal(0);
  readonly isComplete = signal(false);
  readonly failure = signal<string | null>(null);
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
  readonly selected = signal<Place | null>(null);
  readonly hovered = signal<Place | null>(null);
  readonly finding = signal<string | null>(null);
  readonly query = signal("");
  readonly litNames = signal<ReadonlySet<number> | null>(null);
  readonly bookmarks = signal<readonly Bookmark[]>([]);
  readonly table = signal<string | null>(null);
  readonly scrollTop = signal(0);
  readonly size = signal({ width: 800, height: 400 });
  readonly isHelpOpen = signal(false);
  readonly tab = signal<"summary" | "events">("summary");
  readonly said = signal("");
  /** The time that a bookmark is being written for. */
  readonly noting = signal<number | null>(null);

  readonly layout: ReadonlySignal<Layout>;
  readonly lit: ReadonlySignal<Uint8Array | null>;
  readonly inks: ReadonlySignal<Inks>;
  readonly arrows: ReadonlySignal<readonly Arrow[]>;
  /** The area that tables are about, once the view rests: sums over all events take a while. */
  readonly settled: ReadonlySignal<Area>;
  readonly stretches: ReadonlySignal<readonly RowStretch[]>;
  /** The step in the middle of the view, or -1. */
  readonly step: ReadonlySignal<number>;

  constructor(readonly recording: Recording) {
    const { head } = recording;
    this.limits = { start: head.start_ns, end: Math.max(head.end_ns, head.start_ns + 20) };
    this.tree = rowTree(head.rows);
    this.view = signal<Span>(this.limits);
    const ids = (wanted: (row: RowSpec) => boolean): ReadonlySet<string> =>
      new Set(head.rows.filter(wanted).map((row) => row.id));
    this.collapsed = signal(ids((row) => row.collapsed === true));
    this.hidden = signal(ids((row) => row.hidden === true));
    this.layout = computed(() =>
      layoutRows(this.tree, {
        collapsed: this.collapsed.value,
        hidden: this.hidden.value,
        pinned: this.pinned.value,
      }),
    );
    this.lit = computed(() => this.findLit());
    this.inks = computed(() => {
      void this.arrived.value;
      return chooseInks(recording.names, head.categories, {
        theme: THEMES[this.theme.value],
        mode: this.mode.value,
        lit: this.lit.value,
      });
    });
    this.arrows = computed(() => {
      void this.arrived.value;
      return this.selected.value ? this.arrowsOf(this.selected.value) : [];
    });
    this.settled = this.watchArea();
    this.step = computed(() => this.stepInView());
    this.stretches = computed(() => {
      void this.arrived.value;
      return this.stretchesIn(this.settled.value);
    });
  }

  private watchArea(): ReadonlySignal<Area> {
    const now = (): Area => this.area.value ?? { span: this.view.value, rows: null };
    const settled = signal(now());
    let timer: ReturnType<typeof setTimeout> | undefined;
    effect(() => {
      const area = now();
      clearTimeout(timer);
      timer = setTimeout(() => {
        settled.value = area;
      }, SETTLE_MS);
    });
    return settled;
  }

  // -- names and rows ------------------------------------------------------------------------

  nameOf(place: Place): string {
    const events = this.recording.rows[place.row]?.events;
    return events ? (this.recording.names.texts[events.name[place.event]] ?? "") : "";
  }

  eventsOf(row: number): Events | null {
    return this.recording.rows[row]?.events ?? null;
  }

  spanOf({ row, event }: Place): Span | null {
    const events = this.eventsOf(row);
    if (!events || event >= events.count) return null;
    return { start: events.start[event], end: endOf(events, event) };
  }

  /** Returns the label of a row with those of its groups: "GPU 0 · stream 7". */
  labelOf(row: number): string {
    const spec = this.recording.head.rows[row];
    if (!spec) return "";
    const above = this.tree.parent[row];
    return above >= 0 ? `${this.labelOf(above)} · ${spec.label}` : spec.label;
  }

  private findLit(): Uint8Array | null {
    void this.arrived.value;
    const pattern = searchPattern(this.query.value);
    const chosen = this.litNames.value;
    if (!pattern && !chosen) return null;
    const { texts } = this.recording.names;
    return Uint8Array.from(texts, (text, name) =>
      (!chosen || chosen.has(name)) && (!pattern || pattern.test(text)) ? 1 : 0,
    );
  }

  /** Lights the events of some names; a search that was typed ends. */
  light(names: Iterable<number>): void {
    batch(() => {
      this.query.value = "";
      this.litNames.value = new Set(names);
    });
  }

  /** Searches names; names that were lit from a table no longer are. */
  search(typed: string): void {
    batch(() => {
      this.litNames.value = null;
      this.query.value = typed;
    });
  }

  // -- moving --------------------------------------------------------------------------------

  /** Shows a span; `keep`: one can go back to where one was. */
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

  /** Fits the selected area, otherwise the selected event. */
  fit(): void {
    const span = this.area.value?.span ?? (this.selected.value && this.spanOf(this.selected.value));
    if (span) this.show(fitSpan(span, this.limits));
  }

  // -- selecting -----------------------------------------------------------------------------

  select(place: Place | null, reveal = false): void {
    batch(() => {
      this.selected.value = place;
      if (!place) return;
      const span = this.spanOf(place);
      if (reveal && span) {
        const view = this.view.value;
        const next = revealSpan(view, span, this.limits);
        if (next !== view) this.show(next);
        this.uncover(place.row);
      }
      this.said.value = `${this.nameOf(place)}, ${this.labelOf(place.row)}`;
    });
  }

  selectId(id: string): boolean {
    const place = this.recording.find(id);
    if (!place) return false;
    const span = this.spanOf(place);
    this.select(place, true);
    if (span && span.end - span.start < (this.view.value.end - this.view.value.start) / 400) {
      this.show(fitSpan(span, this.limits, 12));
    }
    return true;
  }

  /** Opens the groups above a row, takes it out of the hidden ones and scrolls to it. */
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
    const room = this.size.value.height - 24;
    if (placed.y < layout.pinnedHeight || placed.y + placed.height > room) {
      const y = placed.y + this.scrollTop.value - layout.pinnedHeight;
      this.scrollTop.value = Math.max(0, y - (room - layout.pinnedHeight) / 2);
    }
  }

  /** Goes to the next (1) or previous (-1) event of the selected row. */
  stepEvent(direction: 1 | -1): void {
    const now = this.selected.value;
    if (!now) return this.selectFirstInView();
    const events = this.eventsOf(now.row);
    const event = now.event + direction;
    if (events && event >= 0 && event < events.count) this.select({ row: now.row, event }, true);
  }

  /** Goes to the row above (-1) or below (1), to the event nearest in time. */
  stepRow(direction: 1 | -1): void {
    const now = this.selected.value;
    if (!now) return this.selectFirstInView();
    const rows = [...this.layout.value.pinned, ...this.layout.value.scrolled].map((one) => one.row);
    const time = this.spanOf(now)?.start ?? this.view.value.start;
    for (let at = rows.indexOf(now.row) + direction; at >= 0 && at < rows.length; at += direction) {
      const row = rows[at] as number;
      const events = this.eventsOf(row);
      if (!events?.count || this.recording.head.rows[row]?.kind === "counter") continue;
      this.select({ row, event: Math.max(0, upperBound(events.start, time) - 1) }, true);
      return;
    }
  }

  private selectFirstInView(): void {
    const first = this.stretches.value.find(({ row }) => this.eventsOf(row)?.count);
    if (first) this.select({ row: first.row, event: first.first });
  }

  /** Walks the events whose names are lit, in time, over all rows that are shown. */
  stepMatch(direction: 1 | -1): void {
    const lit = this.lit.value;
    if (!lit) return;
    const now = this.selected.value;
    const time = (now && this.spanOf(now)?.start) ?? this.view.value.start - direction;
    const order = this.layout.value.scrolled.concat(this.layout.value.pinned).map((one) => one.row);
    let best: Place | null = null;
    let bestKey: readonly [number, number] | null = null;
    const nowKey = [time, now ? now.row : -direction] as const;
    const isBefore = (a: readonly [number, number], b: readonly [number, number]): boolean =>
      a[0] !== b[0] ? (a[0] - b[0]) * direction < 0 : (a[1] - b[1]) * direction < 0;
    for (const row of order) {
      const events = this.eventsOf(row);
      if (!events || this.recording.head.rows[row]?.kind === "counter") continue;
      let i = upperBound(events.start, time) - (direction > 0 ? 1 : 0);
      i = Math.max(0, Math.min(events.count - 1, i));
      for (; i >= 0 && i < events.count; i += direction) {
        if (!lit[events.name[i]]) continue;
        const key = [events.start[i], row] as const;
        if (!isBefore(nowKey, key)) continue;
        if (bestKey && !isBefore(key, bestKey)) break;
        best = { row, event: i };
        bestKey = key;
        break;
      }
    }
    if (best) this.select(best, true);
  }

  // -- links ---------------------------------------------------------------------------------

  /** Returns the event's links: from it to its causes, and from it to what it caused. */
  linksOf(place: Place): readonly { text: string; place: Place; isCause: boolean; link: string }[] {
    const { recording } = this;
    const events = this.eventsOf(place.row);
    if (!events) return [];
    const found: { text: string; place: Place; isCause: boolean; link: string }[] = [];
    const table = this.tableOf(place);
    for (const link of recording.head.links) {
      const row = events.links.get(link.name)?.[place.event] ?? -1;
      const cause = row >= 0 ? recording.findRow(link.table, row) : null;
      if (cause) found.push({ text: link.text, place: cause, isCause: true, link: link.name });
      if (table !== link.table || !events.row) continue;
      for (const effect of recording.pointingAt(link.name, events.row[place.event])) {
        found.push({ text: link.name, place: effect, isCause: false, link: link.name });
      }
    }
    return found;
  }

  tableOf(place: Place): string | null {
    const events = this.eventsOf(place.row);
    const table = events?.table
      ? events.table[place.event]
      : this.recording.head.rows[place.row]?.table;
    return table === null || table === undefined ? null : (this.recording.head.tables[table] ?? null);
  }

  private arrowsOf(place: Place): Arrow[] {
    return this.linksOf(place)
      .slice(0, 64)
      .map((link) => ({
        from: link.isCause ? link.place : place,
        to: link.isCause ? place : link.place,
        isQueue: link.link === "launch",
      }));
  }

  followLink(towardsCause: boolean): void {
    const now = this.selected.value;
    const link = now && this.linksOf(now).find((one) => one.isCause === towardsCause);
    if (link) this.select(link.place, true);
  }

  /** Returns the ranges around an event, outermost first: those of its thread, or its launch's. */
  rangesAround(place: Place): Place[] {
    const { rows } = this.recording.head;
    const spec = rows[place.row];
    if (!spec) return [];
    if (!HOST.has(spec.kind)) {
      const launch = this.linksOf(place).find((one) => one.isCause);
      return launch && launch.place.row !== place.row ? this.rangesAround(launch.place) : [];
    }
    const span = this.spanOf(place);
    if (!span || spec.thread === null || spec.thread === undefined) return [];
    return rows.flatMap((row, at) => {
      const events = this.eventsOf(at);
      if (row.kind !== "range" || row.thread !== spec.thread || !events || at === place.row) return [];
      const event = upperBound(events.start, span.start) - 1;
      return event >= 0 && endOf(events, event) >= span.end ? [{ row: at, event }] : [];
    });
  }

  // -- steps and findings --------------------------------------------------------------------

  stepStep(direction: 1 | -1): void {
    const steps = this.recording.head.steps[0];
    if (!steps?.start_ns.length) return;
    const middle = (this.view.value.start + this.view.value.end) / 2;
    const now = upperBound(steps.start_ns, middle) - 1;
    const inside = now >= 0 && middle < (steps.end_ns[now] ?? 0);
    const next = inside || direction < 0 ? now + (inside ? direction : 0) : now + 1;
    const at = Math.max(0, Math.min(steps.start_ns.length - 1, next));
    this.show(fitSpan({ start: steps.start_ns[at] as number, end: steps.end_ns[at] as number }, this.limits, 0.04));
    this.said.value = steps.text[at] ?? `step ${at}`;
  }

  /** Returns the number of the step in the middle of the view, or -1. */
  stepInView(): number {
    const steps = this.recording.head.steps[0];
    if (!steps) return -1;
    const middle = (this.view.value.start + this.view.value.end) / 2;
    const now = upperBound(steps.start_ns, middle) - 1;
    return now >= 0 && middle < (steps.end_ns[now] ?? 0) ? now : -1;
  }

  /** Returns the step that times count from: none where the view holds several. */
  anchorStep(): number {
    const steps = this.recording.head.steps[0];
    const step = this.stepInView();
    if (!steps || step < 0) return -1;
    const length = (steps.end_ns[step] ?? 0) - (steps.start_ns[step] ?? 0);
    return this.view.value.end - this.view.value.start <= 3 * length ? step : -1;
  }

  /** Shows a finding: its windows, rows and colours. */
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
      if (event) this.select(this.recording.find(event), !window);
    });
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

  /** Returns the rows that statistics of an area are about. */
  rowsOfArea(area: Area): number[] {
    const shown = [...this.layout.value.pinned, ...this.layout.value.scrolled].map((one) => one.row);
    return shown.filter((row) => area.rows === null || area.rows.has(row));
  }

  private stretchesIn(area: Area): RowStretch[] {
    return this.rowsOfArea(area).flatMap((row) => {
      const events = this.eventsOf(row);
      if (!events || this.recording.head.rows[row]?.kind === "counter") return [];
      const [first, last] = eventsIn(events, area.span);
      return last > first ? [{ row, first, last }] : [];
    });
  }

  // -- addresses -----------------------------------------------------------------------------

  address(): Address {
    const { head } = this.recording;
    const byDefault = new Set(head.rows.filter((row) => row.hidden).map((row) => row.id));
    const view = this.view.value;
    const isWhole = view.start <= this.limits.start && view.end >= this.limits.end;
    const selected = this.selected.value;
    return {
      page: this.page.value,
      view: isWhole ? null : view,
      selected: selected ? this.recording.idOf(selected) : null,
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

  /** Goes where an address says; the selected event follows once its row has arrived. */
  go(address: Address): void {
    const known = (id: string): boolean => this.recording.rowOf.has(id);
    batch(() => {
      this.page.value = address.page;
      this.view.value = address.view ? clampSpan(address.view, this.limits) : this.limits;
      this.area.value = address.area && { span: clampSpan(address.area, this.limits), rows: null };
      this.pinned.value = address.pinned.filter(known);
      this.hidden.value = new Set([...this.hidden.value, ...address.hidden.filter(known)]);
      this.finding.value = address.finding;
      this.mode.value = address.colour;
      this.query.value = address.query;
      this.bookmarks.value = address.bookmarks;
      if (address.table) this.table.value = address.table;
      const place = address.selected ? this.recording.find(address.selected) : null;
      if (place) {
        this.selected.value = place;
        this.uncover(place.row);
      } else if (!address.selected) this.selected.value = null;
    });
  }
}
