/** The state of the page: what is shown, and the data of it that has arrived. */

import { computed, effect, signal } from "@preact/signals";
import type { Code, Kernel, Row } from "../data/document";
import type { Store } from "../data/store";
import { type Address, formatAddress, type PageName } from "./address";

export type ThemeName = "light" | "dark";

/** What is chosen in code: a line of a file, or an instruction. */
export type Chosen =
  | { readonly kind: "line"; readonly file: number; readonly line: number }
  | { readonly kind: "instruction"; readonly place: number };

export interface Sorting {
  readonly key: string;
  readonly isDescending: boolean;
}

export class Model {
  readonly page = signal<PageName>("summary");
  readonly rows = signal<readonly Row[]>([]);
  /** Place in `rows` of the launch on the page Details. */
  readonly row = signal(0);
  readonly kernel = signal<Kernel | null>(null);
  /** Place in `head.code` of the function on the page Source. */
  readonly codePlace = signal(0);
  readonly code = signal<Code | null>(null);
  readonly metric = signal<string | null>(null);
  /** The file beside the instructions; null for the hottest. */
  readonly file = signal<number | null>(null);
  readonly chosen = signal<Chosen | null>(null);
  readonly filter = signal("");
  readonly sorting = signal<Sorting>({ key: "duration_ns", isDescending: true });
  readonly theme = signal<ThemeName>("light");
  readonly isComplete = signal(false);
  readonly problem = signal<string | null>(null);
  readonly shown = computed(() => this.rows.value[this.row.value] ?? null);

  constructor(readonly store: Store) {}

  /** Loads the rows, and from then on whatever the page needs. */
  async start(): Promise<void> {
    this.rows.value = await this.store.rows();
    if (!this.rows.value.length && this.store.head.code.length && this.page.peek() === "details") this.page.value = "source";
    effect(() => {
      const row = this.shown.value;
      this.kernel.value = null;
      if (row && this.page.value === "details") this.#take(this.store.kernel(row), this.kernel, () => this.shown.peek() === row);
    });
    effect(() => {
      const place = this.codePlace.value;
      this.code.value = null;
      if (this.page.value === "source") this.#take(this.store.code(place), this.code, () => this.codePlace.peek() === place);
    });
    this.isComplete.value = true;
  }

  #take<T>(coming: Promise<T> | null, to: { value: T | null }, isWanted: () => boolean): void {
    coming?.then(
      (value) => {
        if (isWanted()) to.value = value;
      },
      (error: unknown) => this.fail(error),
    );
  }

  fail(error: unknown): void {
    this.problem.value = error instanceof Error ? error.message : String(error);
  }

  openKernel(row: number): void {
    this.row.value = row;
    this.page.value = "details";
  }

  /** Shows the code of a function, and a line of it, if its file is named. */
  openCode(place: number, line: { readonly path: string; readonly line: number } | null = null): void {
    if (place !== this.codePlace.peek()) {
      this.chosen.value = null;
      this.file.value = null;
    }
    this.codePlace.value = place;
    this.page.value = "source";
    if (!line) return;
    this.store.code(place)?.then((code) => {
      const file = code.files.findIndex(({ path }) => path === line.path || path.endsWith(`/${line.path}`));
      if (file >= 0) this.choose({ kind: "line", file, line: line.line });
    }, (error: unknown) => this.fail(error));
  }

  choose(chosen: Chosen | null): void {
    this.chosen.value = chosen;
    if (chosen?.kind === "line") this.file.value = chosen.file;
  }

  /** The next launch with details, in the order of the list; the same at its ends. */
  step(by: 1 | -1): void {
    const rows = this.rows.peek();
    let at = this.row.peek() + by;
    while (rows[at] && rows[at].block_number === null) at += by;
    if (rows[at]) this.row.value = at;
  }

  address(): string {
    const chosen = this.chosen.value;
    return formatAddress({
      page: this.page.value,
      row: this.row.value,
      code: this.codePlace.value,
      metric: this.metric.value,
      chosen,
    });
  }

  go(address: Address): void {
    this.page.value = address.page;
    if (address.row !== null) this.row.value = address.row;
    if (address.code !== null) this.codePlace.value = address.code;
    if (address.page !== "source") return;
    this.metric.value = address.metric;
    this.choose(address.chosen);
  }
}
