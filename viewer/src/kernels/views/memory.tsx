/** Draws the memory diagram: boxes, and arrows with requests and bytes. */

import { plainText } from "../../base/text";
import { bytesText, shareText, shortCountText } from "../../base/units";
import type { MemoryEdge, MemoryNode, Sections } from "../data/document";
import { type Arrow, type Box, diagramOf } from "../plots/memory";
import { shareOrNone } from "../plots/values";
import { Folded, Table } from "./parts";

function edgeTexts({ requests, bytes }: MemoryEdge): string[] {
  return [requests === null ? "" : `${shortCountText(requests)} req`, bytes === null ? "" : bytesText(bytes)].filter(Boolean);
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
      <text x={arrow.labelX} y={arrow.labelY - width / 2 - 4} text-anchor="middle">{lines.join(" · ")}</text>
    </g>
  );
}

function BoxView({ box }: { box: Box }) {
  const { node, left, top, width, height } = box;
  const middle = left + width / 2;
  const hasRatio = node.ratio !== null;
  return (
    <g class="box" data-node={node.id} data-ratio={node.ratio ?? undefined}>
      <rect x={left} y={top} width={width} height={height} rx={5} />
      {hasRatio && <rect class="filled" x={left} y={top + height - 5} width={width * Math.max(0, Math.min(1, node.ratio as number))} height={5} rx={2} />}
      <text class="name" x={middle} y={top + height / 2 + (hasRatio ? -3 : 4)} text-anchor="middle">{plainText(node.label)}</text>
      {hasRatio && <text class="ratio" x={middle} y={top + height / 2 + 13} text-anchor="middle">{`${plainText(node.ratio_label ?? "")} ${shareText(node.ratio as number)}`.trim()}</text>}
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
          <Table label={plainText(table.title)} columns={table.columns} rows={table.rows} />
        </div>
      ))}
    </>
  );
}

function Traffic({ nodes, edges, names }: { nodes: readonly MemoryNode[]; edges: readonly MemoryEdge[]; names: ReadonlyMap<string, string> }) {
  return (
    <>
      <Table
        label="Traffic between levels of memory"
        columns={[{ name: "From", unit: "" }, { name: "To", unit: "" }, { name: "Requests", unit: "count" }, { name: "Bytes", unit: "bytes" }, { name: "Of peak", unit: "ratio" }]}
        rows={edges.map((edge) => [names.get(edge.from) ?? edge.from, names.get(edge.to) ?? edge.to, edge.requests, edge.bytes, edge.ratio])}
      />
      <ul class="plain">{nodes.filter(({ ratio }) => ratio !== null).map((node) => <li key={node.id}>{`${plainText(node.label)}: ${plainText(node.ratio_label ?? "used")} ${shareOrNone(node.ratio)}`}</li>)}</ul>
    </>
  );
}
