/** The sections of a launch. Two that are narrow stand side by side. */

import type { ComponentChildren } from "preact";
import { plainText } from "../../base/text";
import type { Fact, Ratio, Sections, Spread, Stall, Throughput } from "../data/document";
import { shareOrNone, underLabel, withUnit } from "../plots/values";
import { Occupancy, Samples } from "./curves";
import { Memory } from "./memory";
import { Bars, Folded } from "./parts";
import { Roofline } from "./roofline";

const MOST_OPCODES = 20;

export interface SectionView {
  readonly id: keyof Sections;
  readonly title: string;
  /** Whether it needs the whole width. */
  readonly isWide?: boolean;
  readonly draw: (sections: Sections) => ComponentChildren;
}

function SpeedOfLight({ throughputs }: { throughputs: readonly Throughput[] }) {
  return (
    <>
      <Ratios label="Throughputs" heading="Unit" ratios={throughputs} />
      {throughputs.some(({ breakdown }) => breakdown?.length) && (
        <Folded title="Breakdown">
          {throughputs.map((one) => one.breakdown?.length ? (
            <div key={one.name}>
              <h4>{plainText(one.name)}</h4>
              <Ratios label={`Breakdown of ${plainText(one.name)}`} heading="Part" ratios={one.breakdown.map(({ label, metric, ratio }) => ({ name: label, metric, ratio }))} />
            </div>
          ) : null)}
        </Folded>
      )}
    </>
  );
}

function Ratios({ label, heading, ratios }: { label: string; heading: string; ratios: readonly Ratio[] }) {
  return (
    <Bars
      label={label}
      headings={[heading, "Of peak"]}
      bars={ratios.map(({ name, metric, ratio }) => ({ label: name, metric, value: ratio, text: shareOrNone(ratio), part: ratio }))}
    />
  );
}

function Stalls({ stalls }: { stalls: readonly Stall[] }) {
  const most = Math.max(...stalls.map((one) => one.cycles_per_instruction ?? 0), 0);
  const sorted = [...stalls].sort((one, other) => (other.cycles_per_instruction ?? 0) - (one.cycles_per_instruction ?? 0));
  return (
    <Bars
      label="Cycles between two instructions of a warp, by reason"
      headings={["Stall", "Cycles per instruction"]}
      bars={sorted.map((one, at) => ({
        label: one.label,
        metric: one.metric ?? one.stall,
        value: one.cycles_per_instruction,
        text: `${withUnit(one.cycles_per_instruction, "none")}${one.ratio === null ? "" : ` (${shareOrNone(one.ratio)})`}`,
        part: most ? (one.cycles_per_instruction ?? 0) / most : null,
        isStrong: at === 0,
      }))}
    />
  );
}

function Instructions({ mix }: { mix: NonNullable<Sections["instructions"]> }) {
  const sorted = [...mix].sort((one, other) => other.executed - one.executed);
  const total = sorted.reduce((sum, one) => sum + one.executed, 0) || 1;
  const most = sorted[0]?.executed || 1;
  const bars = sorted.map(({ opcode, executed }) => ({
    label: opcode,
    metric: null,
    value: executed,
    text: `${withUnit(executed, "count")} (${shareOrNone(executed / total)})`,
    part: executed / most,
  }));
  return (
    <>
      <Bars label="Executed instructions" headings={["Instruction", "Executed by warps"]} bars={bars.slice(0, MOST_OPCODES)} />
      {bars.length > MOST_OPCODES && <Folded title={`${bars.length - MOST_OPCODES} more`}><Bars label="Further instructions" headings={["Instruction", "Executed by warps"]} bars={bars.slice(MOST_OPCODES)} /></Folded>}
    </>
  );
}

function Facts({ label, facts }: { label: string; facts: readonly Fact[] }) {
  return (
    <dl class="metrics" aria-label={label}>
      {facts.map((fact, at) => (
        <div key={at}>
          <dt title={fact.metric ?? undefined}>{plainText(fact.label)}</dt>
          <dd data-metric={fact.metric ?? undefined} data-value={fact.value === null ? undefined : String(fact.value)}>{plainText(underLabel(fact.value, fact.unit))}</dd>
        </div>
      ))}
    </dl>
  );
}

const SPREAD = { width: 260, height: 14 };

/** Least, mean and most of the units of a kind, on one scale. */
function SpreadBar({ min, avg, max }: Spread) {
  if (min === null || avg === null || max === null || max <= 0) return null;
  const x = (value: number): number => 2 + ((SPREAD.width - 4) * Math.max(0, value)) / max;
  return (
    <svg class="spread" viewBox={`0 0 ${SPREAD.width} ${SPREAD.height}`} aria-hidden="true">
      <line x1={x(0)} x2={x(max)} y1={7} y2={7} class="spread-room" />
      <line x1={x(min)} x2={x(max)} y1={7} y2={7} class="spread-range" />
      <circle cx={x(avg)} cy={7} r={4} class="spread-mean" />
    </svg>
  );
}

function Workload({ spreads }: { spreads: readonly Spread[] }) {
  return (
    <div class="table-room" tabIndex={0} role="group" aria-label="Workload distribution">
      <table class="workload">
        <thead><tr><th scope="col">Unit</th><th scope="col" class="number">Minimum</th><th scope="col" class="number">Mean</th><th scope="col" class="number">Maximum</th><th scope="col"><span class="unseen">Drawn</span></th></tr></thead>
        <tbody>
          {spreads.map((one, at) => (
            <tr key={at}>
              <th scope="row" title={one.metric}>{plainText(one.unit)}</th>
              {([one.min, one.avg, one.max] as const).map((value, i) => (
                <td key={i} class="number" data-metric={one.metric} data-value={value ?? undefined}>{withUnit(value, "count")}</td>
              ))}
              <td><SpreadBar {...one} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export const SECTIONS: readonly SectionView[] = [
  { id: "speed_of_light", title: "Speed of light", draw: ({ speed_of_light: own }) => own && <SpeedOfLight throughputs={own} /> },
  { id: "pipes", title: "Compute pipes", draw: ({ pipes: own }) => own && <Ratios label="Pipes" heading="Pipe" ratios={own} /> },
  { id: "roofline", isWide: true, title: "Roofline", draw: ({ roofline: own }) => own && <Roofline roofline={own} /> },
  { id: "memory", isWide: true, title: "Memory", draw: ({ memory: own }) => own && <Memory memory={own} /> },
  { id: "warp_states", title: "Warp states", draw: ({ warp_states: own }) => own && <Stalls stalls={own} /> },
  { id: "instructions", title: "Instructions", draw: ({ instructions: own }) => own && <Instructions mix={own} /> },
  { id: "scheduler", title: "Scheduler", draw: ({ scheduler: own }) => own && <Facts label="Scheduler" facts={own} /> },
  { id: "launch", title: "Launch", draw: ({ launch: own }) => own && <Facts label="Launch" facts={own} /> },
  { id: "occupancy", isWide: true, title: "Occupancy", draw: ({ occupancy: own }) => own && <Occupancy occupancy={own} /> },
  { id: "workload", title: "Workload distribution", draw: ({ workload: own }) => own && <Workload spreads={own} /> },
  { id: "samples", isWide: true, title: "Samples inside the kernel", draw: ({ samples: own }) => own && <Samples samples={own} /> },
];
