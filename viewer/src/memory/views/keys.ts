/** Keyboard shortcuts. */

import type { Pool } from "../data/pool";
import { xOf } from "../plots/layers";
import type { Model } from "./model";
import { switchTheme } from "./page";

const FAR = 100;
const ZOOM = 0.6;
const MOVE = 0.2;

/** Handles a key; returns whether it was one of the page's. */
export function onKey(model: Model, event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  if (event.ctrlKey || event.metaKey || event.altKey || target?.closest("input, select, textarea")) return false;
  const far = event.shiftKey ? FAR : 1;
  switch (event.key) {
    case "ArrowLeft":
      model.stepBy(-far);
      return true;
    case "ArrowRight":
      model.stepBy(far);
      return true;
    case "+":
    case "=":
      model.zoomBy(ZOOM, momentX(model));
      return true;
    case "-":
      model.zoomBy(1 / ZOOM, momentX(model));
      return true;
    case "a":
      model.moveBy(-MOVE);
      return true;
    case "d":
      model.moveBy(MOVE);
      return true;
    case "0":
      model.zoom.value = null;
      return true;
    case "p":
      model.choose(null);
      return true;
    case "t":
      switchTheme(model);
      return true;
    default:
      return false;
  }
}

/** Returns where the moment is on the axis, or the middle of the view if it is elsewhere. */
function momentX(model: Model): number {
  const last = model.pools.peek().length - 1;
  const x = xOf(model.pools.peek()[last] as Pool, model.axis.peek(), model.moment.peek()[last] as number) - (model.origins.peek()[last] as number);
  const { low, high } = model.view.peek();
  return x >= low && x <= high ? x : (low + high) / 2;
}
