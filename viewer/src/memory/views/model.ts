/** The state of the page: the memory that is shown, how, and the chosen moment. */

import { batch, computed, signal } from "@preact/signals";
import type { Theme } from "../../base/theme-switch";
import { BYS, type By, type NamedSpan } from "../data/document";
import type { Pool } from "../data/pool";
import type { Store } from "../data/store";
import { type Axis, layeringOf, stateAt, xOf } from "../plots/layers";
import { type Address, formatAddress } from "./address";

export interface View {
  readonly low: number;
  readonly high: number;
}

const LEAST_NS = 1000;
const LEAST_EVENTS = 10;
/** Texts of `align` beside the numbers of steps. */
export const FROM_START = -1;

export class Model {
  readonly theme = signal<Theme>("light");
  readonly by = signal<By>("kind");
  readonly axis = signal<Axis>("time");
  readonly place = signal(0);
  /** What is shown of each side. */
  readonly pools = signal<readonly Pool[]>([]);
  /** Number of the step whose start is 0 on the axis; -1 for the start of the recording. For two sides. */
  readonly align = signal(FROM_START);
  /** Null shows all. */
  readonly zoom = signal<View | null>(null);
  /** States of each side; null for the peaks. */
  readonly chosen = signal<readonly number[] | null>(null);
  /** States of each side under the pointer. */
  readonly pointed = signal<readonly number[] | null>(null);
  /** The layer whose blocks are listed; null for all. */
  readonly layer = signal<string | null>(null);
  readonly filter = signal("");
  readonly problem = signal<string | null>(null);
  readonly isComplete = signal(false);

  readonly layering = computed(() => layeringOf(this.pools.value, this.by.value));
  readonly origins = computed(() => this.pools.value.map((pool) => this.#originOf(pool)));
  readonly whole = computed<View>(() => {
    const ends = this.pools.value.flatMap((pool, side) => {
      const [axis, origin] = [this.axis.value, this.origins.value[side] as number];
      return [xOf(pool, axis, 0) - origin, xOf(pool, axis, pool.time.length - 1) - origin + (axis === "events" ? 1 : 0)];
    });
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    return { low, high: high > low ? high : low + 1 };
  });
  readonly view = computed(() => this.zoom.value ?? this.whole.value);
  readonly moment = computed(() => this.chosen.value ?? this.pools.value.map((pool) => pool.spec.peak.state));
  /** What the list of layers is about: the pointer, else the chosen moment. */
  readonly read = computed(() => this.pointed.value ?? this.moment.value);

  constructor(readonly store: Store) {}

  /** Names that blocks have in some memory; without any, there is nothing to choose. */
  get bys(): readonly By[] {
    const found = BYS.filter((by) => this.pools.value.some((pool) => pool.texts[by].length > 0));
    return found.length ? found : ["kind"];
  }

  get hasTwo(): boolean {
    return this.store.head.sides.length > 1;
  }

  async go({ by, axis, place, state }: Address): Promise<void> {
    await this.show(place);
    batch(() => {
      this.by.value = this.bys.includes(by) ? by : (this.bys[0] as By);
      this.axis.value = axis;
      const last = this.pools.value[this.pools.value.length - 1];
      if (state !== null && last && state < last.time.length) this.choose(this.statesAt(xOf(last, axis, state) - (this.origins.value[this.origins.value.length - 1] as number)));
    });
    this.isComplete.value = true;
  }

  /** Shows other memory; of a side without it, its last. */
  async show(place: number): Promise<void> {
    const { sides } = this.store.head;
    const pools = await Promise.all(sides.map(({ pools }, side) => this.store.pool(side, Math.max(0, Math.min(place, pools.length - 1)))));
    batch(() => {
      this.place.value = place;
      this.pools.value = pools;
      this.zoom.value = null;
      this.pointed.value = null;
      this.layer.value = null;
      this.choose(null);
    });
  }

  get address(): Address {
    const chosen = this.chosen.value;
    return { by: this.by.value, axis: this.axis.value, place: this.place.value, state: chosen?.[chosen.length - 1] ?? null };
  }

  get addressText(): string {
    return formatAddress(this.address);
  }

  choose(states: readonly number[] | null): void {
    this.chosen.value = states;
  }

  /** Returns the state of each side at a place of the axis. */
  statesAt(x: number): number[] {
    return this.pools.value.map((pool, side) => stateAt(pool, this.axis.value, x + (this.origins.value[side] as number)));
  }

  setAxis(axis: Axis): void {
    batch(() => {
      this.axis.value = axis;
      this.zoom.value = null;
    });
  }

  /** Shows a part of the axis, within all of it. */
  setView(low: number, high: number): void {
    const { whole } = this;
    const least = this.axis.value === "time" ? LEAST_NS : LEAST_EVENTS;
    const all = whole.value.high - whole.value.low;
    const size = Math.min(all, Math.max(least, high - low));
    const begin = Math.max(whole.value.low, Math.min(whole.value.high - size, (low + high - size) / 2));
    this.zoom.value = size >= all ? null : { low: begin, high: begin + size };
  }

  /** Enlarges around a place of the axis; factors below 1 show less. */
  zoomBy(factor: number, around: number): void {
    const { low, high } = this.view.peek();
    this.setView(around - (around - low) * factor, around + (high - around) * factor);
  }

  /** Moves the view by a part of its size. */
  moveBy(part: number): void {
    const { low, high } = this.view.peek();
    this.setView(low + part * (high - low), high + part * (high - low));
  }

  /** Moves the chosen moment by a number of allocations or frees. */
  stepBy(count: number): void {
    const moved = this.moment.peek().map((state, side) => Math.max(0, Math.min((this.pools.peek()[side] as Pool).time.length - 1, state + count)));
    batch(() => {
      this.choose(moved);
      this.#reveal();
    });
  }

  /** Moves the view so that the moment is in it. */
  #reveal(): void {
    const last = this.pools.peek().length - 1;
    const x = xOf(this.pools.peek()[last] as Pool, this.axis.peek(), this.moment.peek()[last] as number) - (this.origins.peek()[last] as number);
    const { low, high } = this.view.peek();
    if (x < low || x > high) this.setView(x - (high - low) / 2, x + (high - low) / 2);
  }

  /** Returns ranges of a side in units of the axis. */
  spansOf(side: number, spans: readonly NamedSpan[]): { name: string; low: number; high: number }[] {
    const [pool, origin] = [this.pools.value[side] as Pool, this.origins.value[side] as number];
    const at = (ns: number): number => (this.axis.value === "time" ? ns : stateAt(pool, "time", ns)) - origin;
    return spans.map(([name, start, end]) => ({ name, low: at(start), high: at(end) }));
  }

  #originOf(pool: Pool): number {
    if (!this.hasTwo) return 0;
    const step = pool.texts.steps[this.align.value];
    const state = step ? stateAt(pool, "time", step[1]) : 0;
    return this.axis.value === "time" ? (step?.[1] ?? xOf(pool, "time", 0)) : state;
  }
}
