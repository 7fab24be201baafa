/** The colors of boxes: one per kind of code, in shades by name. */

import { type Colour, fromHex, mixed, textOn, toCss } from "../../base/colour";
import { textHash } from "../../base/text";
import { KINDS, type Kind, type Labels } from "../data/document";

const FILLS: Readonly<Record<Kind, readonly [string, string]>> = {
  other: ["#a7b0b8", "#8e98a2"],
  native: ["#8fb8e8", "#5f93d0"],
  kernel: ["#eda36f", "#d97f45"],
  python: ["#f2cf6b", "#dfae3a"],
  gpu: ["#8fce96", "#5cab69"],
  os: ["#e8928c", "#d0665f"],
};
const SHADES = 8;

export interface Ink {
  readonly fill: string;
  readonly text: string;
}

const INKS = new Map<string, Ink>();

/** Returns the ink of a kind; the name chooses one of its shades. */
export function inkOf(kind: Kind, name: string): Ink {
  const shade = textHash(name) % SHADES;
  const key = `${kind} ${shade}`;
  const known = INKS.get(key);
  if (known) return known;
  const [low, high] = FILLS[kind].map(fromHex) as [Colour, Colour];
  const fill = mixed(low, high, shade / (SHADES - 1));
  const ink = { fill: toCss(fill), text: toCss(textOn(fill)) };
  INKS.set(key, ink);
  return ink;
}

/** Returns the kind of a label; threads and the root, -1, are other. */
export function kindOf(labels: Labels, label: number): Kind {
  return KINDS[labels.kind[label] ?? 0] ?? "other";
}
