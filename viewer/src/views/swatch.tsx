/** The color of a name's category. */

import { categoryInk, THEMES } from "../engine/theme";
import type { Model } from "./model";

export function Swatch({ model, name }: { model: Model; name: number }) {
  const { head, names } = model.recording;
  const category = head.categories[names.categories[name] ?? -1];
  const ink = categoryInk(category, THEMES[model.theme.value]);
  return <span class="swatch" style={{ background: ink.css }} title={category ? [category.name, category.meaning].filter(Boolean).join(": ") : ""} />;
}
