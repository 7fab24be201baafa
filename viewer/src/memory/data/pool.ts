/** The memory of one process in one place: its states and blocks, decoded. */

import { columnOf as column, type PageBlocks } from "../../data/page-blocks";
import type { By, PoolSpec, Texts } from "./document";

type Numbers = Float64Array;

export interface Blocks {
  /** The first state in which each is in use, and the first one in which it is not. */
  readonly start: Numbers;
  readonly end: Numbers;
  readonly bytes: Numbers;
  /** Places in `Pool.texts`; -1 for none. */
  readonly codes: Readonly<Record<By | "stack", Numbers>>;
}

export interface Pool {
  readonly spec: PoolSpec;
  readonly texts: Texts;
  readonly blocks: Blocks;
  /** Of each state: its time, the allocated bytes, and those of them that are in no block. */
  readonly time: Numbers;
  readonly allocated: Numbers;
  readonly rest: Numbers;
  /** Null if the reserved bytes are unknown. */
  readonly reserved: Numbers | null;
}

export async function loadPool(spec: PoolSpec, page: PageBlocks): Promise<Pool> {
  const [states, reserved, rest, blocks] = await Promise.all([spec.states, spec.reserved, spec.rest, spec.blocks].map((part) => page.columns(part)));
  const texts = (await page.json(spec.texts_block)) as Texts;
  const time = column(states, "time");
  const [start, length] = [column(blocks, "start"), column(blocks, "length")];
  const own: Blocks = {
    start,
    end: start.map((first, at) => first + (length[at] as number)),
    bytes: column(blocks, "bytes"),
    codes: {
      kind: column(blocks, "kind"), module: column(blocks, "module"), line: column(blocks, "line"),
      operator: column(blocks, "operator"), stack: column(blocks, "stack"),
    },
  };
  const known = inSteps(column(rest, "state"), column(rest, "bytes"), time.length);
  return {
    spec, texts, blocks: own, time,
    rest: known,
    allocated: allocatedOf(own, known),
    reserved: spec.reserved.count ? inSteps(column(reserved, "state"), column(reserved, "bytes"), time.length) : null,
  };
}

/** Returns the bytes in use in each state. */
export function allocatedOf(blocks: Blocks, rest: Numbers): Numbers {
  const found = new Float64Array(rest.length + 1);
  for (let at = 0; at < blocks.start.length; at++) {
    found[blocks.start[at] as number] += blocks.bytes[at] as number;
    found[Math.min(blocks.end[at] as number, rest.length)] -= blocks.bytes[at] as number;
  }
  let total = 0;
  for (let state = 0; state < rest.length; state++) {
    total += found[state] as number;
    found[state] = total + (rest[state] as number);
  }
  return found.subarray(0, rest.length);
}

/** Returns the value of each state from its changes: 0 before the first. */
export function inSteps(state: Numbers, value: Numbers, count: number): Numbers {
  const found = new Float64Array(count);
  for (let at = 0; at < state.length; at++) found.fill(value[at] as number, state[at] as number, state[at + 1] ?? count);
  return found;
}
