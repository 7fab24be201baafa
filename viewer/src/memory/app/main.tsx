/** Starts the page: reads the head, decodes the memory, and follows the theme and the address. */

import { render } from "preact";
import { problemText, startAddress } from "../../base/page-address";
import { startTheme } from "../../base/theme-switch";
import { blocksOf } from "../../data/page-blocks";
import { readHead } from "../data/document";
import { Store } from "../data/store";
import { parseAddress } from "../views/address";
import { onKey } from "../views/keys";
import { Model } from "../views/model";
import { Page } from "../views/page";

async function start(root: HTMLElement, text: string): Promise<void> {
  const model = new Model(new Store(readHead(text), blocksOf(document)));
  Object.assign(window, { warpline: { model } });
  startTheme(model.theme);
  const go = (fragment: string): Promise<void> => model.go(parseAddress(fragment, model.store.head.by));
  await go(window.location.hash);
  startAddress(() => model.addressText, go, model.problem);
  render(<Page model={model} />, root);
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
