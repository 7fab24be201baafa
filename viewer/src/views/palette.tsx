/** The command palette: type a few letters of a command, row, table, or finding. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { fuzzyFind } from "../base/fuzzy";
import { type Command, commandsOf } from "./commands";
import { keyName } from "./help";
import type { Model } from "./model";

const MOST = 60;

function Palette({ model }: { model: Model }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const all = useMemo(() => commandsOf(model), [model]);
  const found = useMemo(
    () => fuzzyFind(all, (one) => `${one.title} ${one.kind}`, typed, MOST),
    [all, typed],
  );
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    document.getElementById(`warpline-command-${chosen}`)?.scrollIntoView({ block: "nearest" });
  }, [chosen, found]);
  const close = (): void => {
    model.isPaletteOpen.value = false;
  };
  const run = (command: Command | undefined): void => {
    if (!command) return;
    dialog.current?.close(); // returns the focus before the command moves it
    close();
    command.run(model);
  };
  const move = (by: number): void => {
    if (found.length) setChosen((chosen + by + found.length) % found.length);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const moves: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };
    const by = moves[event.key];
    if (by !== undefined) move(by);
    else if (event.key === "Enter") run(found[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="palette" aria-label="Commands" onClose={close}>
      <input
        type="text"
        role="combobox"
        aria-label="Command, row, table, or finding"
        aria-expanded="true"
        aria-controls="warpline-commands"
        aria-autocomplete="list"
        aria-activedescendant={found.length ? `warpline-command-${chosen}` : undefined}
        placeholder="Command, row, table, finding…"
        autocomplete="off"
        spellcheck={false}
        value={typed}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setChosen(0);
        }}
        onKeyDown={onKeyDown}
      />
      <div role="listbox" id="warpline-commands" aria-label="Commands" tabIndex={-1}>
        {found.map((one, i) => (
          <div
            role="option"
            key={`${one.kind} ${one.title}`}
            id={`warpline-command-${i}`}
            aria-selected={i === chosen}
            onClick={() => run(one)}
          >
            <span class="kind">{one.kind}</span>
            <span class="title">{one.title}</span>
            <span class="keys">{one.keys.map((key) => <kbd key={key}>{keyName(key)}</kbd>)}</span>
          </div>
        ))}
      </div>
      <p class="faint" role="status">{found.length === 0 ? "No matches." : ""}</p>
    </dialog>
  );
}

/** Shows the palette while it is open; it is re-created each time. */
export function PaletteWhenOpen({ model }: { model: Model }) {
  return model.isPaletteOpen.value ? <Palette model={model} /> : null;
}
