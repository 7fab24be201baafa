/** What the colors of a map mean. */

import { toCss } from "../../base/colour";
import { SCALES } from "../plots/cells";

interface LegendProps {
  readonly theme: "light" | "dark";
  readonly low: string;
  readonly high: string;
  readonly isOneSided: boolean;
}

export function Legend({ theme, low, high, isOneSided }: LegendProps) {
  const { less, equal, more } = SCALES[theme];
  const colors = (isOneSided ? [equal, more] : [less, equal, more]).map(toCss).join(", ");
  return (
    <p class="legend">
      <span>{low}</span>
      <span class="ramp" aria-hidden="true" style={{ background: `linear-gradient(to right, ${colors})` }} />
      <span>{high}</span>
    </p>
  );
}

interface MeasureProps<Id extends string> {
  readonly measures: readonly { readonly id: Id; readonly name: string }[];
  readonly chosen: Id;
  readonly choose: (id: Id) => void;
  /** What follows, as in "against the median". */
  readonly than: string;
}

/** What the color of a map is. */
export function Measures<Id extends string>({ measures, chosen, choose, than }: MeasureProps<Id>) {
  return (
    <p>
      <label>
        Color:{" "}
        <select id="measure" value={chosen} onChange={(event) => choose(event.currentTarget.value as Id)}>
          {measures.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
      </label>{" "}
      {than}
    </p>
  );
}
