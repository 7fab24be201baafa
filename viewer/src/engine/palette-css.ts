/** The colors of breakdown parts as style rules for the static overview: canvas and page share one palette. */

import { textOn, toCss } from "../base/colour";
import { CATEGORY_NAMES, categoryInk, idleFill, knownCategory, type Theme, THEMES } from "./theme";

/** The suffix of the CSS class `wl-part-…` that Python gives to a part: the category in lowercase. */
function slug(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, "-");
}

function variables(theme: Theme): string {
  return CATEGORY_NAMES.map((name) => {
    const category = knownCategory(name);
    const own = categoryInk(category, theme);
    const text = category.kind === "idle" ? theme.text : toCss(textOn(own.colour));
    const pale = category.kind === "idle" ? `--wl-pale-${slug(name)}:${idleFill(own, theme)};` : "";
    return `--wl-part-${slug(name)}:${own.css};--wl-on-${slug(name)}:${text};${pale}`;
  }).join("");
}

function rules(name: string): string {
  const part = slug(name);
  const pale = knownCategory(name).kind === "idle" ? `.wl-idle>.wl-part-${part}{fill:var(--wl-pale-${part})}` : "";
  return `.wl-part-${part}{fill:var(--wl-part-${part})}.wl-part-${part}+text{fill:var(--wl-on-${part})}${pale}`;
}

/** Returns the rules. Without the script, the user's preference selects the theme. */
export function paletteCss(): string {
  const { dark, light } = THEMES;
  return [
    `:root{${variables(light)}}`,
    `@media (prefers-color-scheme:dark){:root:not([data-theme=light]){${variables(dark)}}}`,
    `:root[data-theme=dark]{${variables(dark)}}`,
    ...CATEGORY_NAMES.map(rules),
    "",
  ].join("\n");
}
