/** Colors and hatches: by category, lighter or darker by name, in a dark and a light palette. */

import { type Colour, fromHex, legible, mixed, textOn, toCss, toPixel } from "../base/colour";
import { textHash } from "../base/text";
import type { Category } from "../data/head";

export type ThemeName = "dark" | "light";
export type ColourMode = "category" | "name" | "cause";
export type Hatch = "rising" | "falling" | "crossed" | "dots" | "bars" | "waves" | "grid" | "plain";

export interface Ink {
  readonly css: string;
  readonly pixel: number;
  readonly text: string;
  readonly colour: Colour;
  /** Idle time is hatched by cause, so that causes differ without color. */
  readonly hatch: Hatch | null;
}

export interface Theme {
  readonly name: ThemeName;
  readonly background: Colour;
  readonly band: string;
  readonly line: string;
  readonly strongLine: string;
  readonly text: string;
  readonly faintText: string;
  readonly accent: string;
  readonly selection: string;
  readonly finding: string;
  readonly warning: string;
}

export const THEMES: Readonly<Record<ThemeName, Theme>> = {
  dark: {
    name: "dark",
    background: fromHex("#101418"),
    band: "#151b21",
    line: "#232b33",
    strongLine: "#3a4653",
    text: "#e6edf3",
    faintText: "#9aa7b4",
    accent: "#58a6ff",
    selection: "rgba(88,166,255,0.20)",
    finding: "rgba(255,196,84,0.20)",
    warning: "#ff6b5e",
  },
  light: {
    name: "light",
    background: fromHex("#ffffff"),
    band: "#f5f7f9",
    line: "#e3e8ed",
    strongLine: "#b6c0ca",
    text: "#16202a",
    faintText: "#55626f",
    accent: "#0a5cc2",
    selection: "rgba(10,92,194,0.16)",
    finding: "rgba(190,120,0,0.18)",
    warning: "#b42318",
  },
};

// Hues that remain distinct with deuteranopia: blues, ambers, purples, and teals rather than red and green.
const BASES: Readonly<Record<string, string>> = {
  gemm: "#2f7fd8",
  attention: "#2aa198",
  convolution: "#3b62c4",
  normalization: "#5aa9d6",
  elementwise: "#7fb8e6",
  reduction: "#6f93d8",
  embedding: "#4fb3bf",
  "sort-index": "#8798d8",
  optimizer: "#9fc1a4",
  "layout-copy": "#c9a86a",
  "cast-copy": "#d8bd86",
  other: "#7d9bb5",
  collective: "#a873d1",
  graph: "#5f7fa6",
  "copy-h2d": "#e0a13a",
  "copy-d2h": "#cf8430",
  "copy-d2d": "#e6c35c",
  "copy-p2p": "#c98fd6",
  "copy-managed": "#b98f57",
  "copy-other": "#d9b066",
  memset: "#bfa27a",
  "launch-bound": "#d2577a",
  "host-sync": "#b5533c",
  input: "#d98a2b",
  "os-wait": "#a8843f",
  "pageable-copy": "#bf8a5a",
  allocator: "#9a6fb0",
  "graph-instantiation": "#7187a8",
  "module-load-or-JIT": "#8f7f5f",
  dependency: "#5f8f8b",
  "communication-wait": "#8d63b8",
  "graph-internal": "#66819a",
  "profiler-overhead": "#8a8f96",
  tail: "#7a828b",
  unknown: "#6d757d",
  "cuda-api": "#8fa3b5",
  nvtx: "#58b27c",
  step: "#6d8f4e",
  "excluded-step": "#7a828b",
  operator: "#4fa3a5",
  "os-call": "#a08f7c",
  "clock-limit-heat": "#b5533c",
  "clock-limit-power": "#d98a2b",
  "clock-limit-setting": "#7187a8",
  "gpu-error": "#d2577a",
  sample: "#5aa9d6",
  running: "#58b27c",
  runnable: "#d98a2b",
  blocked: "#8a8f96",
};
const KIND_BASES: Readonly<Record<Category["kind"], string>> = {
  busy: "#7d9bb5",
  idle: "#6d757d",
  host: "#8fa3b5",
  range: "#58b27c",
  op: "#4fa3a5",
  api: "#8fa3b5",
  os: "#a08f7c",
  other: "#7a828b",
};
const HATCHES: Readonly<Record<string, Hatch>> = {
  "launch-bound": "rising",
  "host-sync": "crossed",
  input: "dots",
  "os-wait": "rising",
  "pageable-copy": "falling",
  allocator: "grid",
  "graph-instantiation": "bars",
  "module-load-or-JIT": "bars",
  dependency: "waves",
  "communication-wait": "falling",
  "graph-internal": "waves",
  "profiler-overhead": "dots",
  tail: "plain",
  unknown: "plain",
};
const FADED: Readonly<Record<ThemeName, Colour>> = { dark: [62, 72, 82], light: [190, 198, 206] };
const IDLE_PART = 0.26;
const SHADES = 8;
const WHEEL = 24;

export function baseOf(category: Category | undefined): Colour {
  if (!category) return fromHex(KIND_BASES.other);
  return fromHex(BASES[category.name] ?? KIND_BASES[category.kind] ?? KIND_BASES.other);
}

function ink(colour: Colour, hatch: Hatch | null): Ink {
  return { css: toCss(colour), pixel: toPixel(colour), text: toCss(textOn(colour)), colour, hatch };
}

/** Returns the ink of a category, for legends and the overview. */
export function categoryInk(category: Category | undefined, theme: Theme): Ink {
  const colour = legible(onTheme(baseOf(category), theme), theme.background, LEAST_CONTRAST);
  return ink(colour, category?.kind === "idle" ? (HATCHES[category.name] ?? "plain") : null);
}

/** The minimum contrast of graphics in WCAG 2.2 (1.4.11). */
export const LEAST_CONTRAST = 3;

function onTheme(colour: Colour, theme: Theme): Colour {
  return theme.name === "dark" ? colour : mixed(colour, [0, 0, 0], 0.1);
}

/** Returns a category's color, lighter or darker by step, with enough contrast to the background. */
function shade(colour: Colour, step: number, theme: Theme): Colour {
  const part = step / (SHADES - 1) - 0.5; // -0.5 .. 0.5
  const found = part < 0 ? mixed(colour, [0, 0, 0], -part * 0.5) : mixed(colour, [255, 255, 255], part * 0.45);
  return legible(found, theme.background, LEAST_CONTRAST);
}

function wheel(place: number): Colour {
  const hue = (place * 360) / WHEEL;
  const channel = (offset: number): number => {
    const at = (offset + hue / 30) % 12;
    return Math.round(255 * (0.58 - 0.3 * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  };
  return [channel(0), channel(8), channel(4)];
}

/** Returns the ink of a name: the category's color, shaded by its text; faded if not `isLit`. */
export function nameInk(text: string, category: Category | undefined, theme: Theme, isLit = true): Ink {
  const hatch = category?.kind === "idle" ? (HATCHES[category.name] ?? "plain") : null;
  if (!isLit) return ink(FADED[theme.name], hatch);
  return ink(shade(onTheme(baseOf(category), theme), textHash(text) % SHADES, theme), hatch);
}

/** The inks of all names: `of[name]` is an index in `inks`. */
export interface Inks {
  readonly inks: readonly Ink[];
  readonly of: Uint16Array;
  readonly pixels: Uint32Array;
}

export interface InkChoice {
  readonly theme: Theme;
  readonly mode: ColourMode;
  /** Per name 1 if it is highlighted; the others are faded. Null: no highlight. */
  readonly lit: Uint8Array | null;
}

/** Chooses an ink for every name: few inks, so that rectangles can be drawn by ink. */
export function chooseInks(
  names: { readonly texts: readonly string[]; readonly categories: readonly number[] },
  categories: readonly Category[],
  { theme, mode, lit }: InkChoice,
): Inks {
  const inks: Ink[] = [];
  const known = new Map<string, number>();
  const grey = FADED[theme.name];
  const take = (key: string, make: () => Ink): number => {
    let place = known.get(key);
    if (place === undefined) {
      place = inks.push(make()) - 1;
      known.set(key, place);
    }
    return place;
  };
  const of = new Uint16Array(names.texts.length);
  names.texts.forEach((text, name) => {
    const place = names.categories[name] ?? -1;
    const category = categories[place];
    const isIdle = category?.kind === "idle";
    const hatch = isIdle ? (HATCHES[category.name] ?? "plain") : null;
    const isFaded = lit ? !lit[name] : mode === "cause" && !isIdle;
    const hash = textHash(text);
    if (isFaded) of[name] = take(`faded ${hatch ?? ""}`, () => ink(grey, hatch));
    else if (isIdle) of[name] = take(`idle ${place}`, () => categoryInk(category, theme));
    else if (mode === "name") {
      of[name] = take(`name ${hash % WHEEL}`, () => ink(legible(onTheme(wheel(hash % WHEEL), theme), theme.background, LEAST_CONTRAST), null));
    } else {
      const step = hash % SHADES;
      of[name] = take(`${place} ${step}`, () => ink(shade(onTheme(baseOf(category), theme), step, theme), null));
    }
  });
  return { inks, of, pixels: Uint32Array.from(inks, (one) => one.pixel) };
}

/** The categories with their own color: the parts of the breakdown, and the CPU categories. */
export const CATEGORY_NAMES: readonly string[] = Object.keys(BASES);

/** Returns the category of a name in `CATEGORY_NAMES`, as in a recording. */
export function knownCategory(name: string): Category {
  return { name, kind: name in HATCHES ? "idle" : "busy", meaning: "" };
}

/** Returns the fill of idle time: faint, so that busy time stands out. */
export function idleFill(one: Ink, theme: Theme): string {
  return toCss(mixed(theme.background, one.colour, IDLE_PART));
}
