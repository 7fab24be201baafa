/** A recording in progress: what its server says once per second. `docs/top.schema.json` describes the numbers. */

import type { Blocks } from "./blocks";
import { CONTAINER_VERSION, type Head } from "./head";
import type { Server } from "./server";

export interface LiveGpu {
  readonly gpu: number;
  readonly gpu_name: string | null;
  readonly busy_ns: number;
  readonly operations: number;
}

interface LiveRank {
  readonly pid: number;
  readonly process: string | null;
  readonly rank: number | null;
  readonly gpu: number | null;
  readonly gpu_name: string | null;
}

export interface LiveTimes extends LiveRank {
  readonly busy_ns: number;
  readonly parts_ns: Readonly<Record<string, number>>;
}

export interface LiveSteps extends LiveRank {
  readonly count: number;
  readonly per_s: number;
  readonly median_ns: number | null;
  readonly last_ns: number;
}

interface LivePart {
  readonly start_ns: number;
  readonly end_ns: number;
  readonly is_settled: boolean;
}

export interface LiveUpdate {
  readonly name: string;
  readonly now_ns: number;
  readonly is_recording: boolean;
  readonly lost_events: number;
  readonly damaged_logs: number;
  readonly second: (LivePart & { readonly gpus: readonly LiveGpu[] }) | null;
  readonly times: (LivePart & { readonly ranks: readonly LiveTimes[] }) | null;
  readonly steps: (LivePart & { readonly ranks: readonly LiveSteps[] }) | null;
}

export interface LiveAnswer {
  readonly update: LiveUpdate;
  /** Why there will be no more; null: there will. */
  readonly failure: string | null;
  /** Counts the pictures; 0: there is none yet. */
  readonly version: number;
  /** The picture, if it is a later one than the known one. */
  readonly head?: Head;
  readonly blocks?: readonly string[];
}

/** Asks for the numbers, and for the picture if it is later than the `known` one; `known` null: not for the picture. */
export async function askLive(server: Server, known: number | null): Promise<LiveAnswer> {
  const path = known === null ? "live" : `live?known=${known}`;
  const answer = await server.request(path, { cache: "no-store" }, async (one) => (await one.json()) as LiveAnswer);
  if (answer.head && answer.head.container_version !== CONTAINER_VERSION) throw new Error("The server has another version: reload the page.");
  return answer;
}

/** The blocks of an answer. */
export function blocksOf(answer: LiveAnswer): Blocks {
  const { blocks = [] } = answer;
  return {
    get(block) {
      const packed = blocks[block];
      return packed === undefined ? Promise.reject(new Error(`Block ${block} is missing.`)) : Promise.resolve(packed);
    },
  };
}
