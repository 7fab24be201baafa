/** The estimated saving of a finding, in the words of `warpline analyze`. Pure. */

import { boundsText, timeText } from "../base/units";
import type { SummaryFinding } from "../data/head";

const LEAST_SAVING = 0.05; // fraction of a step: smaller savings are within run-to-run variation

/** Returns the saving with its bounds; "" if none is predicted. `step` follows times: " per step". */
export function savingText(finding: SummaryFinding, step: string): string {
  const { saving_ns: saving, saving_low_ns: low, saving_high_ns: high } = finding;
  if (typeof saving !== "number" || typeof low !== "number" || typeof high !== "number") return "";
  const share = finding.share ?? 0;
  if (share < LEAST_SAVING) return `not measurable, at most ${timeText(high)}${step}`;
  return `${timeText(saving)}${step} (${(100 * share).toFixed(0)}%; bounds ${boundsText(low, high, timeText)})`;
}
