/** The functions of what is shown: self and total time. */

import { useSignal } from "@preact/signals";
import { plainText } from "../../base/text";
import { countText, shareText, timeText } from "../../base/units";
import { inkOf, kindOf } from "../plots/colors";
import type { Graph } from "../plots/graph";
import type { Model } from "./model";

const MOST = 40;
const MORE = 500;

export function FunctionTable({ model, graph }: { model: Model; graph: Graph }) {
  const isWhole = useSignal(false);
  const pattern = model.pattern.value;
  const textOf = (label: number): string => model.textOf(graph, label, true);
  const rows = model.functions.value.filter((row) => !pattern || pattern.test(textOf(row.label)));
  const of = model.functions.value.reduce((sum, row) => sum + row.self, 0);
  const shown = rows.slice(0, isWhole.value ? MORE : MOST);
  return (
    <section>
      <h2>Functions{graph.options.isInverted || !model.zoom.value.length ? "" : " in the zoomed box"}</h2>
      <div class="table-room">
        <table id="functions">
          <thead>
            <tr><th>Function</th><th class="number">Self</th><th class="number">Share</th><th class="number">Total</th><th class="number">Share</th></tr>
          </thead>
          <tbody>
            {shown.map(({ label, self, total }) => (
              <tr key={label} data-self={self} data-total={total}>
                <th scope="row">
                  <span class="swatch" style={{ background: inkOf(kindOf(graph.labels, label), graph.labels.name[label] ?? "").fill }} />{" "}
                  <button type="button" class="plain" onClick={() => (model.search.value = exactly(graph.labels.name[label] ?? ""))}>
                    {plainText(graph.labels.name[label] ?? "")}
                  </button>{" "}
                  <span class="faint">{plainText(graph.labels.module[label] ?? "")}</span>
                </th>
                <td class="number">{timeText(self)}</td><td class="number">{shareText(self / of)}</td>
                <td class="number">{timeText(total)}</td><td class="number">{shareText(total / of)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > shown.length && (
        <p class="faint">
          {countText(rows.length - shown.length)} more.{" "}
          {!isWhole.value && <button type="button" class="link" onClick={() => (isWhole.value = true)}>Show {countText(Math.min(MORE, rows.length))}</button>}
        </p>
      )}
    </section>
  );
}

/** Returns a pattern that finds a text as it is. */
function exactly(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
