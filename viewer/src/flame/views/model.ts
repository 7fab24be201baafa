/** The state of the page: which tree is shown, how, and what of it. */

import { batch, computed, signal } from "@preact/signals";
import { searchPattern } from "../../base/text";
import type { Theme } from "../../base/theme-switch";
import { PageBlocks, type FindBlock } from "../../data/page-blocks";
import type { Head } from "../data/document";
import { type Loaded, loadNodes, pythonOnly } from "../data/nodes";
import { type Branch, functionsBelow, Graph } from "../plots/graph";
import { type Address, formatAddress } from "./address";

export class Model {
  readonly theme = signal<Theme>("light");
  readonly of = signal("");
  readonly isPython = signal(false);
  readonly byThread = signal(false);
  readonly byLine = signal(false);
  readonly isInverted = signal(false);
  /** The only thread that is shown; -1 for all. */
  readonly thread = signal(-1);
  readonly search = signal("");
  /** Keys of the branches from the root to the one with the whole width. */
  readonly zoom = signal<readonly number[]>([]);
  /** Where the keyboard is, and the pointer. */
  readonly chosen = signal<readonly number[]>([]);
  readonly pointed = signal<readonly number[] | null>(null);
  readonly problem = signal<string | null>(null);
  readonly isComplete = signal(false);
  readonly #all = signal<Loaded | null>(null);
  readonly #page: PageBlocks;

  readonly loaded = computed(() => {
    const all = this.#all.value;
    return all && this.isPython.value ? pythonOnly(all) : all;
  });
  readonly graph = computed(() => {
    const loaded = this.loaded.value;
    const { byThread, byLine, isInverted, thread } = this;
    return loaded && new Graph(loaded, { byThread: byThread.value, byLine: byLine.value, isInverted: isInverted.value, thread: thread.value });
  });
  readonly pattern = computed(() => searchPattern(this.search.value));
  readonly found = computed(() => {
    const [graph, pattern] = [this.graph.value, this.pattern.value];
    return graph && pattern ? graph.timeOf((label) => pattern.test(this.textOf(graph, label, true))) : null;
  });
  /** The functions of what has the whole width; of inverted graphs, of all. */
  readonly functions = computed(() => {
    const [graph, loaded] = [this.graph.value, this.loaded.value];
    if (!graph || !loaded) return [];
    const path = graph.along(this.zoom.value);
    const branch = path[path.length - 1] as Branch;
    const isWhole = graph.options.isInverted || branch === graph.root;
    return functionsBelow(loaded, isWhole ? null : branch.nodes, this.thread.value);
  });

  constructor(
    readonly head: Head,
    find: FindBlock,
  ) {
    this.#page = new PageBlocks(find, head.blocks);
    this.of.value = head.of;
    this.isPython.value = head.python_only;
  }

  async go(address: Address): Promise<void> {
    await this.show(address.of ?? this.head.of);
    const threads = this.#all.peek()?.spec.threads.length ?? 0;
    batch(() => {
      this.isPython.value = address.isPython ?? this.head.python_only;
      this.byThread.value = address.byThread;
      this.byLine.value = address.byLine;
      this.isInverted.value = address.isInverted;
      this.thread.value = address.thread < threads ? address.thread : -1;
      this.search.value = address.search;
      this.zoomTo(address.zoom);
    });
    this.isComplete.value = true;
  }

  /** Shows the tree of another kind of time. */
  async show(of: string): Promise<void> {
    const spec = this.head.views.find((one) => one.of === of) ?? this.head.views[0];
    if (!spec) throw new Error("The report has no stacks.");
    const loaded = await loadNodes(spec, this.#page);
    batch(() => {
      this.of.value = spec.of;
      this.thread.value = -1;
      this.zoomTo([]);
      this.#all.value = loaded;
    });
  }

  /** Changes how the graph is made: what was zoomed in may not exist in another one. */
  change(set: () => void): void {
    batch(() => {
      set();
      this.zoomTo([]);
    });
  }

  zoomTo(path: readonly number[]): void {
    batch(() => {
      this.zoom.value = path;
      this.chosen.value = path;
      this.pointed.value = null;
    });
  }

  /** Returns the text of a label, with its line if lines are apart; `isLong` adds the module. */
  textOf(graph: Graph, label: number, isLong = false): string {
    const { name, module, line } = graph.labels;
    const file = module[label] ?? "";
    const at = graph.options.byLine && line[label] ? `:${line[label]}` : "";
    const place = isLong ? `${file}${at}` : at ? `${file.slice(file.lastIndexOf("/") + 1)}${at}` : "";
    return `${name[label] ?? ""}${place ? ` (${place})` : ""}`;
  }

  nameOf(graph: Graph, branch: Branch, isLong = false): string {
    if (branch.label >= 0) return this.textOf(graph, branch.label, isLong);
    return branch.thread >= 0 ? (this.loaded.peek()?.spec.threads[branch.thread] ?? "") : "all";
  }

  get addressText(): string {
    return formatAddress({
      of: this.of.value,
      isPython: this.isPython.value === this.head.python_only ? null : this.isPython.value,
      byThread: this.byThread.value,
      byLine: this.byLine.value,
      isInverted: this.isInverted.value,
      thread: this.thread.value,
      search: this.search.value,
      zoom: this.zoom.value,
    });
  }
}
