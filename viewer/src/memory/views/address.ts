/** The fragment of the page's URL: `#by=module&axis=events&gpu=1&state=1200`. */

import { BYS, type By } from "../data/document";
import type { Axis } from "../plots/layers";

export interface Address {
  readonly by: By;
  readonly axis: Axis;
  /** Place of the memory that is shown. */
  readonly place: number;
  /** The chosen state of the last recording; null for the peak. */
  readonly state: number | null;
}

/** Parses a fragment; without a name of layers in it, they have `by`. */
export function parseAddress(fragment: string, by: By): Address {
  const values = new URLSearchParams(fragment.replace(/^#/, ""));
  return {
    by: BYS.find((one) => one === values.get("by")) ?? by,
    axis: values.get("axis") === "events" ? "events" : "time",
    place: numberOf(values, "gpu") ?? 0,
    state: numberOf(values, "state"),
  };
}

export function formatAddress({ by, axis, place, state }: Address): string {
  const values = new URLSearchParams({ by, axis });
  if (place > 0) values.set("gpu", String(place));
  if (state !== null) values.set("state", String(state));
  return `#${values}`;
}

function numberOf(values: URLSearchParams, name: string): number | null {
  const text = values.get(name);
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
}
