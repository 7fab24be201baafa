/** Draws a flame graph that grows down. A click or Enter zooms in, Escape zooms out. */

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { plainText } from "../base/text";
import { plural, shareText, timeText } from "../base/units";
import type { Category } from "../data/head";
import { nameInk, THEMES } from "../engine/theme";
import { type Flame, type FlameBox, flameBoxes, type FlameNode, neighbour, nodeAt } from "./flame";
import type { Model } from "./model";

const LINE_PX = 20;
const LEAST_LABEL = 0.015; // fraction of the width; narrower boxes have no room for a letter

interface Props {
  readonly model: Model;
  readonly flame: Flame;
  /** The title of the data: "Layer latency". */
  readonly title: string;
  readonly pattern: RegExp | null;
  /** More controls, next to the choice of the width. */
  readonly children?: ComponentChildren;
}

/** Describes a box: "forward: GPU time 45.4 ms, CPU time 12.1 ms, 83.4% of total, 6 times". */
function sentence(node: FlameNode, flame: Flame, weight: number): string {
  const times = flame.weights.map((title, at) => `${title} ${timeText(node.weights[at] ?? 0)}`);
  const of = flame.root.weights[weight] ?? 0;
  const share = of > 0 ? shareText((node.weights[weight] ?? 0) / of) : "–";
  const count = node.count > 0 ? `, ${plural(node.count, "time")}` : "";
  return `${plainText(node.label).slice(0, 400)}: ${times.join(", ")}, ${share} of total${count}`;
}

export function FlameGraph({ model, flame, title, pattern, children }: Props) {
  const [weight, setWeight] = useState(0);
  const [zoomed, setZoomed] = useState<readonly number[]>([]);
  const [chosen, setChosen] = useState(0);
  const [hovered, setHovered] = useState<number | null>(null);
  const tree = useRef<HTMLDivElement>(null);
  useEffect(() => {
    setZoomed([]);
    setChosen(0);
  }, [flame]);
  const boxes = useMemo(() => flameBoxes(flame.root, weight, zoomed), [flame, weight, zoomed]);
  const zoom = (path: readonly number[]): void => {
    setZoomed(path);
    setChosen(path.length); // the enclosing boxes come first, one per level
    setHovered(null);
  };
  const isLit = ({ label, names }: FlameNode): boolean => {
    const lit = model.lit.value;
    if (!pattern && !lit) return true;
    return pattern ? pattern.test(label) : names.some((name) => lit?.[name] === 1);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const box = boxes[chosen];
    if (event.key === "Enter" || event.key === " ") zoom(box?.path ?? []);
    else if (event.key === "Escape" && zoomed.length) zoom(zoomed.slice(0, -1));
    else {
      const next = neighbour(boxes, chosen, event.key);
      if (next === chosen) return;
      setChosen(next);
      tree.current?.querySelectorAll<HTMLElement>("[role=treeitem]")[next]?.focus();
    }
    event.preventDefault();
    event.stopPropagation();
  };
  const shown = boxes[hovered ?? chosen]?.node ?? flame.root;
  const names = nodeAt(flame.root, zoomed).names;
  const levels = Math.max(0, ...boxes.map((one) => one.level)) + 1;
  return (
    <div class="flame">
      <p class="flame-bar">
        <label>
          Width{" "}
          <select value={String(weight)} onChange={(event) => setWeight(Number(event.currentTarget.value))}>
            {flame.weights.map((one, at) => <option key={one} value={String(at)}>{one}</option>)}
          </select>
        </label>
        {children}
        <Path flame={flame} zoomed={zoomed} onZoom={zoom} />
        {names.length > 0 && (
          <button
            type="button"
            onClick={() => {
              model.light(names, nodeAt(flame.root, zoomed).label);
              model.page.value = "timeline";
            }}
          >
            Highlight on the timeline
          </button>
        )}
      </p>
      <p class="flame-said" aria-live="off">{sentence(shown, flame, weight)}</p>
      <div
        ref={tree}
        class="flame-boxes"
        role="tree"
        aria-label={`${title}: flame graph of ${flame.weights[weight]}`}
        style={{ height: `${levels * LINE_PX}px` }}
        onKeyDown={onKeyDown}
        onPointerLeave={() => setHovered(null)}
      >
        {boxes.map((box, at) => (
          <Box
            key={box.path.join()}
            box={box}
            model={model}
            isFaded={!isLit(box.node)}
            isChosen={at === chosen}
            isOpen={box.node.children.length > 0 ? zoomed.length > box.level : null}
            said={sentence(box.node, flame, weight)}
            onZoom={() => zoom(box.path)}
            onEnter={() => setHovered(at)}
            onFocus={() => setChosen(at)}
          />
        ))}
      </div>
    </div>
  );
}

function categoryOf(model: Model, node: FlameNode): Category | undefined {
  const { head, names } = model.recording;
  const [name] = node.names;
  const found = head.categories[name === undefined ? -1 : (names.categories[name] ?? -1)];
  return found ?? head.categories.find((one) => one.kind === "range");
}

function Path({ flame, zoomed, onZoom }: {
  flame: Flame;
  zoomed: readonly number[];
  onZoom: (path: readonly number[]) => void;
}) {
  if (!zoomed.length) return <span class="faint">Click or Enter: zoom in. Escape: zoom out.</span>;
  return (
    <span>
      {[flame.root, ...zoomed.map((_, i) => nodeAt(flame.root, zoomed.slice(0, i + 1)))].map((node, i) => (
        <span key={i}>
          {i > 0 && " › "}
          <button type="button" class="link" onClick={() => onZoom(zoomed.slice(0, i))}>{plainText(node.label).slice(0, 60)}</button>
        </span>
      ))}
    </span>
  );
}

function Box({ box, model, isFaded, isChosen, isOpen, said, onZoom, onEnter, onFocus }: {
  box: FlameBox;
  model: Model;
  isFaded: boolean;
  isChosen: boolean;
  isOpen: boolean | null;
  said: string;
  onZoom: () => void;
  onEnter: () => void;
  onFocus: () => void;
}) {
  const ink = nameInk(box.node.label, categoryOf(model, box.node), THEMES[model.theme.value], !isFaded);
  return (
    <div
      class="flame-box"
      role="treeitem"
      aria-level={box.level + 1}
      aria-expanded={isOpen ?? undefined}
      aria-label={said}
      tabIndex={isChosen ? 0 : -1}
      style={{
        left: `${box.x * 100}%`,
        width: `${box.width * 100}%`,
        top: `${box.level * LINE_PX}px`,
        background: ink.css,
        color: ink.text,
      }}
      onClick={onZoom}
      onPointerEnter={onEnter}
      onFocus={onFocus}
    >
      {box.width >= LEAST_LABEL ? plainText(box.node.label).slice(0, 300) : ""}
    </div>
  );
}
