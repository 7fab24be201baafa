/** Keyboard shortcuts. */

import { neighbour } from "../plots/graph";
import type { Model } from "./model";

/** Handles a key; returns whether it was one of the page's. */
export function onKey(model: Model, event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  if (event.ctrlKey || event.metaKey || event.altKey || target?.closest("input:not([type=checkbox]), select, textarea")) return false;
  const graph = model.graph.peek();
  if (!graph) return false;
  switch (event.key) {
    case "ArrowUp":
    case "ArrowDown":
    case "ArrowLeft":
    case "ArrowRight":
      model.pointed.value = null;
      model.chosen.value = neighbour(graph, model.chosen.peek(), event.key);
      return true;
    case "Enter":
      if (target?.closest("button, a, summary")) return false;
      model.zoomTo(model.chosen.peek());
      return true;
    case "Escape":
      model.zoomTo(model.zoom.peek().slice(0, -1));
      return true;
    case "0":
      model.zoomTo([]);
      return true;
    case "i":
      model.change(() => (model.isInverted.value = !model.isInverted.peek()));
      return true;
    case "/":
      document.getElementById("search")?.focus();
      return true;
    case "t":
      model.theme.value = model.theme.peek() === "dark" ? "light" : "dark";
      return true;
    default:
      return false;
  }
}
