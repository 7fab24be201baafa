/** Random rows for tests. */

import type { Events } from "../src/data/events";
import { decodeEvents } from "../src/data/events";
import type { RowKind } from "../src/data/head";
import { encodePart, type RowEvents } from "./encode";
import { seeded } from "./random";

export interface RandomRow {
  readonly events: Events;
  readonly start: number[];
  readonly duration: number[];
  readonly name: number[];
}

/** The categories of the names. The idle name shares its category with a busy one, to test their separation. */
export const CATEGORIES: readonly number[] = [7, 2, 7, 3, 2];

/** Creates `count` events with durations and gaps over several powers of ten; names 0 to 4, 4 is idle. */
export function randomRow(seed: number, count: number, kind: RowKind = "stream"): RandomRow {
  const random = seeded(seed);
  const length = (): number =>
    random() < 0.1 ? 0 : Math.floor(10 ** (random() * 4));
  const start: number[] = [];
  const duration: number[] = [];
  const name: number[] = [];
  let end = Math.floor(random() * 1000);
  for (let i = 0; i < count; i++) {
    start.push(end + length());
    duration.push(length());
    name.push(Math.floor(random() * 5));
    end = (start[i] as number) + (duration[i] as number);
  }
  return makeRow({ start, duration, name }, kind);
}

/** Creates a row of events in time order; name 4 is idle. */
export function makeRow(events: RowEvents, kind: RowKind = "stream"): RandomRow {
  const { start, duration, name } = events;
  const { spec, bytes } = encodePart(events, 0, 0);
  const isIdle = Uint8Array.of(0, 0, 0, 0, 1);
  const last = start.length - 1;
  const end = last < 0 ? 0 : (start[last] as number) + (duration[last] as number);
  const bounds = { start_ns: Math.min(0, start[0] ?? 0), end_ns: end, names: 5 };
  const made = decodeEvents({ label: "row", kind }, [{ bytes, spec }], isIdle, bounds);
  return { events: made, start: [...start], duration: [...duration], name: [...name] };
}
