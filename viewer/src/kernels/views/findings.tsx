/** The findings of a launch: first what they save, then the facts, the lines, and what to do. */

import { codeText, plainText } from "../../base/text";
import { boundsText, shareText, timeText } from "../../base/units";
import type { Finding, Kernel } from "../data/document";
import { withUnit } from "../plots/values";
import type { Model } from "./model";
import { Folded, Table } from "./parts";

/** The predicted time of one launch, in words. */
export function predictedText(finding: Finding): string {
  const before = timeText(finding.before_ns);
  const bounds = boundsText(finding.predicted_low_ns, finding.predicted_high_ns, timeText);
  if (finding.outcome === "expected" && finding.predicted_ns !== null) {
    return `${before} → ${timeText(finding.predicted_ns)} (between ${bounds.replace(" to ", " and ")}), then limited by ${plainText(finding.next_limiter)}`;
  }
  if (finding.outcome === "floor") {
    return `${before} → at least ${timeText(finding.predicted_low_ns)}. The algorithm is replaced, so counters do not predict the time.`;
  }
  return `${before}: no gain expected. The kernel is limited by ${plainText(finding.next_limiter)}.`;
}

/** What a finding gives a step of the timeline; null without one. */
export function stepText({ step_saving_ns: saving, step_saving_high_ns: high, step_ns: step }: Finding): string | null {
  if (!step) return null;
  const of = `of the ${timeText(step)} step`;
  if (saving !== null && saving !== undefined) return `For a step: saves ${timeText(saving)} ${of} (${shareText(saving / step)}).`;
  return high === null || high === undefined ? null : `For a step: saves at most ${timeText(high)} ${of}.`;
}

export function Findings({ kernel, model }: { kernel: Kernel; model: Model }) {
  return (
    <section id="findings" class="wide" aria-label="Findings">
      <h3>Findings</h3>
      {kernel.findings.length === 0 && <p class="faint">{kernel.sections.speed_of_light ? "No findings: no rule expects to save 5% of the time." : "No findings: the rules need the metrics of the set full."}</p>}
      {kernel.findings.map((finding, at) => <FindingView key={at} finding={finding} number={at + 1} code={kernel.code} model={model} />)}
    </section>
  );
}

function FindingView({ finding, number, code, model }: { finding: Finding; number: number; code: number | null; model: Model }) {
  const saving = finding.saving_ns;
  return (
    <article class="finding" data-rule={finding.rule} data-saving={saving ?? undefined}>
      <h4>
        <span class="faint">F{number}</span> <span class={`severity ${finding.severity}`}>{finding.severity}</span> {plainText(finding.title)}
      </h4>
      <p class="predicted">{predictedText(finding)}</p>
      {saving !== null && saving > 0 && <p>Estimated saving: <b>{timeText(saving)}</b>{finding.before_ns > 0 && ` (${shareText(saving / finding.before_ns)})`}, bounds {boundsText(finding.saving_low_ns, finding.saving_high_ns, timeText)}.</p>}
      {stepText(finding) !== null && <p>{stepText(finding)}</p>}
      <p>{plainText(finding.claim)}</p>
      <p><b>Fix:</b> {plainText(finding.fix)}</p>
      {finding.lines.length > 0 && (
        <ul class="finding-lines">
          {finding.lines.map((line, at) => (
            <li key={at}>
              <button class="link" disabled={code === null} onClick={() => code !== null && model.openCode(code, { path: line.file, line: line.line })}>{`${plainText(line.file)}:${line.line}`}</button>
              {line.text !== null && <code>{codeText(line.text.trim())}</code>}
              {line.value !== null && <span class="faint">{`${withUnit(line.value, line.metric ?? "")}${line.ratio === null ? "" : ` (${shareText(line.ratio)})`}`}</span>}
            </li>
          ))}
        </ul>
      )}
      {finding.evidence.length > 0 && (
        <Folded title="Evidence">
          <Table
            label={`Evidence of finding ${number}`}
            columns={[{ name: "Metric", unit: "" }, { name: "Value", unit: "" }]}
            rows={finding.evidence.map(({ metric, value, unit }) => [metric, withUnit(value, unit)])}
          />
        </Folded>
      )}
    </article>
  );
}
