/** The state of the page as the fragment of its URL: `#t?v=0,100&sel=kernel:12`. Pure. */

import type { ColourMode } from "../engine/theme";
import type { Span } from "../engine/view";

export type PageName = "overview" | "timeline" | "plots" | "tables" | "environment";

export interface Bookmark {
  readonly time: number;
  readonly text: string;
}

export interface Address {
  readonly page: PageName;
  readonly view: Span | null;
  readonly selected: string | null;
  readonly area: Span | null;
  readonly pinned: readonly string[];
  readonly hidden: readonly string[];
  readonly finding: string | null;
  readonly colour: ColourMode;
  readonly query: string;
  readonly table: string | null;
  readonly bookmarks: readonly Bookmark[];
}

const LETTERS: Readonly<Record<PageName, string>> = {
  overview: "o",
  timeline: "t",
  plots: "p",
  tables: "k",
  environment: "e",
};
const MODES: readonly ColourMode[] = ["category", "name", "cause"];

function spanText(span: Span): string {
  return `${Math.round(span.start)},${Math.round(span.end)}`;
}

function toSpan(text: string | null): Span | null {
  const match = /^(-?\d+(?:\.\d+)?(?:e\d+)?),(-?\d+(?:\.\d+)?(?:e\d+)?)$/.exec(text ?? "");
  if (!match) return null;
  const span = { start: Number(match[1]), end: Number(match[2]) };
  return span.end > span.start ? span : null;
}

export function formatAddress(address: Address): string {
  const values = new URLSearchParams();
  if (address.view) values.set("v", spanText(address.view));
  if (address.selected) values.set("sel", address.selected);
  if (address.area) values.set("a", spanText(address.area));
  for (const id of address.pinned) values.append("rows", id);
  for (const id of address.hidden) values.append("hide", id);
  if (address.finding) values.set("f", address.finding);
  if (address.colour !== "category") values.set("c", address.colour);
  if (address.query) values.set("q", address.query);
  if (address.table) values.set("k", address.table);
  for (const { time, text } of address.bookmarks) values.append("b", `${Math.round(time)}~${text}`);
  const rest = values.toString();
  return `#${LETTERS[address.page]}${rest ? `?${rest}` : ""}`;
}

/** Parses a fragment. Unknown parts are ignored. Returns null if there is none. */
export function parseAddress(hash: string): Address | null {
  const match = /^#([otpke])(?:\?(.*))?$/.exec(hash);
  if (!match) return null;
  const page = (Object.keys(LETTERS) as PageName[]).find((name) => LETTERS[name] === match[1]);
  const values = new URLSearchParams(match[2] ?? "");
  const colour = values.get("c") as ColourMode | null;
  return {
    page: page ?? "timeline",
    view: toSpan(values.get("v")),
    selected: values.get("sel"),
    area: toSpan(values.get("a")),
    pinned: values.getAll("rows"),
    hidden: values.getAll("hide"),
    finding: values.get("f"),
    colour: colour && MODES.includes(colour) ? colour : "category",
    query: values.get("q") ?? "",
    table: values.get("k"),
    bookmarks: values.getAll("b").flatMap((one) => {
      const [, time, text] = /^(-?\d+)~(.*)$/s.exec(one) ?? [];
      return time === undefined ? [] : [{ time: Number(time), text: text ?? "" }];
    }),
  };
}
