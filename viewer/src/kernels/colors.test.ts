import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { contrast, fromHex } from "../base/colour";
import { LEAST_CONTRAST, THEMES, type ThemeName } from "../engine/theme";

const CSS = readFileSync(new URL("app/kernels.css", import.meta.url), "utf8");
const LEAST_OF_TEXT = 4.5;

/** The colors of a theme: the light one changes some of the dark one. */
function colorsOf(theme: ThemeName): Map<string, string> {
  const [dark = "", light = ""] = CSS.split(':root[data-theme="light"]');
  const text = theme === "dark" ? dark : dark + light.slice(0, light.indexOf("}"));
  return new Map([...text.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, name = "", value = ""]) => [name, value]));
}

describe.each(["dark", "light"] as const)("the colors of the %s page of kernels", (theme) => {
  it("differ from the background", () => {
    const colors = colorsOf(theme);
    expect(colors.size).toBe(12);
    for (const [name, value] of colors) {
      const least = name === "severe" || name === "medium" ? LEAST_OF_TEXT : LEAST_CONTRAST;
      const found = contrast(fromHex(value), THEMES[theme].background);
      expect(found, `${name} ${value}`).toBeGreaterThanOrEqual(least);
    }
  });
});
