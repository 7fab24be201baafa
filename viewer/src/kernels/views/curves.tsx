/** Draws occupancy by block size, registers and shared memory, and values that were sampled inside the kernel. */

import { plainText } from "../../base/text";
import { shareText, timeText } from "../../base/units";
import { place, ticks, tickTexts } from "../../plots/scale";
import type { Curve, Occupancy as OccupancyData, Sampled } from "../data/document";
import { lineOf, nearestTo, type Line } from "../plots/lines";
import { shareOrNone, withUnit } from "../plots/values";
import { Folded, Plot, Table } from "./parts";

const WIDTH = 330;
const HEIGHT = 190;
const ROOM = { left: 46, right: WIDTH - 10, top: 10, bottom: HEIGHT - 36 };
const AXES: Readonly<Record<string, readonly [title: string, unit: string]>> = {
  block_size: ["Threads per block", "count"],
  registers: ["Registers per thread", "count"],
  shared_bytes: ["Shared memory per block", "bytes"],
};

function Frame({ line, unit, title, xUnit }: { line: Line; unit: string; title: string; xUnit: string }) {
  const across = ticks(line.x, xUnit, 5);
  const up = ticks(line.y, unit, 4);
  const acrossTexts = tickTexts(across, xUnit);
  const upTexts = tickTexts(up, unit);
  return (
    <>
      {up.map((at, i) => (
        <g key={at}>
          <line class="grid" x1={ROOM.left} x2={ROOM.right} y1={place(line.y, at)} y2={place(line.y, at)} />
          <text class="tick" x={ROOM.left - 5} y={place(line.y, at) + 4} text-anchor="end">{upTexts[i]}</text>
        </g>
      ))}
      {across.map((at, i) => <text key={at} class="tick" x={place(line.x, at)} y={ROOM.bottom + 15} text-anchor="middle">{acrossTexts[i]}</text>)}
      <text class="tick" x={(ROOM.left + ROOM.right) / 2} y={HEIGHT - 5} text-anchor="middle">{title}</text>
    </>
  );
}

function CurveView({ curve }: { curve: Curve }) {
  const [title, unit] = AXES[curve.by] ?? [curve.by, "count"];
  const xs = curve.points.map(([x]) => x);
  const ys = curve.points.map(([, y]) => y);
  const line = lineOf(xs, ys, ROOM, 1);
  const now = curve.current === null ? -1 : nearestTo(xs, curve.current);
  const texts = curve.points.map(([x, y], i) => `${title} ${withUnit(x, unit)}: occupancy ${shareText(y)}${i === now ? " (this launch)" : ""}`);
  if (!xs.length) return null;
  return (
    <figure data-curve={curve.by} data-current={curve.current ?? undefined}>
      <figcaption>{`Occupancy by ${title.toLowerCase()}`}</figcaption>
      <Plot label={`Occupancy by ${title.toLowerCase()}. ${texts[now] ?? ""}`} width={WIDTH} height={HEIGHT} texts={texts} find={(x) => nearestTo(xs.map((at) => place(line.x, at)), x)}>
        {(at) => (
          <>
            <Frame line={line} unit="ratio" title={title} xUnit={unit} />
            <path class="line" d={line.path} />
            {now >= 0 && <Mark line={line} x={xs[now] as number} y={ys[now] as number} kind="now" />}
            {at >= 0 && <Mark line={line} x={xs[at] as number} y={ys[at] as number} kind="chosen" />}
          </>
        )}
      </Plot>
    </figure>
  );
}

function Mark({ line, x, y, kind }: { line: Line; x: number; y: number; kind: string }) {
  return <circle class={`point ${kind}`} cx={place(line.x, x)} cy={place(line.y, y)} r={kind === "now" ? 5 : 4} />;
}

export function Occupancy({ occupancy }: { occupancy: OccupancyData }) {
  return (
    <>
      <p>
        Theoretical <b data-value={occupancy.theoretical_ratio ?? undefined}>{shareOrNone(occupancy.theoretical_ratio)}</b>, achieved <b data-value={occupancy.achieved_ratio ?? undefined}>{shareOrNone(occupancy.achieved_ratio)}</b>.
      </p>
      <div class="figures">
      <Table
        label="Blocks per SM that each resource allows"
        columns={[{ name: "Limit", unit: "" }, { name: "Blocks per SM", unit: "count" }, { name: "", unit: "" }]}
        rows={occupancy.limits.map(({ limit, blocks, is_limiting }) => [limit.replaceAll("_", " "), blocks, is_limiting ? "limits this launch" : ""])}
      />
      {occupancy.curves.map((curve) => <CurveView key={curve.by} curve={curve} />)}
      </div>
      {occupancy.curves.length > 0 && (
        <Folded title="Curves as tables">
          {occupancy.curves.map((curve) => {
            const [title, unit] = AXES[curve.by] ?? [curve.by, "count"];
            return <Table key={curve.by} label={`Occupancy by ${title.toLowerCase()}`} columns={[{ name: title, unit }, { name: "Occupancy", unit: "ratio" }]} rows={curve.points} />;
          })}
        </Folded>
      )}
    </>
  );
}

export function Samples({ samples }: { samples: readonly Sampled[] }) {
  const isZero = ({ values }: Sampled): boolean => values.every((value) => !value);
  const draw = (some: readonly Sampled[]) => <div class="figures">{some.map((one) => <SampledView key={one.metric} sampled={one} />)}</div>;
  const zeros = samples.filter(isZero);
  return (
    <>
      {draw(samples.filter((one) => !isZero(one)))}
      {zeros.length > 0 && <Folded title={`${zeros.length} with 0`}>{draw(zeros)}</Folded>}
    </>
  );
}

function SampledView({ sampled }: { sampled: Sampled }) {
  const { label, metric, unit, times_ns: times, values } = sampled;
  if (!times.length) return null;
  const line = lineOf(times, values, ROOM);
  const texts = values.map((value, i) => `${timeText(times[i] as number)}: ${withUnit(value, unit)}`);
  const known = values.filter((value): value is number => value !== null);
  const mean = known.reduce((sum, value) => sum + value, 0) / (known.length || 1);
  return (
    <figure data-metric={metric}>
      <figcaption title={metric}>{plainText(label)}</figcaption>
      <Plot label={`${label} over the time of the kernel. Mean ${withUnit(mean, unit)}, largest ${withUnit(known.reduce((most, value) => Math.max(most, value), 0), unit)}`} width={WIDTH} height={HEIGHT} texts={texts} find={(x) => nearestTo(times.map((at) => place(line.x, at)), x)}>
        {(at) => (
          <>
            <Frame line={line} unit={unit === "ratio" ? "ratio" : "none"} title="Time in the kernel" xUnit="ns" />
            <path class="line" d={line.path} />
            {at >= 0 && values[at] !== null && <Mark line={line} x={times[at] as number} y={values[at] as number} kind="chosen" />}
          </>
        )}
      </Plot>
    </figure>
  );
}
