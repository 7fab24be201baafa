/** Who holds the memory at the pointer or the chosen moment, by layer. */

import { plainText } from "../../base/text";
import { bytesText, shareText } from "../../base/units";
import { BY_TITLES } from "../data/document";
import type { Pool } from "../data/pool";
import { bytesOfState } from "../plots/layers";
import type { Model } from "./model";
import { momentText } from "./stack-plot";

export function LayerTable({ model }: { model: Model }) {
  const states = model.read.value;
  const pools = model.pools.value;
  const { names, colors, by } = model.layering.value;
  const bytes = pools.map((pool, side) => bytesOfState(pool, model.layering.value, states[side] as number));
  const rows = names.map((name, layer) => ({ name, layer, color: colors[layer] })).reverse();
  const last = pools.length - 1;
  const total = (pools[last] as Pool).allocated[states[last] as number] as number;
  return (
    <section class="layer-list" aria-label="Memory at the moment">
      <h2>{model.pointed.value ? "At the pointer" : model.chosen.value ? "At the chosen moment" : model.hasTwo ? "At the peaks" : "At the peak"}</h2>
      {pools.map((pool, side) => <p key={side} class="faint">{model.hasTwo && (side === 0 ? "Before: " : "After: ")}{momentText(pool, states[side] as number)}</p>)}
      <table>
        <thead>
          <tr>
            <th scope="col">{BY_TITLES[by]}</th>
            {model.hasTwo ? <><th scope="col" class="number">Before</th><th scope="col" class="number">After</th><th scope="col" class="number">Change</th></> : <><th scope="col" class="number">Bytes</th><th scope="col" class="number">Share</th></>}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, layer, color }) => (
            <tr key={name} data-layer={name} class={model.layer.value === name ? "chosen" : undefined}>
              <th scope="row">
                <button class="plain named" aria-pressed={model.layer.value === name} title="List only these blocks" onClick={() => (model.layer.value = model.layer.peek() === name ? null : name)}>
                  <svg class="swatch" viewBox="0 0 10 10" aria-hidden="true"><rect class={`layer-${color}`} width={10} height={10} /></svg><span>{plainText(name)}</span>
                </button>
              </th>
              <Cells model={model} bytes={bytes.map((of) => of[layer] as number)} total={total} />
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr data-layer="allocated"><th scope="row">Allocated</th><Cells model={model} bytes={pools.map((pool, side) => pool.allocated[states[side] as number] as number)} total={total} /></tr>
          {pools.every(({ reserved }) => reserved) && (
            <tr data-layer="reserved"><th scope="row"><svg class="swatch" viewBox="0 0 10 10" aria-hidden="true"><path class="reserved" d="M0 5H10" /></svg> Reserved</th><Cells model={model} bytes={pools.map((pool, side) => pool.reserved?.[states[side] as number] ?? 0)} total={null} /></tr>
          )}
        </tfoot>
      </table>
      {pools.map(({ spec }, side) => spec.device_bytes !== null && (side === last || spec.device_bytes !== (pools[last] as Pool).spec.device_bytes) && <p key={side} class="faint">{bytesText(spec.device_bytes)} of GPU memory</p>)}
      {model.hasTwo && <p class="faint">The dashed line is the total of the other recording.</p>}
    </section>
  );
}

function Cells({ model, bytes, total }: { model: Model; bytes: readonly number[]; total: number | null }) {
  if (!model.hasTwo) {
    const own = bytes[0] as number;
    return <><td class="number" data-value={own}>{bytesText(own)}</td><td class="number">{total ? shareText(own / total) : ""}</td></>;
  }
  const [before, after] = bytes as [number, number];
  const change = after - before;
  return <><td class="number" data-value={before}>{bytesText(before)}</td><td class="number" data-value={after}>{bytesText(after)}</td><td class="number" data-value={change}>{change > 0 ? "+" : ""}{bytesText(change)}</td></>;
}
