/** Tables of the means of sampled values in an area: metrics and state of the GPUs, state of the machine. */

import { plainText } from "../base/text";
import { boundsText, counterText, countText } from "../base/units";
import type { RowMeans } from "../data/counter-means";
import type { RowSpec } from "../data/head";
import type { Area } from "../engine/draw";
import type { Model } from "./model";

/** The means of the rows of one group. */
export interface GroupMeans {
  readonly group: number;
  readonly rows: readonly RowMeans[];
}

/** Returns the sampled rows of the GPUs and of the machine that an area is about, shown or folded. */
export function sampledRows(model: Model, area: Area): number[] {
  const tops = area.rows && new Set([...area.rows].map((row) => model.topOf(row)));
  return model.recording.head.rows.flatMap((row, at) => (row.sampled && (!tops || tops.has(model.topOf(at))) ? [at] : []));
}

/** Returns the means of an area by group. */
export async function groupMeans(model: Model, area: Area): Promise<readonly GroupMeans[]> {
  const rows = sampledRows(model, area);
  if (!rows.length) return [];
  const groups = new Map<number, RowMeans[]>();
  for (const one of await model.recording.answers.means(rows, area.span)) {
    const group = model.tree.parent[one.row] ?? -1;
    groups.set(group, [...(groups.get(group) ?? []), one]);
  }
  return [...groups].map(([group, own]) => ({ group, rows: own }));
}

/** Says how many samples of some rows are joined to how many means; "" if all are in the file. */
export function joinedText(specs: readonly RowSpec[]): string {
  let [recorded, kept] = [0, 0];
  for (const { kind, count, parts } of specs) {
    const own = parts.reduce((sum, part) => sum + part.count, 0);
    if (kind !== "counter" || own === 0 || own === count) continue;
    recorded += count;
    kept += own;
  }
  return recorded ? `${countText(recorded)} samples as ${countText(kept)} means with their range` : "";
}

export function MeansTable({ model, group, rows }: GroupMeans & { readonly model: Model }) {
  const { head } = model.recording;
  const joined = joinedText(rows.flatMap(({ row }) => head.rows[row] ?? []));
  return (
    <div class="names means">
      <h3>{plainText(model.labelOf(group))}</h3>
      <table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col" class="number" title="Mean over the time with samples">Mean</th>
            <th scope="col" class="number">Lowest</th>
            <th scope="col" class="number">Highest</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ row, low, high, least, most }) => {
            const spec = head.rows[row];
            const text = (value: number): string => counterText(value, spec?.unit);
            return (
              <tr key={row} data-row={spec?.id} data-low={low} data-high={high}>
                <td>
                  <button
                    type="button"
                    class="plain"
                    title={plainText(spec?.title ?? spec?.label ?? "").slice(0, 1000)}
                    onClick={() => model.goToRow(row)}
                  >
                    {plainText(spec?.label ?? "").slice(0, 300)}
                  </button>
                </td>
                <td class="number">{boundsText(low, high, text)}</td>
                <td class="number">{text(least)}</td>
                <td class="number">{text(most)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {joined && <p class="faint">To limit the file size, it has {joined}.</p>}
    </div>
  );
}
