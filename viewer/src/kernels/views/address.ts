/** The fragment of the page's URL: `#summary`, `#details?launch=3`, `#source?code=0&file=0&line=17`. */

import type { Chosen } from "./model";

export type PageName = "summary" | "details" | "source";

export interface Address {
  readonly page: PageName;
  readonly row: number | null;
  readonly code: number | null;
  readonly metric: string | null;
  readonly chosen: Chosen | null;
}

const PAGES: readonly PageName[] = ["summary", "details", "source"];

function numberOf(values: URLSearchParams, name: string): number | null {
  const text = values.get(name);
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

/** Returns what a fragment names, or null if it is none of this page. */
export function parseAddress(fragment: string): Address | null {
  const [name = "", query = ""] = fragment.replace(/^#/, "").split("?", 2);
  const page = PAGES.find((one) => one === name);
  if (!page) return null;
  const values = new URLSearchParams(query);
  const [file, line, instruction] = [numberOf(values, "file"), numberOf(values, "line"), numberOf(values, "instruction")];
  let chosen: Chosen | null = null;
  if (file !== null && line !== null) chosen = { kind: "line", file, line };
  else if (instruction !== null) chosen = { kind: "instruction", place: instruction };
  return { page, row: numberOf(values, "launch"), code: numberOf(values, "code"), metric: values.get("metric"), chosen };
}

export function formatAddress({ page, row, code, metric, chosen }: Address): string {
  const values = new URLSearchParams();
  if (page === "details") values.set("launch", String(row ?? 0));
  if (page === "source") {
    values.set("code", String(code ?? 0));
    if (metric !== null) values.set("metric", metric);
    if (chosen?.kind === "line") {
      values.set("file", String(chosen.file));
      values.set("line", String(chosen.line));
    } else if (chosen) values.set("instruction", String(chosen.place));
  }
  const query = values.toString();
  return query ? `#${page}?${query}` : `#${page}`;
}
