/** Draws the roofline. */

import type { Roofline as RooflineData } from "../data/document";
import { ceilingName, ceilingRate, precisionName, rooflinePlot, sourceName } from "../plots/roofline";
import { place, type Scale, ticks, tickTexts } from "../../plots/scale";
import { withUnit } from "../plots/values";
import { plainText } from "../../base/text";
import { Folded, Plot, Table } from "./parts";

const WIDTH = 760;
const HEIGHT = 400;
const ROOM = { left: 74, right: WIDTH - 10, top: 12, bottom: HEIGHT - 40 };
const NEAR = 30;
const MARK = 5;
const SHAPES = ["circle", "square", "diamond"];

/** Precisions differ by color, levels by shape. */
function lookOf(names: readonly string[], name: string): number {
  return Math.max(0, names.indexOf(name));
}

function markPath(shape: string, x: number, y: number, size: number): string {
  if (shape === "square") return `M${x - size} ${y - size}h${2 * size}v${2 * size}h${-2 * size}z`;
  if (shape === "diamond") return `M${x} ${y - 1.3 * size}l${1.3 * size} ${1.3 * size}l${-1.3 * size} ${1.3 * size}l${-1.3 * size} ${-1.3 * size}z`;
  return `M${x - size} ${y}a${size} ${size} 0 1 0 ${2 * size} 0a${size} ${size} 0 1 0 ${-2 * size} 0z`;
}

function Axis({ x, y }: { x: Scale; y: Scale }) {
  const across = ticks(x, "none", 8);
  const texts = tickTexts(across, "count", true);
  return (
    <>
      {across.map((at, i) => (
        <g key={`x${at}`}>
          <line class="grid" x1={place(x, at)} x2={place(x, at)} y1={ROOM.top} y2={ROOM.bottom} />
          <text class="tick" x={place(x, at)} y={ROOM.bottom + 15} text-anchor={place(x, at) > ROOM.right - 16 ? "end" : "middle"}>{texts[i]}</text>
        </g>
      ))}
      {ticks(y, "none", 8).map((at) => (
        <g key={`y${at}`}>
          <line class="grid" x1={ROOM.left} x2={ROOM.right} y1={place(y, at)} y2={place(y, at)} />
          <text class="tick" x={ROOM.left - 6} y={place(y, at) + 4} text-anchor="end">{withUnit(at, "flop_per_s").replace(/(\.\d*?)0+(?=\D)/, "$1").replace(/\.(?=\D)/, "").replace("FLOP/s", "F/s")}</text>
        </g>
      ))}
      <text class="tick" x={(ROOM.left + ROOM.right) / 2} y={HEIGHT - 6} text-anchor="middle">FLOP per byte</text>
    </>
  );
}

function sentence(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;
}

const SOURCES: Readonly<Record<string, string>> = { measured: "measured by warpline bench", measured_clock: "measured by warpline bench, at this clock", clock: "at the clock of this launch", nominal: "nominal, of the data sheet" };

export function Roofline({ roofline }: { roofline: RooflineData }) {
  const plot = rooflinePlot(roofline, ROOM);
  const precisions = [...new Set(roofline.points.map(precisionName))];
  const levels = [...new Set(roofline.points.map((one) => one.level))];
  const sources = Object.keys(SOURCES).filter((name) => roofline.ceilings.some(({ source }) => source === name));
  return (
    <>
      {roofline.bound && <p>{sentence(plainText(roofline.bound))}</p>}
      <div class="with-table">
      {plot === null ? <p class="faint">Nothing to draw: no floating-point instruction was executed, or no ceiling is known.</p> : (
        <div class="drawing">
          <Plot
            label={`Roofline: ${plot.points.map((one) => one.text).join("; ")}`}
            width={WIDTH}
            height={HEIGHT}
            texts={plot.points.map((one) => one.text)}
            find={(x, y) => {
              const away = plot.points.map((one) => Math.hypot(one.x - x, one.y - y));
              const least = Math.min(...away);
              return least < NEAR ? away.indexOf(least) : -1;
            }}
          >
            {(at) => (
              <>
                <Axis x={plot.x} y={plot.y} />
                {plot.roofs.map((roof, i) => (
                  <line key={i} class={`roof ${roof.kind} ${roof.source}`} x1={roof.x0} y1={roof.y0} x2={roof.x1} y2={roof.y1}><title>{`${roof.name} ${roof.text}`}</title></line>
                ))}
                {plot.labels.map((label, i) => (
                  <text key={i} class="roof-label" x={label.x} y={label.y} text-anchor={label.anchor} transform={label.angle ? `rotate(${label.angle.toFixed(1)} ${label.x.toFixed(1)} ${label.y.toFixed(1)})` : undefined}>{label.text}</text>
                ))}
                {plot.points.map(({ point, x, y }, i) => (
                  <path
                    key={i}
                    class={`roof-point part-${lookOf(precisions, precisionName(point))}${i === at ? " chosen" : ""}`}
                    d={markPath(SHAPES[lookOf(levels, point.level) % SHAPES.length] as string, x, y, i === at ? MARK * 1.5 : MARK)}
                  />
                ))}
              </>
            )}
          </Plot>
          <p class="legend">
            {precisions.map((name, i) => <span key={name}><svg class="swatch" viewBox="0 0 10 10" aria-hidden="true"><rect class={`part-${i}`} width={10} height={10} /></svg> {name}</span>)}
            {levels.map((name, i) => <span key={name}><svg class="swatch shape" viewBox="0 0 12 12" aria-hidden="true"><path d={markPath(SHAPES[i % SHAPES.length] as string, 6, 6, 4)} /></svg> {name}</span>)}
            {sources.map((name) => <span key={name}><svg class="swatch wide" viewBox="0 0 24 10" aria-hidden="true"><line class={`roof ${name}`} x1={0} x2={24} y1={5} y2={5} /></svg> {SOURCES[name]}</span>)}
          </p>
        </div>
      )}
      <div class="beside">
      <Table
        label="Points of the roofline"
        columns={[{ name: "Precision", unit: "" }, { name: "Level", unit: "" }, { name: "FLOP per byte", unit: "none" }, { name: "FLOP/s", unit: "flop_per_s" }, { name: "Bandwidth", unit: "bytes_per_s" }, { name: "Of its ceiling", unit: "ratio" }, { name: "Ceiling", unit: "" }]}
        rows={roofline.points.map((one) => [precisionName(one), one.level, one.flop_per_byte, one.flop_per_s, one.bytes_per_s ?? null, one.ratio ?? null, one.governed_by ?? null])}
      />
      <Folded title="Ceilings">
        <Table
          label="Ceilings of the roofline"
          columns={[{ name: "Ceiling", unit: "" }, { name: "Kind", unit: "" }, { name: "Rate", unit: "" }, { name: "Source", unit: "" }]}
          rows={roofline.ceilings.map((one) => [ceilingName(one), one.kind, withUnit(ceilingRate(one), one.kind === "compute" ? "flop_per_s" : "bytes_per_s"), sourceName(one)])}
        />
      </Folded>
      </div>
      </div>
    </>
  );
}

