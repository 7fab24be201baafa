/** The topics of the tables, for shortcuts and the list of tables. */

import type { Model } from "./model";

export type Topic =
  | "findings"
  | "kernels"
  | "calls"
  | "operators"
  | "ranges"
  | "memory"
  | "collectives"
  | "steps"
  | "recording";

export interface TopicSpec {
  readonly topic: Topic;
  readonly title: string;
  /** Names of tables, the default one first. */
  readonly tables: readonly string[];
}

export const TOPICS: readonly TopicSpec[] = [
  {
    topic: "kernels",
    title: "Kernels",
    tables: ["cuda_gpu_kern_sum", "kernel_class_sum", "cuda_gpu_kern_gb_sum", "cuda_kern_exec_sum", "kernel_durations", "launch_queue"],
  },
  { topic: "calls", title: "API and OS calls", tables: ["cuda_api_sum", "cuda_api_gpu_sum", "osrt_sum"] },
  { topic: "operators", title: "Operators", tables: ["op_sum", "op_kern_sum"] },
  {
    topic: "ranges",
    title: "Ranges and layers",
    tables: ["layers", "phases", "range_gpu_sum", "nvtx_sum"],
  },
  {
    topic: "memory",
    title: "Copies and memory",
    tables: ["copy_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "copy_rates", "memory_peak", "memory_use"],
  },
  {
    topic: "collectives",
    title: "Collectives and ranks",
    tables: ["collective_kern_sum", "collective_waits", "collective_sizes", "rank_sum", "stragglers", "wait_matrix", "rank_differences"],
  },
  {
    topic: "steps",
    title: "Steps and time",
    tables: ["steps", "rank_steps", "step_parts", "step_differences", "breakdown", "overlap"],
  },
  { topic: "recording", title: "Recording", tables: [] },
];

/** Groups tables by topic. Tables without a topic go to the last one. Empty topics are omitted. */
export function byTopic<T extends { readonly name: string }>(
  tables: readonly T[],
): { readonly title: string; readonly topic: Topic; readonly tables: readonly T[] }[] {
  const named = new Map(TOPICS.flatMap((spec) => spec.tables.map((name) => [name, spec.topic] as const)));
  const place = (spec: TopicSpec, table: T): number => spec.tables.indexOf(table.name.split(":")[0] ?? "");
  return TOPICS.map((spec) => ({
    title: spec.title,
    topic: spec.topic,
    tables: tables
      .filter((one) => (named.get(one.name.split(":")[0] ?? "") ?? "recording") === spec.topic)
      .sort((a, b) => place(spec, a) - place(spec, b)),
  })).filter((one) => one.tables.length > 0);
}

/** Returns the table of a name without arguments: "steps" can be "steps:name=forward". */
export function tableNamed<T extends { readonly name: string }>(tables: readonly T[], name: string): T | undefined {
  return tables.find((one) => one.name.split(":")[0] === name);
}

/** Opens the first table of a topic, or the findings. Announces when the recording has no such table. */
export function openTopic(model: Model, topic: Topic): void {
  if (topic === "findings") {
    model.page.value = "overview";
    requestAnimationFrame(() => document.getElementById("wl-findings")?.scrollIntoView());
    return;
  }
  const found = byTopic(model.recording.head.results).find((one) => one.topic === topic);
  const [first] = found?.tables ?? [];
  if (!first) {
    const title = TOPICS.find((one) => one.topic === topic)?.title ?? topic;
    model.tell(`${title}: no such table in this recording.`);
    return;
  }
  model.table.value = first.name;
  model.page.value = "tables";
}
