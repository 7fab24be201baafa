import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { type Colour, contrast, fromHex, textOn } from "../base/colour";
import { paletteCss } from "./palette-css";
import {
  CATEGORY_NAMES,
  categoryInk,
  chooseInks,
  type ColourMode,
  knownCategory,
  LEAST_CONTRAST,
  type Theme,
  THEMES,
} from "./theme";

const THEME_LIST: readonly Theme[] = Object.values(THEMES);
const MANY = Array.from({ length: 200 }, (_, i) => `name ${i}`);

/** Simulates a color with deuteranopia (Viénot, Brettel, and Mollon 1999), in CIE Lab. */
function seen(colour: Colour): Colour {
  const [red, green, blue] = colour.map((value) => (value / 255) ** 2.2) as [number, number, number];
  const yellow = 0.29275 * red + 0.70725 * green;
  const [r, g, b] = [yellow, yellow, -0.02234 * red + 0.02234 * green + blue];
  const [x, y, z] = [0.4124 * r + 0.3576 * g + 0.1805 * b, 0.2126 * r + 0.7152 * g + 0.0722 * b, 0.0193 * r + 0.1192 * g + 0.9505 * b];
  const [fx, fy, fz] = [x / 0.9505, y, z / 1.089].map((v) => (v > 0.008856 ? Math.cbrt(v) : 7.787 * v + 16 / 116)) as [number, number, number];
  return [116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)];
}

function apart(one: Colour, other: Colour): number {
  const [a, b] = [seen(one), seen(other)];
  return Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

describe.each(THEME_LIST)("the palette, $name", (theme) => {
  const ground = theme.background;

  it("has text that reads well", () => {
    for (const text of [theme.text, theme.faintText, theme.accent, theme.warning]) {
      expect(contrast(fromHex(text), ground), text).toBeGreaterThanOrEqual(4.5);
      expect(contrast(fromHex(text), fromHex(theme.band)), text).toBeGreaterThanOrEqual(4.5);
    }
  });

  it("gives every category a colour that stands out, and a text that reads on it", () => {
    for (const name of CATEGORY_NAMES) {
      const { colour } = categoryInk(knownCategory(name), theme);
      expect(contrast(colour, ground), name).toBeGreaterThanOrEqual(LEAST_CONTRAST);
      expect(contrast(textOn(colour), colour), name).toBeGreaterThanOrEqual(4.5);
    }
  });

  it.each(["category", "name"] as ColourMode[])("so does every shade of a name, by %s", (mode) => {
    const categories = CATEGORY_NAMES.map(knownCategory);
    for (let place = 0; place < categories.length; place++) {
      const names = { texts: MANY, categories: MANY.map(() => place) };
      for (const ink of chooseInks(names, categories, { theme, mode, lit: null }).inks) {
        expect(contrast(ink.colour, ground), categories[place]?.name).toBeGreaterThanOrEqual(LEAST_CONTRAST);
        expect(contrast(textOn(ink.colour), ink.colour)).toBeGreaterThanOrEqual(4.5);
      }
    }
  });

  it("tells causes of idle time apart without red and green: by hatch, otherwise by colour", () => {
    const idle = CATEGORY_NAMES.map(knownCategory).filter((one) => one.kind === "idle");
    idle.forEach((one, i) => {
      for (const other of idle.slice(i + 1)) {
        const [a, b] = [categoryInk(one, theme), categoryInk(other, theme)];
        if (a.hatch !== b.hatch) continue;
        expect(apart(a.colour, b.colour), `${one.name} and ${other.name}`).toBeGreaterThanOrEqual(5);
      }
    });
  });

  it("tells what takes most of a step apart: products, attention, collectives and copies", () => {
    const often = ["gemm", "attention", "collective", "copy-h2d", "elementwise"].map((name) => categoryInk(knownCategory(name), theme));
    often.forEach((one, i) => {
      for (const other of often.slice(i + 1)) expect(apart(one.colour, other.colour)).toBeGreaterThanOrEqual(8);
    });
  });
});

describe("the style rules of the palette", () => {
  it("hold what the canvas draws", () => {
    const css = paletteCss();
    for (const theme of THEME_LIST) {
      for (const name of CATEGORY_NAMES) {
        expect(css).toContain(`--wl-part-${name.toLowerCase()}:${categoryInk(knownCategory(name), theme).css};`);
      }
    }
  });

  it("and those of the style sheet are the same", () => {
    const css = readFileSync(new URL("../base/colors.css", import.meta.url), "utf8");
    const [dark = "", light = ""] = css.split(':root[data-theme="light"]');
    for (const [theme, text] of [[THEMES.dark, dark], [THEMES.light, light]] as const) {
      const value = (name: string) => new RegExp(`--${name}: (#[0-9a-f]{6});`).exec(text)?.[1] ?? "";
      expect(fromHex(value("background"))).toEqual(theme.background);
      for (const [name, own] of [["band", theme.band], ["text", theme.text], ["faint", theme.faintText], ["accent", theme.accent]]) {
        expect(value(name as string)).toBe(own);
      }
      expect(contrast(fromHex(value("warning")), theme.background)).toBeGreaterThanOrEqual(4.5);
      expect(contrast(fromHex(value("text")), fromHex(value("selected")))).toBeGreaterThanOrEqual(4.5);
      expect(contrast(fromHex(value("faint")), fromHex(value("raised")))).toBeGreaterThanOrEqual(4.5);
      expect(contrast(fromHex(value("on-accent")), fromHex(value("accent")))).toBeGreaterThanOrEqual(4.5);
    }
  });

  it("name every colour that the page's own style sheets use", () => {
    const own = ["../../../src/warpline/viewer/static_page.css", "../base/colors.css", "../app/viewer.css", "../kernels/app/kernels.css"]
      .map((path) => readFileSync(new URL(path, import.meta.url), "utf8"))
      .join("\n");
    const known = new Set([...`${own}\n${paletteCss()}`.matchAll(/(--[\w-]+):/g)].map((found) => found[1]));
    for (const [, used] of own.matchAll(/var\((--[\w-]+)\)/g)) expect(known, used).toContain(used);
    expect(own).not.toMatch(/--wl-part-\w+:/); // one source
  });
});
