/** Random rows for tests. */

import type { Events } from "../src/data/events";
import { joinParts } from "../src/data/events";
import type { RowSpec } from "../src/data/head";
import { seeded } from "./random";

export interface RandomRow {
  readonly events: Events;
  readonly start: number[];
  readonly duration: number[];
  readonly name: number[];
}

const ROW: RowSpec = { id: "r", parent: null, label: "row", kind: "stream", count: 0, parts: [] };

/** Makes `count` events whose lengths and gaps span several powers of ten; name 0 to 4, 4 is idle. */
export function randomRow(seed: number, count: number, kind: RowSpec["kind"] = "stream"): RandomRow {
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
  const part = {
    count,
    start: Float64Array.from(start),
    duration: Float64Array.from(duration),
    name: Uint32Array.from(name),
    others: {},
  };
  const isIdle = Uint8Array.of(0, 0, 0, 0, 1);
  const bounds = { start_ns: 0, end_ns: end, names: 5 };
  return { events: joinParts({ ...ROW, kind }, [part], isIdle, bounds), start, duration, name };
}
