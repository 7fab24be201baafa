/** The numbers of a recording in progress as the rows of a table: one per process and GPU. */

import type { LiveGpu, LiveSteps, LiveTimes, LiveUpdate } from "./live";

export interface LiveRow {
  readonly key: string;
  readonly gpu: number | null;
  readonly gpuName: string | null;
  readonly pid: number | null;
  readonly process: string | null;
  readonly rank: number | null;
  readonly now: LiveGpu | null;
  readonly times: LiveTimes | null;
  readonly steps: LiveSteps | null;
}

export interface Cause {
  readonly name: string;
  readonly share: number;
}

const keyOf = (one: { readonly gpu: number | null; readonly pid: number }): string => `${one.gpu ?? ""}/${one.pid}`;

/** Returns the rows by GPU, with GPUs at rest; processes that use none come last. */
export function liveRows({ second, times, steps }: LiveUpdate): readonly LiveRow[] {
  const rows = new Map<string, LiveRow>();
  const ranks = [...(times?.ranks ?? []), ...(steps?.ranks ?? [])];
  for (const one of ranks) {
    const key = keyOf(one);
    rows.set(key, {
      key,
      ...{ gpu: one.gpu, gpuName: one.gpu_name, pid: one.pid, process: one.process, rank: one.rank },
      now: second?.gpus.find(({ gpu }) => gpu === one.gpu) ?? null,
      times: times?.ranks.find((own) => keyOf(own) === key) ?? null,
      steps: steps?.ranks.find((own) => keyOf(own) === key) ?? null,
    });
  }
  const used = new Set([...rows.values()].map(({ gpu }) => gpu));
  for (const now of second?.gpus ?? []) {
    if (used.has(now.gpu)) continue;
    const nobody = { pid: null, process: null, rank: null, times: null, steps: null };
    rows.set(`${now.gpu}/`, { key: `${now.gpu}/`, gpu: now.gpu, gpuName: now.gpu_name, now, ...nobody });
  }
  const place = (row: LiveRow): number => row.gpu ?? Number.MAX_SAFE_INTEGER;
  return [...rows.values()].sort((a, b) => place(a) - place(b) || (a.pid ?? 0) - (b.pid ?? 0));
}

/** Returns the causes of idle time as shares of the window, the largest first. */
export function causesOf(times: LiveTimes, windowNs: number, isIdle: (name: string) => boolean): readonly Cause[] {
  return Object.entries(times.parts_ns)
    .filter(([name]) => isIdle(name))
    .map(([name, ns]) => ({ name, share: ns / windowNs }))
    .sort((a, b) => b.share - a.share);
}
