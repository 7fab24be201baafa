/** Draws the memory diagram: boxes, and arrows with requests and bytes. */

import { plainText } from "../../base/text";
import { bytesText, shareText, shortCountText } from "../../base/units";
import type { Column, MemoryEdge, MemoryNode, MemoryTable, Sections } from "../data/document";
import { type Arrow, type Box, diagramOf } from "../plots/memory";
import { shareOrNone } from "../plots/values";
import { Folded, Table } from "./parts";

function edgeTexts({ requests, bytes, counts }: MemoryEdge): string[] {
  const noun = counts === "instructions" ? "inst" : "req";
  return [requests === null ? "" : `${shortCountText(requests)} ${noun}`, bytes === null ? "" : bytesText(bytes)].filter(Boolean);
}

function edgeText(edge: MemoryEdge, names: ReadonlyMap<string, string>): string {
  const share = edge.ratio === null ? "" : `, ${shareText(edge.ratio)} of peak`;
  return `${names.get(edge.from)} to ${names.get(edge.to)}: ${edgeTexts(edge).join(", ") || "no traffic counted"}${share}`;
}

function ArrowView({ arrow, text }: { arrow: Arrow; text: string }) {
  const { edge, x0, y0, x1, y1, width } = arrow;
  const isIdle = !edge.requests && !edge.bytes;
  const size = 4 + width / 2;
  const length = Math.hypot(x1 - x0, y1 - y0) || 1;
  const [dx, dy] = [(x1 - x0) / length, (y1 - y0) / length];
  const [bx, by] = [x1 - dx * 2 * size, y1 - dy * 2 * size];
  const head = `M${x1} ${y1}L${bx - dy * size} ${by + dx * size}L${bx + dy * size} ${by - dx * size}z`;
  const lines = edgeTexts(edge);
  return (
    <g class={`arrow${isIdle ? " idle" : ""}`} data-from={edge.from} data-to={edge.to} data-requests={edge.requests ?? undefined} data-bytes={edge.bytes ?? undefined} data-ratio={edge.ratio ?? undefined}>
      <title>{text}</title>
      <line x1={x0} y1={y0} x2={bx} y2={by} stroke-width={width} />
      <path d={head} />
      <text x={arrow.labelX} y={arrow.labelY - width / 2 - 4} text-anchor="middle">{lines[0]}</text>
      {lines[1] !== undefined && <text x={arrow.labelX} y={arrow.labelY + width / 2 + 12} text-anchor="middle">{lines[1]}</text>}
    </g>
  );
}

const LONGEST_RATIO = 18;

/** What the share of a box is and the share, in two lines if they are long. */
function ratioTexts(node: MemoryNode): string[] {
  const parts = [plainText(node.ratio_label ?? ""), shareText(node.ratio as number)].filter(Boolean);
  const joined = parts.join(" ");
  return joined.length > LONGEST_RATIO ? parts : [joined];
}

function BoxView({ box }: { box: Box }) {
  const { node, left, top, width, height } = box;
  const middle = left + width / 2;
  const hasRatio = node.ratio !== null;
  const texts = hasRatio ? ratioTexts(node) : [];
  const first = top + height / 2 + 4 - 7 * texts.length;
  return (
    <g class="box" data-node={node.id} data-ratio={node.ratio ?? undefined}>
      <rect x={left} y={top} width={width} height={height} rx={5} />
      {hasRatio && <rect class="filled" x={left} y={top + height - 5} width={width * Math.max(0, Math.min(1, node.ratio as number))} height={5} rx={2} />}
      <text class="name" x={middle} y={first} text-anchor="middle">{plainText(node.label)}</text>
      {texts.map((text, at) => <text key={at} class="ratio" x={middle} y={first + 15 * (at + 1)} text-anchor="middle">{text}</text>)}
    </g>
  );
}

export function Memory({ memory }: { memory: NonNullable<Sections["memory"]> }) {
  const names = new Map(memory.nodes.map(({ id, label }) => [id, plainText(label)]));
  const diagram = diagramOf(memory.nodes, memory.edges);
  return (
    <>
      {memory.nodes.length > 0 && (
        <>
          <div class="table-room" tabIndex={0} role="group" aria-label="Memory diagram">
            <svg class="memory" viewBox={`-4 -4 ${diagram.width + 8} ${diagram.height + 4}`} role="img" aria-label={`Memory diagram. ${memory.edges.map((edge) => edgeText(edge, names)).join(". ")}`}>
              {diagram.arrows.map((arrow, at) => <ArrowView key={at} arrow={arrow} text={edgeText(arrow.edge, names)} />)}
              {diagram.boxes.map((box) => <BoxView key={box.node.id} box={box} />)}
            </svg>
          </div>
          <Folded title="Traffic as a table"><Traffic nodes={memory.nodes} edges={memory.edges} names={names} /></Folded>
        </>
      )}
      {memory.tables.map((table) => (
        <div key={table.title}>
          <h4>{plainText(table.title)}</h4>
          <MemoryTableView table={table} />
        </div>
      ))}
    </>
  );
}

/** A table without the columns that have no value. */
function MemoryTableView({ table }: { table: MemoryTable }) {
  const kept = table.columns.flatMap((_, at) => (table.rows.some((row) => row[at + 1] !== null) ? [at] : []));
  return (
    <Table
      label={plainText(table.title)}
      columns={[{ name: "", unit: "" }, ...kept.map((at) => table.columns[at] as Column)]}
      rows={table.rows.map((row) => [row[0] ?? null, ...kept.map((at) => row[at + 1] ?? null)])}
      metricOf={(row, column) => table.metrics?.[row]?.[kept[column - 1] as number] ?? null}
    />
  );
}

function Traffic({ nodes, edges, names }: { nodes: readonly MemoryNode[]; edges: readonly MemoryEdge[]; names: ReadonlyMap<string, string> }) {
  return (
    <>
      <Table
        label="Traffic between levels of memory"
        columns={[{ name: "From", unit: "" }, { name: "To", unit: "" }, { name: "Count", unit: "count" }, { name: "Of", unit: "" }, { name: "Bytes", unit: "bytes" }, { name: "Of peak", unit: "ratio" }]}
        rows={edges.map((edge) => [names.get(edge.from) ?? edge.from, names.get(edge.to) ?? edge.to, edge.requests, edge.requests === null ? null : (edge.counts ?? "requests"), edge.bytes, edge.ratio])}
      />
      <ul class="plain">{nodes.filter(({ ratio }) => ratio !== null).map((node) => <li key={node.id}>{`${plainText(node.label)}: ${plainText(node.ratio_label ?? "used")} ${shareOrNone(node.ratio)}`}</li>)}</ul>
    </>
  );
}
