/** Maps a line of a result table to the timeline: names to highlight, and a time range to show. */

import type { Span } from "../base/span";
import type { Category, ResultTable, StepsSpec } from "../data/head";
import { isKernelName, shortName } from "../data/names";
import type { Names } from "../data/recording";
import { lastOfPath } from "./flame";
import type { Model } from "./model";

const LABELS = ["name", "path", "operator", "step"] as const;
const CATEGORY = "category";
const HOST_KINDS: ReadonlySet<Category["kind"]> = new Set(["range", "op"]);

/** As the packer does: names have at most this many characters. */
const LONGEST = 1000;

function packedText(text: string): string {
  return text.length <= LONGEST ? text : `${text.slice(0, LONGEST - 1)}…`;
}

/** Returns a heading without its unit, which the page writes with each number. */
export function headingOf({ title, unit }: ResultTable["columns"][number]): string {
  const plain = unit === "none" || unit === "id" ? title : title.replace(/ \((?:ns|us|ms|s|%|[KMG]?i?B(?:\/s)?)\)$/, "");
  return plain || title;
}

/** Returns the columns in display order: the label first, then the numbers. */
export function columnOrder(table: ResultTable): number[] {
  const places = table.columns.map((_, at) => at);
  const lead = places.find((at) => table.columns[at]?.name === "name") ??
    places.find((at) => LABELS.some((one) => table.columns[at]?.name === one));
  if (lead === undefined) return places;
  return [lead, ...places.filter((at) => at !== lead)];
}

const INSTANT = /^(first_|last_)?(start|end|time)_(\w+_)?ns$/;

/** Returns, for the columns with times of the recording's clock, the largest: all get its unit and digits to the ns. */
export function clockSizes(table: ResultTable): readonly (number | null)[] {
  return table.columns.map(({ name, unit }, at) =>
    unit === "ns" && INSTANT.test(name)
      ? table.rows.reduce((most, row) => Math.max(most, Math.abs(Number(row[at]) || 0)), 0)
      : null,
  );
}

/** Finds the names of the recording for a line of a table. */
export class LineNames {
  private readonly byText = new Map<string, number[]>();
  private readonly byCategory = new Map<string, number[]>();

  constructor(
    private readonly names: Names,
    private readonly categories: readonly Category[],
  ) {
    const put = (into: Map<string, number[]>, key: string, name: number): void => {
      const list = into.get(key);
      if (list) list.push(name);
      else into.set(key, [name]);
    };
    names.texts.forEach((text, name) => {
      put(this.byText, text, name);
      put(this.byCategory, categories[names.categories[name] ?? -1]?.name ?? "", name);
    });
  }

  /** Returns the short name for a text of a table; other texts as they are. */
  readonly shown = (text: string): string => {
    const [name] = this.byText.get(packedText(text)) ?? [];
    const isKernel = name !== undefined && isKernelName(this.names, this.categories, name);
    return isKernel ? shortName(this.names, name) : text;
  };

  of(table: ResultTable, line: number): readonly number[] {
    const given = table.names?.[line];
    if (given?.length) return given;
    const place = (name: string): number => table.columns.findIndex((one) => one.name === name);
    const depth = place("depth");
    for (const label of LABELS) {
      const column = place(label);
      if (column < 0) continue;
      const own = String(table.rows[line]?.[column] ?? "").trim();
      const text = depth >= 0 ? lastOfPath(table, line, column, depth) : own;
      const found = this.ofText(text);
      if (found.length) return found;
    }
    const category = place(CATEGORY);
    return category < 0 ? [] : (this.byCategory.get(String(table.rows[line]?.[category])) ?? []);
  }

  /** Returns the names equal to a text, otherwise to the text without its NVTX domain: tables write DOMAIN:NAME. */
  ofText(text: string): readonly number[] {
    const found = this.equal(text);
    const inDomain = /^[^:]+:(?!:)(.+)$/s.exec(text)?.[1];
    return found.length || inDomain === undefined ? found : this.equal(inDomain);
  }

  /** Returns the names equal to a text. `step_*` matches ranges with any number in place of the star. */
  private equal(text: string): readonly number[] {
    if (!text.includes("*")) return this.byText.get(text) ?? [];
    const pattern = new RegExp(`^${text.split("*").map(quoted).join("\\d+")}$`);
    return this.names.texts.flatMap((one, name) => {
      const kind = this.categories[this.names.categories[name] ?? -1]?.kind;
      return kind && HOST_KINDS.has(kind) && pattern.test(one) ? [name] : [];
    });
  }
}

/** Highlights the ranges of this name on the timeline and shows the next one. */
export function showRange(model: Model, text: string): void {
  const { names, head } = model.recording;
  const found = new LineNames(names, head.categories).ofText(text);
  if (!found.length) return model.tell(`${text}: no such range on the timeline.`);
  model.page.value = "timeline";
  model.light(found, text);
  void model.stepMatch(1);
}

function quoted(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** Returns the time range of the step of a line, or null. */
export function stepOfLine(table: ResultTable, line: number, steps: StepsSpec | undefined): Span | null {
  const column = (name: string): number => table.columns.findIndex((one) => one.name === name);
  if (!steps || column("step") < 0) return null;
  const at = steps.index?.indexOf(Number(table.rows[line]?.[column("index")] ?? Number.NaN)) ?? -1;
  if (at < 0) return null;
  return { start: steps.start_ns[at] ?? 0, end: steps.end_ns[at] ?? 0 };
}
