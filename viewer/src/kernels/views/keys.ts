/** Keyboard shortcuts of the page. */

import type { PageName } from "./address";
import type { Model } from "./model";

const PAGES: readonly PageName[] = ["summary", "details", "source"];
const FIELDS = "input, select, textarea";

/** Handles a key; returns whether it was one of ours. Letters in fields are text. */
export function onKey(model: Model, event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const target = event.target as Element | null;
  if (target?.matches?.(FIELDS)) return false;
  const page = PAGES[Number(event.key) - 1];
  if (page) {
    if (page !== "details" || model.store.head.launches > 0) model.page.value = page;
    return true;
  }
  switch (event.key) {
    case "t":
      model.theme.value = model.theme.peek() === "dark" ? "light" : "dark";
      return true;
    case "j":
    case "k":
      if (model.page.peek() !== "details") return false;
      model.step(event.key === "j" ? 1 : -1);
      return true;
    case "/": {
      const field = document.querySelector<HTMLInputElement>("main input[type=search]");
      field?.focus();
      return field !== null;
    }
    case "Escape":
      model.choose(null);
      return true;
    default:
      return false;
  }
}
