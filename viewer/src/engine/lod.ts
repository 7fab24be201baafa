/**
 * Level of detail: the picture of a row at a scale, at a cost that grows with the number of pixels,
 * not events.
 *
 * Events of at least `WIDE_PX` become rectangles. All others become, per pixel, the exact busy share of
 * its time, from running totals, and a name: that of the longest event in the category with the most
 * time in the pixel. Busy and idle time each have their own name.
 */

import { gallop } from "../base/search";
import { endOf, type Events, lengthOf } from "../data/events";
import { type Categories, CategorySums, keyOf, NO_NAME, sumBins } from "../data/category-bins";
import { binsFor, busyInside, type Pyramid, roughlyBusyBefore } from "../data/pyramid";
import { eventsIn } from "../data/selection";
import { lengthOfSpan, type Span } from "./view";

export const WIDE_PX = 1.5;
/** In rows with a pyramid, the largest number of events per pixel to visit; of more, a sample is taken. */
const LOOK_AT_ALL = 16;
const MOMENTS = 12;

const sums = new CategorySums(); // of the current pixel

/** One row's picture; arrays are reused from frame to frame. */
export class RowPicture {
  width = 0;
  share = new Float32Array(0);
  top = new Uint32Array(0);
  rest = new Uint32Array(0);
  rects = 0;
  rectStart = new Float64Array(256);
  rectEnd = new Float64Array(256);
  rectEvent = new Uint32Array(256);

  reset(width: number): void {
    if (width !== this.width) {
      this.width = width;
      this.share = new Float32Array(width);
      this.top = new Uint32Array(width);
      this.rest = new Uint32Array(width);
    } else {
      this.share.fill(0);
    }
    this.top.fill(NO_NAME);
    this.rest.fill(NO_NAME);
    this.rects = 0;
  }

  add(start: number, end: number, event: number): void {
    if (this.rects === this.rectEvent.length) this.grow();
    this.rectStart[this.rects] = start;
    this.rectEnd[this.rects] = end;
    this.rectEvent[this.rects++] = event;
  }

  private grow(): void {
    const size = this.rectEvent.length * 2;
    const [start, end, event] = [this.rectStart, this.rectEnd, this.rectEvent];
    this.rectStart = new Float64Array(size);
    this.rectEnd = new Float64Array(size);
    this.rectEvent = new Uint32Array(size);
    this.rectStart.set(start);
    this.rectEnd.set(end);
    this.rectEvent.set(event);
  }
}

/**
 * Fills `picture` for `span` on `width` pixels. Rectangles are in ns; `categories[name]` is the
 * category of a name.
 */
export function pictureRow(
  events: Events,
  pyramid: Pyramid | null,
  categories: Categories,
  span: Span,
  width: number,
  picture: RowPicture,
): void {
  picture.reset(width);
  if (width === 0 || (events.count === 0 && !pyramid)) return;
  const isCoarse = pyramid && lengthOfSpan(span) / width >= pyramid.binNs;
  if (pyramid && (isCoarse || pyramid.isAlone)) fromPyramid(events, pyramid, span, picture);
  else byWalking(events, categories, pyramid ? LOOK_AT_ALL : events.count, span, picture);
}

function byWalking(
  events: Events,
  categories: Categories,
  lookAtAll: number,
  span: Span,
  picture: RowPicture,
): void {
  const { width } = picture;
  const { start } = events;
  const pixelNs = lengthOfSpan(span) / width;
  const wide = WIDE_PX * pixelNs;
  const [first, last] = eventsIn(events, span);
  let i = first;
  let done = -1; // the share is known up to this pixel
  while (i < last) {
    const end = endOf(events, i);
    if (end - start[i] >= wide) {
      picture.add(start[i], end, i);
      i++;
      continue;
    }
    const pixel = Math.max(0, Math.min(width - 1, Math.floor((start[i] - span.start) / pixelNs)));
    const pixelEnd = span.start + (pixel + 1) * pixelNs;
    let next = gallop(start, pixelEnd, i, last);
    if (next <= i) next = i + 1;
    // Only the last event that starts in a pixel can be wide: it extends beyond the pixel.
    if (next - 1 > i && lengthOf(events, next - 1) >= wide) next--;
    // An event that extends into the pixel also counts, unless it is a rectangle.
    const pixelStart = pixelEnd - pixelNs;
    const reaches = i > 0 && endOf(events, i - 1) > pixelStart && lengthOf(events, i - 1) < wide;
    const from = reaches ? i - 1 : i;
    if (next - from <= lookAtAll) addAll(events, from, next, categories, pixelStart, pixelEnd);
    else addSome(events, from, next, categories, pixelStart, pixelEnd);
    nameFromSums(picture, pixel);
    if (pixel > done) {
      const until = busyInside(events, firstAfter(start, pixelEnd, next, last) - 1, pixelEnd);
      picture.share[pixel] = (until - busyUntil(events, pixelStart, i)) / pixelNs;
      done = pixel;
    }
    done = Math.max(done, spill(events, next - 1, pixel, picture, pixelNs, span));
    i = next;
  }
}

/** Returns the first event at or after `from` that starts after `time`: at most one is in between. */
function firstAfter(start: Float64Array, time: number, from: number, last: number): number {
  let i = from;
  while (i < last && start[i] <= time) i++;
  return i;
}

/** Returns the busy time before `time`, which is just before event `i` or in it. */
function busyUntil(events: Events, time: number, i: number): number {
  let last = i;
  while (last >= 0 && events.start[last] > time) last--;
  return last < 0 ? 0 : busyInside(events, last, time);
}

/**
 * A short event may extend into the pixels after the one where it starts. Pixels in which other short
 * events start are left to the walk.
 */
function spill(
  events: Events,
  event: number,
  pixel: number,
  picture: RowPicture,
  pixelNs: number,
  span: Span,
): number {
  const end = endOf(events, event);
  const next = event + 1;
  const nextStart = next < events.count ? events.start[next] : Number.POSITIVE_INFINITY;
  const isNextWide = next < events.count && lengthOf(events, next) >= WIDE_PX * pixelNs;
  let at = pixel;
  while (at + 1 < picture.width && span.start + (at + 1) * pixelNs < end) {
    const low = span.start + (at + 1) * pixelNs;
    const high = low + pixelNs;
    if (nextStart < high && !isNextWide) break;
    at++;
    const until = busyInside(events, nextStart < high ? next : event, high);
    picture.share[at] = (until - busyInside(events, event, low)) / pixelNs;
    offer(events, event, picture, at);
  }
  return at;
}

/** Sums the time of the events `[from, to)` between two times. */
function addAll(
  events: Events,
  from: number,
  to: number,
  categories: Categories,
  low: number,
  high: number,
): void {
  for (let i = from; i < to; i++) {
    const end = endOf(events, i);
    const inside = Math.max(0, Math.min(end, high) - Math.max(events.start[i], low));
    sums.add(keyOfEvent(events, i, categories), inside, events.name[i], inside);
  }
}

/** Does the same with a sample of the events. */
function addSome(
  events: Events,
  from: number,
  to: number,
  categories: Categories,
  low: number,
  high: number,
): void {
  atMoments(events, events.busy, from, to, categories, low, high);
  if (events.busy !== events.before) atMoments(events, events.before, from, to, categories, low, high);
}

/**
 * Samples the events at equal steps of a running total: the frequency of a category is proportional
 * to its time, for any number of events. Busy and idle time are sampled separately.
 */
function atMoments(
  events: Events,
  total: Float64Array,
  from: number,
  to: number,
  categories: Categories,
  low: number,
  high: number,
): void {
  const isBusy = total === events.busy;
  const begin = Math.min(total[from + 1], total[from] + Math.max(0, low - events.start[from]));
  const end = Math.max(total[to - 1], total[to] - Math.max(0, endOf(events, to - 1) - high));
  const step = (end - begin) / MOMENTS;
  let event = from;
  for (let k = 0; k < MOMENTS; k++) {
    event = Math.max(from, gallop(total, begin + (k + 0.5) * step, event, to) - 1);
    const key = keyOfEvent(events, event, categories);
    if (isBusy === ((key & 1) === 0)) sums.add(key, step, events.name[event], lengthOf(events, event));
  }
}

function keyOfEvent({ before, busy, name }: Events, i: number, categories: Categories): number {
  return keyOf(categories[name[i]], busy[i + 1] === busy[i] && before[i + 1] > before[i]);
}

/** Takes the names from the sums and clears the sums. */
function nameFromSums(picture: RowPicture, pixel: number): void {
  picture.top[pixel] = sums.most(false);
  picture.rest[pixel] = sums.most(true);
  sums.clear();
}

function offer(events: Events, i: number, picture: RowPicture, pixel: number): void {
  const isIdle = lengthOf(events, i) > 0 && events.busy[i + 1] === events.busy[i];
  const names = isIdle ? picture.rest : picture.top;
  if (names[pixel] === NO_NAME) names[pixel] = events.name[i];
}

function fromPyramid(events: Events, pyramid: Pyramid, span: Span, picture: RowPicture): void {
  const { width } = picture;
  const pixelNs = lengthOfSpan(span) / width;
  const bins = binsFor(pyramid, pixelNs);
  let before = roughlyBusyBefore(pyramid, span.start);
  for (let pixel = 0; pixel < width; pixel++) {
    const from = span.start + pixel * pixelNs;
    const after = roughlyBusyBefore(pyramid, from + pixelNs);
    picture.share[pixel] = (after - before) / pixelNs;
    before = after;
    const begin = from - pyramid.start_ns;
    sumBins(bins, begin / bins.binNs, (begin + pixelNs) / bins.binNs, sums);
    nameFromSums(picture, pixel);
  }
  const { long } = pyramid;
  for (let k = firstLong(events, long, span.start); k < long.length; k++) {
    const event = long[k];
    if (events.start[event] >= span.end) break;
    if (lengthOf(events, event) >= WIDE_PX * pixelNs) {
      picture.add(events.start[event], endOf(events, event), event);
    }
  }
}

function firstLong(events: Events, long: Uint32Array, time: number): number {
  let low = 0;
  let high = long.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (endOf(events, long[middle]) <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}
