/** The blocks in use at the chosen moment, the largest first. */

import { useComputed, useSignal } from "@preact/signals";
import { plainText, searchPattern } from "../../base/text";
import { bytesText, clockText, plural, timeText } from "../../base/units";
import { BY_TITLES, BYS } from "../data/document";
import type { Pool } from "../data/pool";
import { blocksOfState, NAMELESS } from "../plots/layers";
import type { Model } from "./model";
import { momentText } from "./stack-plot";

const FIRST = 20;
const MORE = 500;

export function BlockList({ model }: { model: Model }) {
  const last = model.pools.value.length - 1;
  const side = useSignal(last);
  const shown = useSignal(FIRST);
  const pool = model.pools.value[side.value] as Pool;
  const state = model.moment.value[side.value] as number;
  const found = useComputed(() => {
    const own = model.pools.value[side.value] as Pool;
    const layer = model.layer.value === null ? null : model.layering.value.names.indexOf(model.layer.value);
    const all = blocksOfState(own, model.layering.value, model.moment.value[side.value] as number, layer);
    const pattern = searchPattern(model.filter.value);
    return pattern ? all.filter((at) => pattern.test(textOf(own, at))) : all;
  });
  const columns = BYS.filter((by) => pool.texts[by].length > 0);
  const total = found.value.reduce((sum, at) => sum + (pool.blocks.bytes[at] as number), 0);
  const earlier = model.layer.value === null && model.filter.value === "" ? (pool.rest[state] as number) : 0;
  return (
    <section id="blocks" aria-label="Blocks">
      <h2>Blocks in use at {momentText(pool, state)}</h2>
      <div class="controls">
        {model.hasTwo && <label>Recording <select value={String(side.value)} onChange={(event) => (side.value = Number(event.currentTarget.value))}><option value="0">Before</option><option value="1">After</option></select></label>}
        <label>Filter <input id="filter" type="search" value={model.filter.value} onInput={(event) => (model.filter.value = event.currentTarget.value)} /></label>
        {model.layer.value !== null && <button onClick={() => (model.layer.value = null)}>All layers, not only {plainText(model.layer.value)}</button>}
        <span role="status" id="found" data-value={total}>{plural(found.value.length, "block")}, {bytesText(total)}{earlier > 0 ? `; ${bytesText(earlier)} ${pool.spec.left_out > 0 ? "are not listed" : "were allocated before recording"}` : ""}</span>
      </div>
      <div class="table-room">
        <table class="blocks">
          <thead>
            <tr>
              <th scope="col" class="number">Size</th>
              {columns.map((by) => <th key={by} scope="col">{BY_TITLES[by]}</th>)}
              <th scope="col" class="number">Allocated at</th>
              <th scope="col" class="number">Freed after</th>
            </tr>
          </thead>
          <tbody>{found.value.slice(0, shown.value).map((at) => <Row key={at} pool={pool} at={at} columns={columns} />)}</tbody>
        </table>
      </div>
      {found.value.length > shown.value && <button onClick={() => (shown.value += MORE)}>Show {Math.min(MORE, found.value.length - shown.value)} more</button>}
    </section>
  );
}

function Row({ pool, at, columns }: { pool: Pool; at: number; columns: readonly (typeof BYS)[number][] }) {
  const { start, end, bytes, codes } = pool.blocks;
  const [first, after] = [start[at] as number, end[at] as number];
  const from = pool.time[first] as number;
  const size = pool.time[pool.time.length - 1] as number;
  const stack = pool.texts.stack[codes.stack[at] as number];
  return (
    <tr data-block={at}>
      <td class="number" data-value={bytes[at]}>{bytesText(bytes[at] as number)}</td>
      {columns.map((by) => {
        const name = plainText(pool.texts[by][codes[by][at] as number] ?? NAMELESS[by]);
        return <td key={by} class="name">{by === "line" && stack !== undefined ? <details><summary>{name}</summary><pre>{plainText(stack).replaceAll("\\u000a", "\n")}</pre></details> : name}</td>;
      })}
      <td class="number">{first === 0 ? "before" : clockText(from, 1000, size)}</td>
      <td class="number">{after >= pool.time.length ? "not freed" : timeText((pool.time[after] as number) - from)}</td>
    </tr>
  );
}

function textOf(pool: Pool, at: number): string {
  return BYS.map((by) => pool.texts[by][pool.blocks.codes[by][at] as number] ?? "").join("\n");
}
