/** The URL fragment of a page, which has all that is chosen. */

import { effect, type Signal } from "@preact/signals";

export function problemText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Synchronizes the fragment and the page in both directions. A fragment that the user changed goes to the page;
 * what keeps it from being shown, to `problem`.
 */
export function startAddress(text: () => string, go: (fragment: string) => Promise<void>, problem: Signal<string | null>): void {
  let own = window.location.hash;
  window.addEventListener("hashchange", () => {
    if (window.location.hash === own) return;
    own = window.location.hash;
    go(own).catch((error: unknown) => (problem.value = problemText(error)));
  });
  let isFirst = true;
  effect(() => {
    const next = text();
    if (!isFirst && next !== window.location.hash) {
      own = next;
      window.history.replaceState(null, "", next);
    }
    isFirst = false;
  });
}
