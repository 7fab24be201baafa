/** The page Source: lines of the source beside the instructions, with the values of a chosen metric as heat. */

import { useMemo, useState } from "preact/hooks";
import { codeText, plainText, searchPattern, shortened } from "../../base/text";
import { plural, shareText } from "../../base/units";
import type { Code, CodeFile, Instruction } from "../data/document";
import { chosenMetric, hottestFile, hottestInstructions, hottestLines, hottestRow, isOf, largest, lineOfInstruction, stallsOf, total } from "../plots/heat";
import { underLabel, withUnit } from "../plots/values";
import { CodeList } from "./code-list";
import type { Chosen, Model } from "./model";
import { Bars } from "./parts";

const LONGEST_NAME = 90;
const MOST_HOT = 12;

export function Source({ model }: { model: Model }) {
  const { head } = model.store;
  const code = model.code.value;
  if (!head.code.length) {
    return <main class="source"><p class="note">The recording has no code of its kernels. Profile with warpline kernels --source, or with ncu --set full --import-source yes.</p></main>;
  }
  return (
    <main class="source">
      <p class="controls">
        <label>
          Function{" "}
          <select value={String(model.codePlace.value)} onChange={(event) => model.openCode(Number(event.currentTarget.value))}>
            {head.code.map((one, at) => <option key={at} value={String(at)}>{shortened(plainText(one.name), LONGEST_NAME)}{one.samples > 0 ? `, ${plural(one.samples, "sample")}` : ""}</option>)}
          </select>
        </label>
        {code && <MetricChoice code={code} model={model} />}
      </p>
      {code && <CodeView key={code.function} code={code} model={model} />}
    </main>
  );
}

function MetricChoice({ code, model }: { code: Code; model: Model }) {
  const at = chosenMetric(code, model.metric.value);
  return (
    <label>
      Heat{" "}
      <select id="metric" value={code.metrics[at]?.name ?? ""} onChange={(event) => (model.metric.value = event.currentTarget.value)}>
        {code.metrics.map(({ name, label }) => <option key={name} value={name}>{plainText(label)}</option>)}
      </select>
    </label>
  );
}

/** Returns the instructions and the line that belong to what is chosen. */
function chosenParts(code: Code, chosen: Chosen | null, file: number): { lit: ReadonlySet<number>; line: number | null; instruction: number } {
  if (chosen?.kind === "instruction") {
    const instruction = code.instructions[chosen.place];
    const line = instruction ? lineOfInstruction(instruction, code.files, file) : null;
    return { lit: new Set([chosen.place]), line, instruction: instruction ? chosen.place : -1 };
  }
  if (!chosen) return { lit: new Set(), line: null, instruction: -1 };
  const places = code.instructions.flatMap((one, at) => (isOf(one, code.files, chosen.file, chosen.line) ? [at] : []));
  return { lit: new Set(places), line: chosen.file === file ? chosen.line : null, instruction: places[0] ?? -1 };
}

function instructionText(one: Instruction): string {
  return codeText(one.sass ?? one.encoding ?? "");
}

function CodeView({ code, model }: { code: Code; model: Model }) {
  const [typed, setTyped] = useState("");
  const metric = chosenMetric(code, model.metric.value);
  const info = code.metrics[metric];
  const hottest = useMemo(() => hottestFile(code.files, metric), [code, metric]);
  const fileAt = Math.min(model.file.value ?? hottest, Math.max(0, code.files.length - 1));
  const file = code.files[fileAt];
  const chosen = model.chosen.value;
  const parts = useMemo(() => chosenParts(code, chosen, fileAt), [code, chosen, fileAt]);
  const pattern = searchPattern(typed);
  const unit = info?.unit ?? "";
  const whole = total(code.instructions, metric);
  const textOf = (value: number | null | undefined): string => (value ? `${withUnit(value, "count")} ${whole ? shareText(value / whole) : ""}` : "");
  const mostInstruction = useMemo(() => largest(code.instructions, metric), [code, metric]);
  const mostLine = useMemo(() => largest(file?.lines ?? [], metric), [file, metric]);
  const search = (isBack: boolean): void => {
    const next = pattern && nextMatch(code, file, pattern, chosen, isBack);
    if (next) model.choose(next.kind === "line" ? { ...next, file: fileAt } : next);
  };
  return (
    <>
      <h1>{plainText(code.name)}</h1>
      <p class="faint">
        {plural(code.instructions.length, "instruction")}. {plainText(info?.label ?? "No metric")}: {underLabel(whole, unit)}.
      </p>
      {code.too_few && <p class="note" role="note">Too few samples ({code.samples}, at least 200 are needed): their shares are by chance.</p>}
      {code.note !== null && <p class="note" role="note">{plainText(code.note)}</p>}
      <p class="controls">
        <label>Search <input type="search" id="search" value={typed} placeholder="text or /pattern/" onInput={(event) => setTyped(event.currentTarget.value)} onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          search(event.shiftKey);
          event.preventDefault();
        }} /></label>
        <button onClick={() => search(true)} disabled={!pattern}>Previous match</button>
        <button onClick={() => search(false)} disabled={!pattern}>Next match</button>
        {code.files.length > 1 && (
          <label>
            File{" "}
            <select value={String(fileAt)} onChange={(event) => (model.file.value = Number(event.currentTarget.value))}>
              {code.files.map(({ path, kind }, at) => <option key={at} value={String(at)}>{path === "" ? kind : `${plainText(path)} (${kind})`}</option>)}
            </select>
          </label>
        )}
      </p>
      <div class={`panes${file ? "" : " single"}`}>
        {file && (
          <section aria-label="Source">
            <h2>{plainText(file.path || file.kind)} {file.path !== "" && <span class="faint">{file.kind}</span>}</h2>
            <CodeList
              key={`${fileAt} ${metric}`}
              id="lines"
              label={`Lines of ${plainText(file.path || file.kind)}`}
              heading="Line"
              metric={info?.label ?? ""}
              count={file.lines.length}
              line={(at) => {
                const one = file.lines[at] as CodeFile["lines"][number];
                return { number: String(one.line), text: codeText(one.text ?? "(not in the recording)"), isComment: one.text === null, value: one.values?.[metric] ?? null, valueText: textOf(one.values?.[metric]) };
              }}
              most={mostLine}
              at={parts.line === null ? -1 : file.lines.findIndex(({ line }) => line === parts.line)}
              start={hottestRow(file.lines, metric)}
              isLit={() => false}
              isFound={(at) => pattern?.test(file.lines[at]?.text ?? "") ?? false}
              onChoose={(at) => model.choose({ kind: "line", file: fileAt, line: file.lines[at]?.line ?? 0 })}
            />
          </section>
        )}
        <section aria-label="Instructions">
          <h2>{code.has_sass ? "SASS" : "Encoded instructions"}</h2>
          <CodeList
            key={metric}
            id="instructions"
            label="Instructions"
            heading="Offset"
            metric={info?.label ?? ""}
            count={code.instructions.length}
            line={(at) => {
              const one = code.instructions[at] as Instruction;
              return { number: one.offset.toString(16).padStart(4, "0"), text: instructionText(one), value: one.values[metric] ?? null, valueText: textOf(one.values[metric]) };
            }}
            most={mostInstruction}
            at={parts.instruction}
            start={hottestRow(code.instructions, metric)}
            isLit={(at) => parts.lit.has(at)}
            isFound={(at) => pattern?.test(instructionText(code.instructions[at] as Instruction)) ?? false}
            onChoose={(place) => choosePlace(code, model, fileAt, place)}
          />
        </section>
      </div>
      <div class="panes below">
        <Hottest code={code} metric={metric} model={model} />
        <ChosenView code={code} chosen={chosen} places={[...parts.lit]} metric={metric} />
      </div>
    </>
  );
}

/** Chooses an instruction, and shows the file that its line is in. */
function choosePlace(code: Code, model: Model, fileAt: number, place: number): void {
  const instruction = code.instructions[place];
  const isShown = instruction && lineOfInstruction(instruction, code.files, fileAt) !== null;
  if (instruction && !isShown && instruction.file !== null) model.file.value = instruction.file;
  model.choose({ kind: "instruction", place });
}

/** Returns the next place whose text matches, first in the file, then in the instructions, around the end. */
function nextMatch(code: Code, file: CodeFile | undefined, pattern: RegExp, chosen: Chosen | null, isBack: boolean): { kind: "line"; line: number } | { kind: "instruction"; place: number } | null {
  const lines = (file?.lines ?? []).flatMap(({ line, text }) => (pattern.test(text ?? "") ? [{ kind: "line" as const, line }] : []));
  const instructions = code.instructions.flatMap((one, place) => (pattern.test(instructionText(one)) ? [{ kind: "instruction" as const, place }] : []));
  const all = [...lines, ...instructions];
  const here = all.findIndex((one) => (one.kind === "line" ? chosen?.kind === "line" && chosen.line === one.line : chosen?.kind === "instruction" && chosen.place === one.place));
  if (!all.length) return null;
  const next = here < 0 ? (isBack ? all.length - 1 : 0) : (here + (isBack ? all.length - 1 : 1)) % all.length;
  return all[next] ?? null;
}

function Hottest({ code, metric, model }: { code: Code; metric: number; model: Model }) {
  const lines = useMemo(() => hottestLines(code.files, metric, MOST_HOT), [code, metric]);
  const instructions = useMemo(() => (lines.length ? [] : hottestInstructions(code.instructions, metric, MOST_HOT)), [code, metric, lines]);
  const whole = total(code.instructions, metric) || 1;
  const label = code.metrics[metric]?.label ?? "";
  return (
    <section id="hottest" aria-label="Hottest lines">
      <h2>{lines.length || !instructions.length ? "Hottest lines" : "Hottest instructions"} <span class="faint">by {plainText(label).toLowerCase()}</span></h2>
      {lines.length === 0 && instructions.length === 0 && <p class="faint">No values of this metric.</p>}
      <ol class="hot">
        {lines.map((line, at) => (
          <li key={at} data-line={line.line} data-value={line.value}>
            <span class="share">{shareText(line.share)}</span>
            <button class="link" onClick={() => model.choose({ kind: "line", file: line.file, line: line.line })}>{`${fileName(code.files[line.file])}:${line.line}`}</button>
            <code>{codeText((line.text ?? "").trim())}</code>
            {line.inlinedAt && <span class="faint">{`inlined at ${fileName(code.files[line.inlinedAt.file])}:${line.inlinedAt.line}`}</span>}
          </li>
        ))}
        {instructions.map(({ place, value }) => (
          <li key={place} data-value={value}>
            <span class="share">{shareText(value / whole)}</span>
            <button class="link" onClick={() => model.choose({ kind: "instruction", place })}>{(code.instructions[place]?.offset ?? 0).toString(16).padStart(4, "0")}</button>
            <code>{instructionText(code.instructions[place] as Instruction)}</code>
          </li>
        ))}
      </ol>
    </section>
  );
}

function shortPath(path: string): string {
  return plainText(path.slice(path.lastIndexOf("/") + 1));
}

/** The name of a file without its folder; PTX has none. */
function fileName(file: CodeFile | undefined): string {
  return file ? shortPath(file.path) || file.kind : "";
}

/** What is chosen: its values of all metrics, and its stalls by reason. */
function ChosenView({ code, chosen, places, metric }: { code: Code; chosen: Chosen | null; places: readonly number[]; metric: number }) {
  const rows = chosen ? places.map((at) => code.instructions[at] as Instruction) : code.instructions;
  const stalls = stallsOf(code, rows);
  const most = stalls[0]?.value ?? 1;
  const sum = stalls.reduce((all, { value }) => all + value, 0) || 1;
  const others = code.metrics.flatMap(({ name, label, unit }, at) => {
    const value = total(rows, at);
    return value && (at === metric || !name.startsWith("stall_")) ? [{ name, label, unit, value }] : [];
  });
  const title = !chosen ? "Whole function" : chosen.kind === "line" ? `Line ${chosen.line}` : `Instruction ${(code.instructions[chosen.place]?.offset ?? 0).toString(16).padStart(4, "0")}`;
  return (
    <section id="chosen" aria-label="Chosen" aria-live="polite">
      <h2>{title} <span class="faint">{plural(rows.length, "instruction")}</span></h2>
      {stalls.length > 0 ? (
        <Bars
          label={`Stalls of ${title}`}
          headings={["Stall", "Samples"]}
          bars={stalls.map(({ place, value }) => ({
            label: code.metrics[place]?.label ?? "",
            metric: code.metrics[place]?.name ?? null,
            value,
            text: `${withUnit(value, "count")} (${shareText(value / sum)})`,
            part: value / most,
          }))}
        />
      ) : <p class="faint">No samples.</p>}
      {others.length > 0 && (
        <dl class="metrics" aria-label="Values">
          {others.map(({ name, label, unit, value }) => <div key={name}><dt>{plainText(label)}</dt><dd data-metric={name} data-value={value}>{underLabel(value, unit)}</dd></div>)}
        </dl>
      )}
    </section>
  );
}
