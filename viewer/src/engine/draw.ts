/** Draws a frame of the timeline on a 2D context. */

import { lowerBound } from "../base/search";
import { instantText } from "../base/units";
import type { Found, RowHits } from "../data/answers";
import type { Events } from "../data/events";
import type { Head } from "../data/head";
import { NO_NAME } from "../data/category-bins";
import type { Names, Overview, RowData } from "../data/recording";
import { type CommonAxes, drawCounter, pictureOfCounter } from "./counter";
import { drawLabel, LabelWidths } from "./labels";
import type { Layout, PlacedRow } from "./layout";
import { topOfRow } from "./layout";
import { drawClockError } from "./marks";
import { pictureRow, RowPicture } from "./lod";
import { tickStep, ticks } from "./ruler";
import type { Pen, Strip, Surface } from "./surface";
import { categoryInk, idleFill, type Inks, type Theme } from "./theme";
import { lengthOfSpan, type Span, timeToX } from "./view";

export const RULER_HEIGHT = 24;
const LINES = 8; // lines of the strip per row: the height also shows the busy share
const SHADES = 16; // brightness levels by the busy share of a pixel
const MOST_LABELS = 2500;
const HATCH_PX = 5; // narrower rectangles show no pattern, and patterns are slow to fill

/** An arrow between two events; `isQueue` draws the time between them as a tail. */
export interface Arrow {
  readonly from: Found;
  readonly to: Found;
  readonly isQueue: boolean;
}

export interface Area {
  readonly span: Span;
  readonly rows: ReadonlySet<number> | null;
}

/** Highlighted events by bin: `bins` of a span, which may be of an earlier view. */
export interface HitPicture {
  readonly span: Span;
  readonly bins: number;
  readonly byRow: ReadonlyMap<number, RowHits>;
}

/** The inputs of a frame. */
export interface Scene {
  readonly head: Head;
  readonly rows: readonly RowData[];
  readonly names: Names;
  readonly overview: Overview | null;
  readonly inks: Inks;
  readonly theme: Theme;
  readonly layout: Layout;
  readonly scrollTop: number;
  readonly span: Span;
  readonly width: number;
  readonly height: number;
  readonly pixelRatio: number;
  readonly anchor: number;
  readonly selected: Found | null;
  readonly hovered: Found | null;
  readonly area: Area | null;
  readonly measure: Span | null;
  /** The highlighted events too short to be drawn one by one; null: nothing is highlighted. */
  readonly hits: HitPicture | null;
  readonly windows: readonly Span[];
  readonly windowRows: ReadonlySet<number> | null;
  readonly arrows: readonly Arrow[];
  readonly bookmarks: readonly { readonly time: number; readonly text: string }[];
  readonly axes?: CommonAxes;
}

export interface FrameCost {
  readonly rows: number;
  readonly rects: number;
  readonly labels: number;
}

interface DrawnRow {
  readonly placed: PlacedRow;
  readonly top: number;
}

/** Draws frames and keeps reusable buffers. */
export class Painter {
  private readonly picture = new RowPicture();
  private readonly widths = new LabelWidths();
  private shades: Shades | null = null;
  private size = 0;
  private x = new Float64Array(1024);
  private w = new Float64Array(1024);
  private y = new Float32Array(1024);
  private h = new Float32Array(1024);
  private ink = new Uint16Array(1024);
  private name = new Uint32Array(1024);

  constructor(private readonly surface: Surface) {}

  draw(pen: Pen, scene: Scene): FrameCost {
    const { theme, width, height } = scene;
    pen.fillStyle = `rgb(${theme.background.join(",")})`;
    pen.fillRect(0, 0, width, height);
    this.size = 0;
    const zones = visibleRows(scene);
    const all = [...zones.scrolled, ...zones.pinned];
    const layers = scene.hits ? 2 : 1; // highlighted events are drawn above all others
    const strip = this.surface.strip(Math.max(1, Math.ceil(width)), Math.max(1, layers * all.length) * LINES);
    strip.pixels.fill(0);
    const shades = this.shadesOf(scene);
    all.forEach((row, place) => this.prepare(scene, shades, row, strip, place));
    const { hits } = scene;
    if (hits) {
      all.forEach(({ placed }, place) => {
        const own = hits.byRow.get(placed.shows ?? -1);
        if (own) stripOfHits(scene, shades, hits, own, strip, all.length + place);
      });
    }
    strip.upload();
    drawSteps(pen, scene);
    let labels = 0;
    const cut = zones.scrolled.length;
    for (const [zone, from, to] of [
      ["scrolled", 0, cut],
      ["pinned", cut, all.length],
    ] as const) {
      pen.save();
      pen.beginPath();
      const top = RULER_HEIGHT + (zone === "scrolled" ? scene.layout.pinnedHeight : 0);
      const bottom = zone === "scrolled" ? height : RULER_HEIGHT + scene.layout.pinnedHeight;
      pen.rect(0, top, width, Math.max(0, bottom - top));
      pen.clip();
      for (let place = from; place < to; place++) {
        this.drawBand(pen, scene, all[place] as DrawnRow, strip, place);
      }
      labels += this.drawRects(pen, scene, top, bottom);
      for (let place = from; hits && place < to; place++) {
        const { placed, top } = all[place] as DrawnRow;
        strip.draw(pen, (all.length + place) * LINES, LINES, 0, top + 1, strip.width, placed.height - 2);
      }
      pen.restore();
    }
    drawOverlay(pen, scene);
    drawRuler(pen, scene);
    return { rows: all.length, rects: this.size, labels };
  }

  private shadesOf({ inks, theme, head }: Scene): Shades {
    const old = this.shades;
    if (old?.inks === inks && old.theme === theme) return old;
    this.shades = new Shades(inks, theme, head.categories);
    return this.shades;
  }

  /** Prepares a row: pixels go to the strip, rectangles to the list. */
  private prepare(scene: Scene, shades: Shades, row: DrawnRow, strip: Strip, place: number): void {
    const { shows } = row.placed;
    if (shows === null) return;
    const data = scene.rows[shows] as RowData;
    const spec = scene.head.rows[shows];
    if (spec?.kind === "counter") return;
    if (!data.events) {
      if (scene.overview && !data.error) stripOfOverview(scene, shades, scene.overview, shows, strip, place);
      return;
    }
    pictureRow(data.events, data.pyramid, scene.names.categories, scene.span, strip.width, this.picture);
    stripOfPicture(shades, this.picture, strip, place, spec?.kind === "mark");
    this.takeRects(scene, data.events, row);
  }

  private takeRects(scene: Scene, events: Events, row: DrawnRow): void {
    const { picture } = this;
    for (let k = 0; k < picture.rects; k++) {
      if (this.size === this.x.length) this.grow();
      const from = Math.max(-2, this.toX(scene, picture.rectStart[k]));
      const to = Math.min(scene.width + 2, this.toX(scene, picture.rectEnd[k]));
      const name = events.name[picture.rectEvent[k]];
      const at = this.size++;
      this.x[at] = from;
      this.w[at] = Math.max(1 / scene.pixelRatio, to - from - (to - from > 3 ? 1 / scene.pixelRatio : 0));
      this.y[at] = row.top + 1;
      this.h[at] = row.placed.height - 2;
      this.ink[at] = scene.inks.of[name];
      this.name[at] = name;
    }
  }

  private toX(scene: Scene, time: number): number {
    const { pixelRatio } = scene;
    return Math.round(timeToX(time, scene.span, scene.width) * pixelRatio) / pixelRatio;
  }

  private grow(): void {
    const size = this.x.length * 2;
    const bigger = <T extends { set(from: T): void }>(old: T, made: T): T => {
      made.set(old);
      return made;
    };
    this.x = bigger(this.x, new Float64Array(size));
    this.w = bigger(this.w, new Float64Array(size));
    this.y = bigger(this.y, new Float32Array(size));
    this.h = bigger(this.h, new Float32Array(size));
    this.ink = bigger(this.ink, new Uint16Array(size));
    this.name = bigger(this.name, new Uint32Array(size));
  }

  private drawBand(pen: Pen, scene: Scene, row: DrawnRow, strip: Strip, place: number): void {
    const { placed, top } = row;
    const spec = scene.head.rows[placed.row];
    if (spec?.kind === "group") {
      pen.fillStyle = scene.theme.band;
      pen.fillRect(0, top, scene.width, placed.height);
      const { span, width, theme } = scene;
      drawClockError(pen, spec, { span, width, top, height: placed.height, theme });
    }
    pen.fillStyle = scene.theme.line;
    pen.fillRect(0, top + placed.height - 0.5, scene.width, 0.5);
    if (placed.shows === null) return;
    const data = scene.rows[placed.shows] as RowData;
    if (scene.head.rows[placed.shows]?.kind === "counter") {
      const spec = scene.head.rows[placed.shows] as Head["rows"][number];
      const picture = pictureOfCounter(data, scene.span, Math.ceil(scene.width));
      if (picture) {
        drawCounter(pen, picture, spec, {
          width: scene.width,
          top: top + 2,
          height: placed.height - 4,
          colour: scene.theme.accent,
          text: scene.theme.text,
          background: `rgb(${scene.theme.background.join(",")})`,
          axes: scene.axes,
        });
      }
      return;
    }
    strip.draw(pen, place * LINES, LINES, 0, top + 1, strip.width, placed.height - 2);
    drawThinned(pen, scene, placed, top);
  }

  /** Draws the rectangles of a zone by ink, then their names. Returns the number of names. */
  private drawRects(pen: Pen, scene: Scene, top: number, bottom: number): number {
    const { inks } = scene.inks;
    const order = this.orderByInk(inks.length, top, bottom);
    let current = -1;
    for (const at of order) {
      if (this.ink[at] !== current) {
        current = this.ink[at];
        const ink = inks[current];
        if (ink?.hatch) this.drawIdle(pen, scene, order, current);
        else pen.fillStyle = ink?.css ?? "";
      }
      if (inks[current]?.hatch) continue;
      pen.fillRect(this.x[at], this.y[at], this.w[at], this.h[at]);
    }
    return this.drawLabels(pen, scene, order);
  }

  private orderByInk(inks: number, top: number, bottom: number): Uint32Array {
    const counts = new Uint32Array(inks + 1);
    const isHere = (at: number): boolean => this.y[at] < bottom && this.y[at] + this.h[at] > top;
    let here = 0;
    for (let at = 0; at < this.size; at++) {
      if (!isHere(at)) continue;
      counts[this.ink[at] + 1]++;
      here++;
    }
    for (let ink = 0; ink < inks; ink++) counts[ink + 1] += counts[ink];
    const order = new Uint32Array(here);
    for (let at = 0; at < this.size; at++) {
      if (isHere(at)) order[counts[this.ink[at]]++] = at;
    }
    return order;
  }

  private drawIdle(pen: Pen, scene: Scene, order: Uint32Array, current: number): void {
    const ink = scene.inks.inks[current];
    if (!ink) return;
    for (const [fill, least] of [
      [idleFill(ink, scene.theme), 0],
      [this.surface.pattern(pen, ink), HATCH_PX],
    ] as const) {
      pen.fillStyle = fill;
      for (const at of order) {
        if (this.ink[at] !== current || this.w[at] < least) continue;
        pen.fillRect(this.x[at], this.y[at], this.w[at], this.h[at]);
      }
    }
  }

  private drawLabels(pen: Pen, scene: Scene, order: Uint32Array): number {
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    let drawn = 0;
    for (const at of order) {
      if (this.w[at] < 30 || drawn >= MOST_LABELS) continue;
      const ink = scene.inks.inks[this.ink[at]];
      const name = this.name[at];
      const text = scene.names.labels?.[name] ?? scene.names.texts[name] ?? "";
      const x = Math.max(0, this.x[at]);
      const width = Math.min(scene.width, this.x[at] + this.w[at]) - x;
      if (ink?.hatch) {
        drawn += this.drawIdleLabel(pen, scene, at, text, x, width);
        continue;
      }
      pen.fillStyle = ink?.text ?? scene.theme.text;
      const room = { x, y: this.y[at], width, height: this.h[at] };
      if (drawLabel(pen, this.widths, text, room)) drawn++;
    }
    return drawn;
  }

  /** Text on a hatch is hard to read: draw it on a plain background. */
  private drawIdleLabel(
    pen: Pen,
    scene: Scene,
    at: number,
    text: string,
    x: number,
    width: number,
  ): number {
    const needed = this.widths.of(pen, text) + 8;
    if (width < needed + 8) return 0;
    const room = { x: x + 4, y: this.y[at], width: needed + 1, height: this.h[at] };
    pen.fillStyle = `rgb(${scene.theme.background.join(",")})`;
    pen.fillRect(room.x, room.y + 3, room.width, room.height - 6);
    pen.fillStyle = scene.theme.faintText;
    return drawLabel(pen, this.widths, text, room) ? 1 : 0;
  }
}

/** Returns the visible rows with their top edges. */
export function visibleRows(scene: Pick<Scene, "layout" | "scrollTop" | "height">): {
  readonly pinned: readonly DrawnRow[];
  readonly scrolled: readonly DrawnRow[];
} {
  const { layout, scrollTop, height } = scene;
  const pinned = layout.pinned.map((placed) => ({ placed, top: RULER_HEIGHT + placed.y }));
  const offset = RULER_HEIGHT + layout.pinnedHeight - scrollTop;
  const scrolled: DrawnRow[] = [];
  for (const placed of layout.scrolled) {
    const top = placed.y + offset;
    if (top >= height) break;
    if (top + placed.height > RULER_HEIGHT + layout.pinnedHeight) scrolled.push({ placed, top });
  }
  return { pinned, scrolled };
}

/** Precomputed pixel colors of strips: mixing them per pixel and frame is slower. */
class Shades {
  /** Per ink, its color by the busy share of a pixel. */
  readonly busy: Uint32Array;
  readonly idle: Uint32Array;
  /** Per category, its color before the events arrive. */
  readonly early: Uint32Array;

  constructor(
    readonly inks: Inks,
    readonly theme: Theme,
    categories: Head["categories"],
  ) {
    const back = theme.background;
    const { inks: all } = inks;
    this.idle = Uint32Array.from(all, (ink) => faded(ink.pixel, back, 0.3));
    this.busy = new Uint32Array(all.length * (SHADES + 1));
    all.forEach((ink, place) => {
      for (let shade = 0; shade <= SHADES; shade++) {
        this.busy[place * (SHADES + 1) + shade] = faded(ink.pixel, back, 0.55 + (0.45 * shade) / SHADES);
      }
    });
    this.early = Uint32Array.from(categories, (category) =>
      faded(categoryInk(category, theme).pixel, back, 0.75),
    );
  }
}

/** Fills the pixels of a row, as high as their busy share; instants, which have no length, are ticks of full height. */
function stripOfPicture(
  { inks, busy, idle }: Shades,
  picture: RowPicture,
  strip: Strip,
  place: number,
  areInstants: boolean,
): void {
  const { of } = inks;
  const { width, pixels } = strip;
  const base = place * LINES * width;
  for (let x = 0; x < width; x++) {
    const top = picture.top[x];
    const rest = picture.rest[x];
    if (top === NO_NAME && rest === NO_NAME) continue;
    const share = areInstants ? 1 : Math.min(1, picture.share[x]);
    const filled = top === NO_NAME ? 0 : Math.max(1, Math.round(share * LINES));
    const below = rest === NO_NAME ? 0 : idle[of[rest]];
    const shade = top === NO_NAME ? 0 : busy[of[top] * (SHADES + 1) + Math.round(share * SHADES)];
    const edge = base + (LINES - filled) * width;
    const end = base + LINES * width;
    if (below) for (let at = base + x; at < edge; at += width) pixels[at] = below;
    for (let at = edge + x; at < end; at += width) pixels[at] = shade;
  }
}

const LEAST_LINES = 3; // so that a single short event is visible

/** Fills the pixels that have highlighted events, as high as their share of the time. */
function stripOfHits(
  { span, inks }: Scene,
  { busy }: Shades,
  { span: whole, bins }: HitPicture,
  hits: RowHits,
  strip: Strip,
  place: number,
): void {
  const { width, pixels } = strip;
  const binNs = lengthOfSpan(whole) / bins;
  for (let k = 0; k < hits.bin.length; k++) {
    const time = whole.start + (hits.bin[k] as number) * binNs;
    const from = Math.max(0, Math.round(timeToX(time, span, width)));
    const to = Math.min(width, Math.max(from + 1, Math.round(timeToX(time + binNs, span, width))));
    const shade = busy[inks.of[hits.name[k] as number] * (SHADES + 1) + SHADES];
    const lines = Math.max(LEAST_LINES, Math.round(((hits.ns[k] as number) / binNs) * LINES));
    for (let line = LINES - Math.min(LINES, lines); line < LINES; line++) {
      pixels.fill(shade, (place * LINES + line) * width + from, (place * LINES + line) * width + to);
    }
  }
}

function stripOfOverview(
  scene: Scene,
  { early }: Shades,
  overview: Overview,
  row: number,
  strip: Strip,
  place: number,
): void {
  const { head } = scene;
  const whole = head.end_ns - head.start_ns || 1;
  for (let x = 0; x < strip.width; x++) {
    const time = scene.span.start + ((x + 0.5) / strip.width) * lengthOfSpan(scene.span);
    const bin = Math.floor(((time - head.start_ns) / whole) * overview.bins);
    if (bin < 0 || bin >= overview.bins) continue;
    const at = row * overview.bins + bin;
    const coverage = overview.coverage[at];
    if (!coverage) continue;
    const pixel = early[overview.category[at]] ?? 0xff888888;
    const filled = Math.max(1, Math.round((coverage / 255) * LINES));
    for (let line = LINES - filled; line < LINES; line++) {
      strip.pixels[(place * LINES + line) * strip.width + x] = pixel;
    }
  }
}

/** Mixes a pixel with the background; `part` is the fraction of the pixel. */
function faded(pixel: number, back: readonly [number, number, number], part: number): number {
  const blue = back[2] + (((pixel >>> 16) & 255) - back[2]) * part;
  const green = back[1] + (((pixel >>> 8) & 255) - back[1]) * part;
  const red = back[0] + ((pixel & 255) - back[0]) * part;
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

function drawSteps(pen: Pen, scene: Scene): void {
  const steps = scene.head.steps[0];
  if (!steps) return;
  const first = lowerBound(steps.start_ns, scene.span.start);
  const last = lowerBound(steps.start_ns, scene.span.end, first);
  if ((last - first) * 4 > scene.width) return;
  pen.fillStyle = scene.theme.strongLine;
  for (let step = first; step < last; step++) {
    pen.fillRect(timeToX(steps.start_ns[step], scene.span, scene.width), RULER_HEIGHT, 1, scene.height);
  }
}

function drawThinned(pen: Pen, scene: Scene, placed: PlacedRow, top: number): void {
  const id = scene.head.rows[placed.row]?.id ?? "";
  for (const gap of scene.head.thinned?.spans ?? []) {
    if (!gap.rows.includes(id)) continue;
    const x0 = Math.max(0, timeToX(gap.start_ns, scene.span, scene.width));
    const x1 = Math.min(scene.width, timeToX(gap.end_ns, scene.span, scene.width));
    if (x1 <= x0) continue;
    pen.strokeStyle = scene.theme.faintText;
    pen.lineWidth = 0.5;
    pen.beginPath();
    for (let x = x0; x < x1; x += 8) {
      pen.moveTo(x, top + placed.height);
      pen.lineTo(Math.min(x1, x + 6), top);
    }
    pen.stroke();
  }
}

function drawOverlay(pen: Pen, scene: Scene): void {
  const { theme, width, height, span } = scene;
  for (const window of scene.windows) {
    const [x, w] = band(window, scene);
    if (w <= 0) continue;
    pen.fillStyle = theme.finding;
    eachTarget(scene, scene.windowRows, (top, tall) => pen.fillRect(x, top, Math.max(2, w), tall));
  }
  if (scene.area) {
    const [x, w] = band(scene.area.span, scene);
    pen.fillStyle = theme.selection;
    eachTarget(scene, scene.area.rows, (top, tall) => pen.fillRect(x, top, w, tall));
    pen.fillStyle = theme.accent;
    for (const edge of [x, x + w]) pen.fillRect(edge, RULER_HEIGHT, 1, height);
  }
  drawMeasure(pen, scene);
  for (const loss of scene.head.losses) {
    if (loss.time_ns < span.start || loss.time_ns > span.end) continue;
    pen.fillStyle = theme.warning;
    pen.fillRect(timeToX(loss.time_ns, span, width), RULER_HEIGHT - 8, 2, 8);
  }
  for (const arrow of scene.arrows) drawArrow(pen, scene, arrow);
  for (const [event, colour, line] of [
    [scene.hovered, theme.faintText, 1],
    [scene.selected, theme.text, 2],
  ] as const) {
    if (event) outline(pen, scene, event, colour, line);
  }
}

function band(span: Span, scene: Scene): [number, number] {
  const from = Math.max(-2, timeToX(span.start, scene.span, scene.width));
  const to = Math.min(scene.width + 2, timeToX(span.end, scene.span, scene.width));
  return [from, to - from];
}

function eachTarget(
  scene: Scene,
  rows: ReadonlySet<number> | null,
  visit: (top: number, height: number) => void,
): void {
  if (rows === null) {
    visit(RULER_HEIGHT, scene.height - RULER_HEIGHT);
    return;
  }
  const { pinned, scrolled } = visibleRows(scene);
  for (const { placed, top } of [...pinned, ...scrolled]) {
    if (rows.has(placed.row)) visit(top, placed.height);
  }
}

function drawMeasure(pen: Pen, scene: Scene): void {
  if (!scene.measure) return;
  const [x, w] = band(scene.measure, scene);
  if (x > scene.width || x + w < 0) return;
  const text = instantText(
    scene.measure.end - scene.measure.start,
    lengthOfSpan(scene.measure) / 1000 || 1,
  );
  const y = RULER_HEIGHT + 10;
  pen.strokeStyle = scene.theme.accent;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(x, RULER_HEIGHT);
  pen.lineTo(x, scene.height);
  pen.moveTo(x + w, RULER_HEIGHT);
  pen.lineTo(x + w, scene.height);
  pen.moveTo(x, y);
  pen.lineTo(x + w, y);
  pen.stroke();
  pen.font = "11px system-ui, sans-serif";
  const wide = pen.measureText(text).width + 8;
  const at = Math.max(0, Math.min(scene.width - wide, x + w / 2 - wide / 2));
  pen.fillStyle = scene.theme.accent;
  pen.fillRect(at, y - 8, wide, 16);
  pen.fillStyle = scene.theme.name === "dark" ? "#0a0e12" : "#ffffff";
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.fillText(text, at + 4, y + 0.5);
}

interface Box {
  readonly x0: number;
  readonly x1: number;
  readonly top: number;
  readonly height: number;
}

function boxOf(scene: Scene, event: Found): Box | null {
  const placed = topOfRow(scene.layout, event.row, scene.scrollTop);
  if (!placed) return null;
  const x0 = timeToX(event.start, scene.span, scene.width);
  const x1 = timeToX(event.end, scene.span, scene.width);
  return { x0, x1, top: RULER_HEIGHT + placed.y, height: placed.height };
}

function outline(pen: Pen, scene: Scene, event: Found, colour: string, line: number): void {
  const box = boxOf(scene, event);
  if (!box || box.x1 < 0 || box.x0 > scene.width || box.top < RULER_HEIGHT - box.height) return;
  const from = Math.max(-4, box.x0);
  const to = Math.min(scene.width + 4, box.x1);
  pen.strokeStyle = colour;
  pen.lineWidth = line;
  pen.strokeRect(from - 0.5, box.top + 0.5, Math.max(3, to - from + 1), box.height - 1);
}

/** Draws an arrow from cause to effect, with the delay between them as a thin tail in the effect's row. */
function drawArrow(pen: Pen, scene: Scene, arrow: Arrow): void {
  const from = boxOf(scene, arrow.from);
  const to = boxOf(scene, arrow.to);
  if (!from || !to) return;
  const clampX = (x: number): number => Math.max(-1e4, Math.min(1e4, x));
  const x0 = clampX(arrow.isQueue ? from.x0 : from.x1);
  const x1 = clampX(to.x0);
  const y0 = from.top + from.height / 2;
  const y1 = to.top + to.height - 4; // below the names of preceding events
  pen.strokeStyle = scene.theme.text;
  pen.fillStyle = scene.theme.text;
  pen.lineWidth = 1.2;
  if (arrow.isQueue && x1 > x0) pen.fillRect(x0, y1 - 1, x1 - x0, 2);
  const bend = Math.max(12, Math.min(60, Math.abs(x1 - x0) / 2));
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
  pen.stroke();
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x1 - 6, y1 - 3.5);
  pen.lineTo(x1 - 6, y1 + 3.5);
  pen.closePath();
  pen.fill();
}

function drawRuler(pen: Pen, scene: Scene): void {
  const { theme, span, width } = scene;
  pen.fillStyle = theme.band;
  pen.fillRect(0, 0, width, RULER_HEIGHT);
  pen.fillStyle = theme.strongLine;
  pen.fillRect(0, RULER_HEIGHT - 1, width, 1);
  const step = tickStep(span, width);
  const size = Math.max(Math.abs(span.start - scene.anchor), Math.abs(span.end - scene.anchor));
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  for (const time of ticks(span, step, scene.anchor)) {
    const x = timeToX(time, span, width);
    pen.fillStyle = theme.strongLine;
    pen.fillRect(x, RULER_HEIGHT - 8, 1, 8);
    pen.fillStyle = theme.faintText;
    pen.fillText(instantText(time - scene.anchor, step, size), x + 4, 10);
  }
  for (const { time, text } of scene.bookmarks) {
    const x = timeToX(time, span, width);
    if (x < -20 || x > width) continue;
    pen.fillStyle = theme.accent;
    pen.fillRect(x, 2, 2, RULER_HEIGHT - 2);
    pen.beginPath();
    pen.moveTo(x, 2);
    pen.lineTo(x + 10, 6);
    pen.lineTo(x, 10);
    pen.closePath();
    pen.fill();
    pen.fillText(text.slice(0, 24), x + 13, 10);
  }
}
