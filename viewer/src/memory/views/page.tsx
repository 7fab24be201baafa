/** The frame of the page: what is shown, the plots, and who holds the memory at a moment. */

import { plainText } from "../../base/text";
import { BY_TITLES, type By } from "../data/document";
import type { Axis } from "../plots/layers";
import { BlockList } from "./block-list";
import { LayerTable } from "./layer-table";
import { FROM_START, type Model } from "./model";
import { Plots } from "./stack-plot";

const KEYS: readonly (readonly [readonly string[], string])[] = [
  [["←", "→"], "previous, next event"],
  [["+", "-"], "zoom"],
  [["a", "d"], "move"],
  [["0"], "show all"],
  [["p"], "peak"],
  [["t"], "theme"],
];

export function Page({ model }: { model: Model }) {
  return (
    <div class="page">
      <header class="bar">
        <strong>{plainText(model.store.head.title)}</strong>
        <span class="right">
          <button title="Key t" onClick={() => switchTheme(model)}>{model.theme.value === "dark" ? "Light" : "Dark"} theme</button>
        </span>
      </header>
      {model.problem.value !== null && <p class="note problem" role="alert">{plainText(model.problem.value)}</p>}
      <main>
        {model.store.head.notes.map((note) => <p key={note} class="note">{plainText(note)}</p>)}
        <Controls model={model} />
        <div class={model.hasTwo ? "with-layers two" : "with-layers"}>
          <Plots model={model} />
          <LayerTable model={model} />
        </div>
        <BlockList model={model} />
      </main>
      <footer class="faint">
        {KEYS.map(([keys, text]) => <span key={text}>{keys.map((key) => <kbd key={key}>{key}</kbd>)} {text}</span>)}
      </footer>
    </div>
  );
}

export function switchTheme(model: Model): void {
  model.theme.value = model.theme.peek() === "dark" ? "light" : "dark";
}

function Controls({ model }: { model: Model }) {
  const { sides } = model.store.head;
  const labels = (sides[sides.length - 1]?.pools ?? []).map(({ label }) => label);
  const steps = Math.min(...model.pools.value.map(({ texts }) => texts.steps.length));
  return (
    <div class="controls">
      {labels.length > 1 && (
        <label>Memory <select value={String(model.place.value)} onChange={(event) => void model.show(Number(event.currentTarget.value))}>
          {labels.map((label, place) => <option key={place} value={String(place)}>{plainText(label)}</option>)}
        </select></label>
      )}
      {labels.length === 1 && <span>{plainText(labels[0] as string)}</span>}
      <label>Layers <select id="by" value={model.by.value} onChange={(event) => {
        model.by.value = event.currentTarget.value as By;
        model.layer.value = null;
      }}>
        {model.bys.map((by) => <option key={by} value={by}>{BY_TITLES[by]}</option>)}
      </select></label>
      <label>Axis <select id="axis" value={model.axis.value} onChange={(event) => model.setAxis(event.currentTarget.value as Axis)}>
        <option value="time">Time</option>
        <option value="events">Allocations and frees</option>
      </select></label>
      {model.hasTwo && (
        <label>Align <select id="align" value={String(model.align.value)} onChange={(event) => {
          model.align.value = Number(event.currentTarget.value);
          model.zoom.value = null;
        }}>
          <option value={String(FROM_START)}>Start of recording</option>
          {Array.from({ length: Math.min(steps, 100) }, (_, step) => <option key={step} value={String(step)}>Step {step + 1}</option>)}
        </select></label>
      )}
      <span class="buttons">
        <button onClick={() => model.choose(null)} disabled={model.chosen.value === null}>Peak</button>
        <button onClick={() => (model.zoom.value = null)} disabled={model.zoom.value === null}>Show all</button>
      </span>
    </div>
  );
}
