/** The frame of the page: what is shown, the graph, and the functions. */

import { plainText } from "../../base/text";
import { plural, shareText, timeText } from "../../base/units";
import type { Branch, Graph } from "../plots/graph";
import { FlameCanvas } from "./flame-canvas";
import { FunctionTable } from "./function-table";
import type { Model } from "./model";

const KEYS: readonly (readonly [readonly string[], string])[] = [
  [["↑", "↓", "←", "→"], "read boxes"],
  [["Enter"], "zoom in"],
  [["Esc"], "zoom out"],
  [["0"], "show all"],
  [["i"], "callers or callees"],
  [["/"], "search"],
  [["t"], "theme"],
];

export function Page({ model }: { model: Model }) {
  const graph = model.graph.value;
  return (
    <div class="page">
      <header class="bar">
        <strong>{plainText(model.head.title)}</strong>
        <span class="right">
          <button title="Key t" onClick={() => (model.theme.value = model.theme.peek() === "dark" ? "light" : "dark")}>
            {model.theme.value === "dark" ? "Light" : "Dark"} theme
          </button>
        </span>
      </header>
      {model.problem.value !== null && <p class="note problem" role="alert">{plainText(model.problem.value)}</p>}
      <main>
        {model.head.notes.map((note) => <p key={note} class="note">{plainText(note)}</p>)}
        <Controls model={model} />
        {graph && (
          <>
            <Path model={model} graph={graph} />
            <p id="said" class="said" aria-live="polite">{sentence(model, graph)}</p>
            <FlameCanvas model={model} graph={graph} />
            <FunctionTable model={model} graph={graph} />
          </>
        )}
      </main>
      <footer class="faint">
        {KEYS.map(([keys, text]) => <span key={text}>{keys.map((key) => <kbd key={key}>{key}</kbd>)} {text}</span>)}
      </footer>
    </div>
  );
}

function Controls({ model }: { model: Model }) {
  const { views } = model.head;
  const spec = model.loaded.value?.spec;
  const found = model.found.value;
  const all = model.graph.value?.root.total ?? 0;
  const report = (error: unknown): void => {
    model.problem.value = error instanceof Error ? error.message : String(error);
  };
  return (
    <>
      <div class="controls">
        <label>Time <select id="of" value={model.of.value} onChange={(event) => void model.show(event.currentTarget.value).catch(report)}>
          {views.map(({ of, title }) => <option key={of} value={of}>{title}</option>)}
        </select></label>
        <label>Thread <select id="thread" value={String(model.thread.value)} onChange={(event) => {
          const chosen = Number(event.currentTarget.value);
          model.change(() => (model.thread.value = chosen));
        }}>
          <option value="-1">All threads</option>
          {spec?.threads.map((name, at) => <option key={at} value={String(at)}>{plainText(name)}</option>)}
        </select></label>
        <Switch id="threads" label="By thread" value={model.byThread.value} onSwitch={(is) => model.change(() => (model.byThread.value = is))} />
        <Switch id="inverted" label="Callers" value={model.isInverted.value} onSwitch={(is) => model.change(() => (model.isInverted.value = is))} />
        <Switch id="lines" label="Lines" value={model.byLine.value} onSwitch={(is) => model.change(() => (model.byLine.value = is))} />
        <Switch id="python" label="Python only" value={model.isPython.value} onSwitch={(is) => model.change(() => (model.isPython.value = is))} />
        <input
          id="search"
          type="search"
          placeholder="Search functions, files; /regex/"
          aria-label="Search functions and files"
          value={model.search.value}
          onInput={(event) => (model.search.value = event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") event.currentTarget.blur();
          }}
        />
        {found !== null && <span id="found" data-value={found}>{timeText(found)}, {shareText(found / all)} of total</span>}
      </div>
      {spec && <p class="faint">{spec.meaning}</p>}
    </>
  );
}

function Switch({ id, label, value, onSwitch }: { id: string; label: string; value: boolean; onSwitch: (is: boolean) => void }) {
  return (
    <label><input id={id} type="checkbox" checked={value} onChange={(event) => onSwitch(event.currentTarget.checked)} /> {label}</label>
  );
}

function Path({ model, graph }: { model: Model; graph: Graph }) {
  const zoomed = model.zoom.value;
  if (!zoomed.length) return null;
  return (
    <p class="path">
      {graph.along(zoomed).map((branch, level) => (
        <span key={level}>
          {level > 0 && " › "}
          <button type="button" class="link" onClick={() => model.zoomTo(zoomed.slice(0, level))}>{plainText(model.nameOf(graph, branch)).slice(0, 60)}</button>
        </span>
      ))}
    </p>
  );
}

/** Describes the box under the pointer or the keyboard: "decode (dataset.py): 12.1 ms, 41.3% of total; self 2.00 ms". */
function sentence(model: Model, graph: Graph): string {
  const path = graph.along(model.pointed.value ?? model.chosen.value);
  const branch = path[path.length - 1] as Branch;
  const name = plainText(model.nameOf(graph, branch, true)).slice(0, 400);
  const share = shareText(branch.total / (graph.root.total || Number.NaN));
  const self = branch.label < 0 ? "" : graph.options.isInverted ? `; outermost ${timeText(branch.self)}` : `; self ${timeText(branch.self)}`;
  return `${name}: ${timeText(branch.total)}, ${share} of total${self}; ${plural(branch.count, "stack")}`;
}
