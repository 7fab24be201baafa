/** Asynchronous queries: only the latest counts, and the previous answer stays until it arrives. */

import { batch, effect, type ReadonlySignal, signal } from "@preact/signals";
import { useEffect, useReducer, useRef, useState } from "preact/hooks";
import { type Answers, type Found, MOST_LINES } from "../data/answers";
import type { RowStretch } from "./model";

/** The latest answer to a query. While `isPending`, it answers an earlier query than the present one. */
export type Followed<T> = ReadonlySignal<T> & { readonly isPending: ReadonlySignal<boolean> };

/**
 * Returns a signal with the answer to a query. The query runs again whenever a signal changes that
 * `ask` reads synchronously. One query is in flight at a time: of those that come up meanwhile, as
 * while the mouse drags, only the last runs. After a failed query the answer stays pending.
 */
export function follow<T>(first: T, ask: () => Promise<T> | T): Followed<T> {
  const answer = signal(first);
  const isPending = signal(false);
  const turn = signal(0);
  let isAsking = false;
  let isOutdated = false;
  effect(() => {
    void turn.value;
    if (isAsking) {
      isOutdated = true;
      return;
    }
    const found = ask();
    isPending.value = found instanceof Promise;
    if (!(found instanceof Promise)) {
      answer.value = found;
      return;
    }
    isAsking = true;
    const done = (): void => {
      isAsking = false;
      if (isOutdated) turn.value = turn.peek() + 1;
      isOutdated = false;
    };
    found.then((value) => {
      batch(() => {
        if (!isOutdated) answer.value = value;
        isPending.value = isOutdated;
      });
      done();
    }, done);
  });
  return Object.assign(answer, { isPending });
}

/** Does the same as `follow` in a component: `ask` is called when `on` changes. */
export function useAnswer<T>(
  first: T,
  ask: () => Promise<T>,
  on: readonly unknown[],
): { readonly value: T; readonly isPending: boolean } {
  const [answer, setAnswer] = useState<{ readonly value: T; readonly on: readonly unknown[] }>({ value: first, on: [] });
  useEffect(() => {
    let isStale = false;
    ask().then(
      (value) => !isStale && setAnswer({ value, on }),
      () => undefined,
    );
    return () => {
      isStale = true;
    };
  }, on);
  const isPending = on.length !== answer.on.length || on.some((one, i) => one !== answer.on[i]);
  return { value: answer.value, isPending };
}

const MOST_IDS = 5000;

/** Returns a function from an event to its id, empty until it has arrived. */
export function useIds(answers: Answers): (row: number, event: number) => string {
  const [, redraw] = useReducer((turn: number) => turn + 1, 0);
  const known = useRef(new Map<string, string>());
  return (row, event) => {
    const key = `${row}/${event}`;
    const ids = known.current;
    const id = ids.get(key);
    if (id !== undefined) return id;
    if (ids.size >= MOST_IDS) ids.clear();
    ids.set(key, "");
    answers.event(row, event).then(
      (found) => {
        ids.set(key, found?.id ?? "");
        redraw(undefined);
      },
      () => ids.delete(key),
    );
    return "";
  };
}

const PAGE = 100; // lines per request
const MOST_PAGES = 50;

/** Returns the number of lines, and a function from a line to its event, null until it has arrived. */
export function useLines(
  answers: Answers,
  stretches: readonly RowStretch[],
): { readonly count: number; readonly at: (line: number) => Found | null } {
  const [, redraw] = useReducer((turn: number) => turn + 1, 0);
  const state = useRef<Lines | null>(null);
  if (state.current?.stretches !== stretches) state.current = new Lines(answers, stretches);
  state.current.changed = () => redraw(undefined);
  return state.current;
}

/** The lines of a table of events, requested a page at a time. The oldest pages are evicted. */
class Lines {
  readonly count: number;
  changed: () => void = () => undefined;
  private readonly before: number[] = [];
  private readonly pages = new Map<string, readonly Found[] | null>();

  constructor(
    private readonly answers: Answers,
    readonly stretches: readonly RowStretch[],
  ) {
    let count = 0;
    for (const { first, last } of stretches) {
      this.before.push(count);
      count += last - first;
    }
    this.count = count;
  }

  readonly at = (line: number): Found | null => {
    const place = this.stretchOf(line);
    const stretch = this.stretches[place];
    if (!stretch) return null;
    const inside = line - (this.before[place] as number);
    const page = Math.floor(inside / PAGE);
    return this.pageOf(place, page)?.[inside - page * PAGE] ?? null;
  };

  private stretchOf(line: number): number {
    let low = 0;
    let high = this.before.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if ((this.before[middle] as number) <= line) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  private pageOf(place: number, page: number): readonly Found[] | null {
    const key = `${place}/${page}`;
    const known = this.pages.get(key);
    if (known !== undefined) return known;
    const { row, first, last } = this.stretches[place] as RowStretch;
    const from = first + page * PAGE;
    this.pages.set(key, null);
    if (this.pages.size > MOST_PAGES) this.pages.delete(this.pages.keys().next().value as string);
    const until = Math.min(last, from + Math.min(PAGE, MOST_LINES));
    this.answers.stretch(row, from, until).then(
      (found) => {
        this.pages.set(key, found);
        this.changed();
      },
      () => this.pages.delete(key),
    );
    return null;
  }
}
