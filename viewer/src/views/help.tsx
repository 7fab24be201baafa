/** The help dialog: keyboard shortcuts and mouse actions. */

import { useEffect, useRef } from "preact/hooks";
import { KEYS, MOUSE } from "./keys";
import type { Model } from "./model";

const NAMES: Readonly<Record<string, string>> = {
  ArrowLeft: "←",
  ArrowRight: "→",
  ArrowUp: "↑",
  ArrowDown: "↓",
  Escape: "Esc",
};

/** Returns a key as printed on a keyboard: "Shift+W" for "W". */
export function keyName(key: string): string {
  if (key.includes(" ")) return key.split(" ").map(keyName).join(" then ");
  const parts = key.split("+");
  const last = parts.pop() ?? "";
  if (parts.length) return [...parts, last.toUpperCase()].join("+");
  if (last.length === 1 && last !== last.toLowerCase()) return `Shift+${last}`;
  return NAMES[last] ?? (last.length === 1 ? last.toUpperCase() : last);
}

export function Help({ model }: { model: Model }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = model.isHelpOpen.value;
  useEffect(() => {
    if (isOpen && !dialog.current?.open) dialog.current?.showModal();
    if (!isOpen && dialog.current?.open) dialog.current.close();
  }, [isOpen]);
  return (
    <dialog
      ref={dialog}
      class="help-page"
      aria-label="Keyboard and mouse"
      onClose={() => {
        model.isHelpOpen.value = false;
      }}
    >
      <h2>Keyboard and mouse</h2>
      <p>
        <label>
          <input
            type="checkbox"
            checked={model.hasSingleKeys.value}
            onChange={(event) => {
              model.hasSingleKeys.value = event.currentTarget.checked;
            }}
          />{" "}
          Enable single-key shortcuts. When they are off, use Ctrl+K.
        </label>
      </p>
      <div class="help">
        <table>
          <tbody>
            {KEYS.map((key) => (
              <tr key={key.text}>
                <th scope="row">{key.keys.map((one) => <kbd key={one}>{keyName(one)}</kbd>)}</th>
                <td>{key.text}</td>
              </tr>
            ))}
          </tbody>
        </table>
        <table>
          <tbody>
            {MOUSE.map(([what, text]) => (
              <tr key={what}>
                <th scope="row">{what}</th>
                <td>{text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <button
        type="button"
        onClick={() => {
          model.isHelpOpen.value = false;
        }}
      >
        Close
      </button>
    </dialog>
  );
}
