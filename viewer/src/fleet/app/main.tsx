/** Starts the page: reads its data, and draws the maps again when the theme or the width changes. */

import { render } from "preact";
import { problemText } from "../../base/page-address";
import { blocksOf } from "../../data/page-blocks";
import { readData } from "../data/document";
import { Changes } from "../views/changes";
import { Page } from "../views/page";

async function start(root: HTMLElement, text: string): Promise<void> {
  const data = await readData(text, blocksOf(document));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const show = (): void => {
    const shown = { theme: dark.matches ? "dark" : "light", room: roomIn(root) } as const;
    render(data.kind === "job" ? <Page data={data} {...shown} /> : <Changes data={data} {...shown} />, root);
  };
  show();
  dark.addEventListener("change", show);
  new ResizeObserver(show).observe(root);
  Object.assign(window, { warpline: { model: data } });
  performance.mark("warpline-shown");
}

/** Returns the width of an element inside its padding. */
function roomIn(root: HTMLElement): number {
  const style = getComputedStyle(root);
  return root.clientWidth - Number.parseFloat(style.paddingLeft) - Number.parseFloat(style.paddingRight);
}

const root = document.getElementById("warpline-app");
const text = document.getElementById("warpline-head")?.textContent;
if (root && text) {
  start(root, text).catch((error: unknown) => {
    root.textContent = problemText(error);
  });
}
