/** The page: bar, overview, timeline, plots, tables, environment, help. */

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { plainText } from "../base/text";
import { countText, plural } from "../base/units";
import type { PageName } from "./address";
import { Help } from "./help";
import { copyLink } from "./keys";
import { Live } from "./live";
import type { Model } from "./model";
import { PaletteWhenOpen } from "./palette";
import { Divider, Panel, Pending } from "./panels";
import { Plots } from "./plots";
import { savingText } from "./saving";
import { Environment, Tables } from "./tables";
import { Timeline } from "./timeline";

const PAGES: readonly (readonly [PageName, string])[] = [
  ["overview", "Overview"],
  ["timeline", "Timeline"],
  ["plots", "Plots"],
  ["tables", "Tables"],
  ["environment", "Environment"],
];

/** The pages of a recording in progress. */
const OF_LIVE: ReadonlySet<PageName> = new Set(["timeline", "environment"]);

function Search({ model }: { model: Model }) {
  const lighting = model.lighting.value;
  const isLit = model.lit.value !== null;
  return (
    <span class="search">
      <input
        id="warpline-search"
        type="search"
        placeholder="Search names"
        title="Text or a regular expression as /pattern/. Enter: next match. Shift+Enter: previous match."
        aria-label="Search names"
        value={model.query.value}
        onInput={(event) => {
          model.search(event.currentTarget.value);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          void model.stepMatch(event.shiftKey ? -1 : 1);
          event.preventDefault();
        }}
      />
      {isLit && (
        <>
          <Count model={model} />
          {lighting && <span class="lit" title={plainText(lighting.title).slice(0, 1000)}>Highlighted: {plainText(lighting.title).slice(0, 60)}</span>}
          <button type="button" aria-label="Previous highlighted event" title="Previous highlighted event (<)" disabled={model.isCutOff} onClick={() => model.stepMatch(-1)}>‹</button>
          <button type="button" aria-label="Next highlighted event" title="Next highlighted event (>)" disabled={model.isCutOff} onClick={() => model.stepMatch(1)}>›</button>
          <button type="button" aria-label="Clear the search" title="Clear the search" onClick={() => model.search("")}>✕</button>
        </>
      )}
    </span>
  );
}

/** How many events are highlighted, and which of them is selected. */
function Count({ model }: { model: Model }) {
  const matches = model.matches.isPending.value ? null : model.matches.value;
  if (!matches) return <span class="count"><Pending model={model} /></span>;
  const { place, total } = matches;
  const isCut = model.recording.head.thinned !== null;
  const text = `${place ? `${countText(place)} of ` : ""}${isCut ? "≥ " : ""}${plural(total, "match", "matches")}`;
  const title = `Highlighted events in the rows shown${isCut ? ", of those in this file" : ""}`;
  return <span class="count" data-testid="matches" title={title}>{text}</span>;
}

function Steps({ model }: { model: Model }) {
  const steps = model.recording.head.steps[0];
  if (!steps?.start_ns.length) return null;
  const now = model.step.value;
  return (
    <span class="steps">
      <button type="button" aria-label="Previous step" title="Previous step (J)" onClick={() => model.stepStep(-1)}>‹</button>
      <span>{now >= 0 ? `${plainText(model.nameOfStep(now)).slice(0, 24)} · ` : ""}{plural(steps.start_ns.length, "step")}</span>
      <button type="button" aria-label="Next step" title="Next step (K)" onClick={() => model.stepStep(1)}>›</button>
    </span>
  );
}

function Bar({ model }: { model: Model }) {
  const { head } = model.recording;
  const count = head.summary.findings?.length ?? 0;
  return (
    <header class="bar">
      <h1 title={plainText(head.title)}>{plainText(head.title).slice(0, 80) || "Warpline"}</h1>
      <nav aria-label="Pages">
        {PAGES.filter(([page]) => !model.live.value || OF_LIVE.has(page)).map(([page, title]) => (
          <button
            type="button"
            key={page}
            aria-current={model.page.value === page ? "page" : undefined}
            onClick={() => {
              model.page.value = page;
            }}
          >
            {title}
          </button>
        ))}
      </nav>
      {model.page.value === "timeline" && (
        <>
          <Search model={model} />
          <Steps model={model} />
        </>
      )}
      {count > 0 && (
        <span class="findings-walk">
          <button type="button" aria-label="Previous finding" title="Previous finding (Shift+N)" onClick={() => model.stepFinding(-1)}>‹</button>
          <span>{model.finding.value ? `${model.finding.value} of ${count}` : plural(count, "finding")}</span>
          <button type="button" aria-label="Next finding" title="Next finding (N)" onClick={() => model.stepFinding(1)}>›</button>
        </span>
      )}
      {model.page.value === "timeline" && (
        <label>
          <span class="color-by">Color by </span>
          <select
            aria-label="Color by"
            title="Color by"
            value={model.mode.value}
            onChange={(event) => {
              model.mode.value = event.currentTarget.value as "category" | "name" | "cause";
            }}
          >
            <option value="category">category</option>
            <option value="name">name</option>
            <option value="cause">idle cause</option>
          </select>
        </label>
      )}
      <span class="right">
        <button
          type="button"
          title="Commands, rows, tables, findings (Ctrl+K)"
          onClick={() => {
            model.isPaletteOpen.value = true;
          }}
        >
          Commands
        </button>
        <button type="button" aria-label="Copy link" title="Copy a link to this view (Y)" onClick={() => copyLink(model)}>Link</button>
        <button
          type="button"
          aria-label="Switch theme"
          title="Switch between dark and light theme (T)"
          onClick={() => {
            model.theme.value = model.theme.value === "dark" ? "light" : "dark";
          }}
        >
          ◐
        </button>
        <button
          type="button"
          aria-label="Keyboard and mouse"
          title="Keyboard and mouse (?)"
          onClick={() => {
            model.isHelpOpen.value = true;
          }}
        >
          ?
        </button>
      </span>
    </header>
  );
}

/** A text with its commands, which are between backticks, as code. */
function WithCode({ text }: { text: string }) {
  return <>{plainText(text).split("`").map((part, i) => (i % 2 ? <code key={i}>{part}</code> : part))}</>;
}

function Finding({ model }: { model: Model }) {
  const { head } = model.recording;
  const found = head.summary.findings?.find((one) => one.id === model.finding.value);
  if (!found) return null;
  const saving = savingText(found, head.summary.breakdown?.some((one) => one.count > 0) ? " per step" : "");
  const focus = head.findings.find((one) => one.id === found.id);
  const places = focus?.windows_ns.length ?? 0;
  return (
    <section class="finding" aria-label="Finding">
      <p>
        <b>{found.id} · {plainText(found.title)}</b>{" "}
        <span class={`severity ${found.severity}`}>{found.severity}</span>
        {saving && <span> Estimated saving: {saving}</span>}
        <button
          type="button"
          class="right"
          aria-label="Close finding"
          onClick={() => {
            model.finding.value = null;
          }}
        >
          ✕
        </button>
      </p>
      {places > 1 && (
        <p class="places">
          Occurrences:{" "}
          {focus?.windows_ns.slice(0, 20).map((_, i) => (
            <button
              type="button"
              key={i}
              aria-label={`Occurrence ${i + 1} of ${places}`}
              onClick={() => model.showFinding(found.id, i)}
            >
              {i + 1}
            </button>
          ))}
        </p>
      )}
      {found.claim && <p><WithCode text={found.claim} /></p>}
      {found.fix && <p><b>Fix:</b> <WithCode text={found.fix} /></p>}
      {found.verify && <p><b>Verify:</b> <WithCode text={found.verify} /></p>}
    </section>
  );
}

/** What to do with a diagnosis that has just arrived. */
function Ready({ model }: { model: Model }) {
  const close = (): void => {
    model.pending.value = null;
  };
  const open = (): void => {
    model.page.value = "overview";
    close();
  };
  return (
    <>
      <button type="button" onClick={open}>Show the overview</button>
      <button type="button" aria-label="Close message" onClick={close}>✕</button>
    </>
  );
}

function Banner({ model }: { model: Model }) {
  const { thinned } = model.recording.head;
  void model.arrived.value;
  const pending = model.pending.value;
  const broken = model.recording.rows.filter((row) => row.error).length;
  const isGone = model.isServerGone.value;
  return (
    <>
      {isGone && (
        <p class="banner stopped" role="alert">
          The server has stopped; this page shows only what it has already received. Run warpline view again and open its new
          URL. Through a tunnel, restore the tunnel: the page then continues.
        </p>
      )}
      {model.failure.value && <p class="banner" role="alert">{plainText(model.failure.value)}</p>}
      {pending && !isGone && (
        <p class="banner" role="status">
          {plainText(pending.text)}
          {pending.isReady && <Ready model={model} />}
        </p>
      )}
      {thinned && <p class="banner">{plainText(thinned.text)} Hatching marks where events were omitted.</p>}
      {broken > 0 && model.isComplete.value && (
        <p class="banner" role="alert">{plural(broken, "row")} could not be read. Hover over a marked row label for the reason.</p>
      )}
    </>
  );
}

function Note({ model }: { model: Model }) {
  const time = model.noting.value;
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.focus(), [time]); // before the next key press
  if (time === null) return null;
  return (
    <form
      class="note"
      onSubmit={(event) => {
        event.preventDefault();
        model.bookmarks.value = [...model.bookmarks.value, { time, text: input.current?.value ?? "" }];
        model.noting.value = null;
      }}
    >
      <label>
        Bookmark at {model.momentText(time)} from {model.clock.value.name} <input ref={input} maxLength={200} />
      </label>
      <button type="submit">Save</button>
      <button type="button" onClick={() => { model.noting.value = null; }}>Cancel</button>
    </form>
  );
}

function Bookmarks({ model }: { model: Model }) {
  const all = model.bookmarks.value;
  if (!all.length) return null;
  return (
    <p class="bookmarks">
      {all.map((one, i) => (
        <span key={i}>
          <button
            type="button"
            onClick={() => model.centreOn(one.time)}
          >
            ⚑ {plainText(one.text) || model.momentText(one.time)}
          </button>
          <button
            type="button"
            aria-label={`Remove bookmark ${i + 1}`}
            onClick={() => {
              model.bookmarks.value = all.filter((_, at) => at !== i);
            }}
          >
            ✕
          </button>
        </span>
      ))}
    </p>
  );
}

export function Page({ model }: { model: Model }) {
  const page = model.page.value;
  useEffect(() => {
    const overview = document.getElementById("warpline-static");
    if (overview) overview.hidden = page !== "overview";
    document.documentElement.dataset["page"] = page;
  }, [page]);
  return (
    <div class={`page page-${page}`}>
      <Bar model={model} />
      <Banner model={model} />
      <Live model={model} />
      {page === "timeline" && (
        <main>
          <Finding model={model} />
          <Note model={model} />
          <Bookmarks model={model} />
          <Timeline model={model} />
          <Divider model={model} />
          <Panel model={model} />
        </main>
      )}
      {page === "plots" && <main><Plots model={model} /></main>}
      {page === "tables" && <main><Tables model={model} /></main>}
      {page === "environment" && <main><Environment model={model} /></main>}
      <Help model={model} />
      <PaletteWhenOpen model={model} />
      {model.told.value !== "" && <p class="told" aria-hidden="true">{model.told.value}</p>}
      <p class="spoken" aria-live="polite">{plainText(model.said.value)}</p>
    </div>
  );
}
