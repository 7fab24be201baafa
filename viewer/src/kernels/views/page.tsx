/** The frame of the page: its three pages and the theme. */

import { plainText } from "../../base/text";
import type { PageName } from "./address";
import { Details } from "./details";
import type { Model } from "./model";
import { Source } from "./source";
import { Summary } from "./summary";

const PAGES: readonly (readonly [PageName, string])[] = [
  ["summary", "Summary"],
  ["details", "Details"],
  ["source", "Source"],
];

const KEYS: readonly (readonly [readonly string[], string])[] = [
  [["1", "2", "3"], "pages"],
  [["j", "k"], "next and previous launch"],
  [["/"], "search or filter"],
  [["Esc"], "choose nothing"],
  [["t"], "theme"],
];

export function Page({ model }: { model: Model }) {
  const page = model.page.value;
  const { head } = model.store;
  return (
    <div class="page">
      <header class="bar">
        <strong>{plainText(head.title)}</strong>
        <nav aria-label="Pages">
          {PAGES.map(([name, title], at) => (
            <button key={name} aria-current={page === name ? "page" : undefined} title={`Key ${at + 1}`} onClick={() => (model.page.value = name)} disabled={name === "details" && head.launches === 0}>{title}</button>
          ))}
        </nav>
        <span class="right">
          <button title="Key t" onClick={() => (model.theme.value = model.theme.peek() === "dark" ? "light" : "dark")}>{model.theme.value === "dark" ? "Light" : "Dark"} theme</button>
        </span>
      </header>
      {model.problem.value !== null && <p class="note problem" role="alert">{plainText(model.problem.value)}</p>}
      {page === "summary" && <Summary model={model} />}
      {page === "details" && <Details model={model} />}
      {page === "source" && <Source model={model} />}
      <footer class="faint">
        {KEYS.map(([keys, text]) => <span key={text}>{keys.map((key) => <kbd key={key}>{key}</kbd>)} {text}</span>)}
      </footer>
    </div>
  );
}
