/** The theme of a page: the system's until the user switches, and light on paper. */

import { effect, type Signal } from "@preact/signals";

export type Theme = "dark" | "light";

/** Follows the system's theme and shows that of the signal. */
export function startTheme(theme: Signal<Theme>): void {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const follow = (): void => {
    theme.value = dark.matches ? "dark" : "light";
  };
  follow();
  dark.addEventListener("change", follow);
  let isPaper = false; // paper is white, and browsers print no backgrounds
  const show = (): void => {
    document.documentElement.dataset["theme"] = isPaper ? "light" : theme.value;
  };
  const print = (is: boolean): void => {
    isPaper = is;
    show();
  };
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  effect(show);
}
