import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { expectLayer } from "../../dev/layers";
import { contrast, fromHex } from "../base/colour";
import { LEAST_CONTRAST, THEMES, type ThemeName } from "../engine/theme";

const LAYERS = ["data", "plots", "views", "app"];
/** What the page takes from that of the timeline: nothing with a state. */
const SHARED = ["../../base/", "../../data/page-blocks", "../../plots/scale"];
const HERE = new URL("./", import.meta.url);

describe("the layers of the page of memory", () => {
  it.each(LAYERS)("%s imports only from those below and what the pages share", (layer) => {
    expectLayer(HERE, LAYERS, layer, SHARED);
  });
});

const CSS = readFileSync(new URL("app/memory.css", import.meta.url), "utf8");

function colorsOf(theme: ThemeName): Map<string, string> {
  const [dark = "", light = ""] = CSS.split(':root[data-theme="light"]');
  const text = theme === "dark" ? dark : dark + light.slice(0, light.indexOf("}"));
  return new Map([...text.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, name = "", value = ""]) => [name, value]));
}

describe.each(["dark", "light"] as const)("the colors of the %s page of memory", (theme) => {
  it("differ from the background", () => {
    const colors = colorsOf(theme);
    expect(colors.size).toBe(15);
    for (const [name, value] of colors) {
      const least = name === "severe" || name === "medium" ? 4.5 : LEAST_CONTRAST;
      expect(contrast(fromHex(value), THEMES[theme].background), `${name} ${value}`).toBeGreaterThanOrEqual(least);
    }
  });
});
