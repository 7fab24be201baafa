/** Starts the page: reads the head, decodes the first tree, and follows the theme and the address. */

import { effect } from "@preact/signals";
import { render } from "preact";
import { startTheme } from "../../base/theme-switch";
import { blocksOf } from "../../data/page-blocks";
import { readHead } from "../data/document";
import { parseAddress } from "../views/address";
import { onKey } from "../views/keys";
import { Model } from "../views/model";
import { Page } from "../views/page";

function problemText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Synchronizes the URL fragment and the page in both directions. */
function startAddress(model: Model): void {
  let own = window.location.hash;
  window.addEventListener("hashchange", () => {
    if (window.location.hash === own) return;
    own = window.location.hash;
    model.go(parseAddress(own)).catch((error: unknown) => (model.problem.value = problemText(error)));
  });
  let isFirst = true;
  effect(() => {
    const next = model.addressText;
    if (!isFirst && next !== window.location.hash) {
      own = next;
      window.history.replaceState(null, "", next);
    }
    isFirst = false;
  });
}

async function start(root: HTMLElement, text: string): Promise<void> {
  const model = new Model(readHead(text), blocksOf(document));
  Object.assign(window, { warpline: { model } });
  startTheme(model.theme);
  await model.go(parseAddress(window.location.hash));
  startAddress(model);
  render(<Page model={model} />, root);
  document.getElementById("warpline-static")?.remove(); // the table without the script
  document.addEventListener("keydown", (event) => {
    if (onKey(model, event)) event.preventDefault();
  });
  performance.mark("warpline-shown");
}

const root = document.getElementById("warpline-app");
const text = document.getElementById("warpline-head")?.textContent;
if (root && text) {
  start(root, text).catch((error: unknown) => {
    root.textContent = problemText(error);
  });
}
