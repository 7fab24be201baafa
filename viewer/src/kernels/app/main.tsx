/** Starts the page: reads the head, shows the summary, and follows the theme and the address. */

import { effect } from "@preact/signals";
import { render } from "preact";
import { startTheme } from "../../base/theme-switch";
import { blocksOf } from "../../data/page-blocks";
import { readHead } from "../data/document";
import { Store } from "../data/store";
import { parseAddress } from "../views/address";
import { onKey } from "../views/keys";
import { Model } from "../views/model";
import { Page } from "../views/page";

/** Synchronizes the URL fragment and the page in both directions. */
function startAddress(model: Model): void {
  let own = window.location.hash;
  const go = (): void => {
    const address = parseAddress(window.location.hash);
    if (address) model.go(address);
  };
  go();
  window.addEventListener("hashchange", () => {
    if (window.location.hash !== own) go();
  });
  let isFirst = true;
  let page = model.page.peek();
  effect(() => {
    const next = model.address();
    const isOther = model.page.peek() !== page;
    page = model.page.peek();
    if (!isFirst && next !== window.location.hash) {
      own = next;
      // Going back leads to the page before; the steps within a page are one entry.
      if (isOther) window.history.pushState(null, "", next);
      else window.history.replaceState(null, "", next);
      if (isOther) window.scrollTo(0, 0);
    }
    isFirst = false;
  });
}

function start(): void {
  const root = document.getElementById("warpline-app");
  const text = document.getElementById("warpline-head")?.textContent;
  if (!root || !text) return;
  try {
    const model = new Model(new Store(readHead(text), blocksOf(document)));
    Object.assign(window, { warpline: { model } });
    startTheme(model.theme);
    startAddress(model);
    const run = async (): Promise<void> => {
      await model.start();
      document.getElementById("warpline-static")?.remove();
      render(<Page model={model} />, root);
      document.addEventListener("keydown", (event) => {
        if (onKey(model, event)) event.preventDefault();
      });
      performance.mark("warpline-shown");
    };
    run().catch((error: unknown) => {
      root.textContent = error instanceof Error ? error.message : String(error);
    });
  } catch (error) {
    root.textContent = error instanceof Error ? error.message : String(error);
  }
}

start();
