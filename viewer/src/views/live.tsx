/** The numbers of a recording in progress, above its timeline, and whether that follows. */

import { plainText } from "../base/text";
import { countText, plural, shareText, timeText } from "../base/units";
import type { LiveUpdate } from "../data/live";
import { causesOf, type LiveRow, liveRows } from "../data/live-rows";
import type { Model } from "./model";

const SECOND_NS = 1e9;
const MOST_CAUSES = 3;
const LEAST_SHARE = 0.001;
const NOTHING = "–";

/** What the page knows of a recording in progress. */
export interface LiveState {
  readonly update: LiveUpdate;
  /** Whether the timeline is replaced by later ones. */
  readonly isFollowing: boolean;
  readonly failure: string | null;
}

/** Follows the recording again, or stays with what is shown. */
export function switchFollowing(model: Model): void {
  const { value } = model.live;
  if (!value) return;
  if (value.isFollowing) model.live.value = { ...value, isFollowing: false };
  else model.followAgain();
}

function Row({ model, row, update }: { model: Model; row: LiveRow; update: LiveUpdate }) {
  const { second, times } = update;
  const length = times ? times.end_ns - times.start_ns : 1;
  const idle = new Set(model.recording.head.categories.flatMap(({ name, kind }) => (kind === "idle" ? [name] : [])));
  const causes = row.times ? causesOf(row.times, length, (name) => idle.has(name)) : [];
  const named = causes.filter(({ share }) => share >= LEAST_SHARE).slice(0, MOST_CAUSES);
  const secondNs = second ? second.end_ns - second.start_ns : SECOND_NS;
  return (
    <tr>
      <th scope="row">{row.gpu ?? NOTHING}</th>
      <td>{plainText(row.gpuName ?? "") || NOTHING}</td>
      <td>{row.pid === null ? NOTHING : `${row.pid} ${plainText(row.process ?? "")}`}</td>
      <td class="number">{row.now && second ? `${second.is_settled ? "" : "~"}${shareText(row.now.busy_ns / secondNs)}` : NOTHING}</td>
      <td class="number">{row.times ? shareText(row.times.busy_ns / length) : NOTHING}</td>
      <td class="number">{row.now ? countText(Math.round((row.now.operations * SECOND_NS) / secondNs)) : NOTHING}</td>
      <td class="number">{row.steps ? row.steps.per_s.toPrecision(3) : NOTHING}</td>
      <td class="number">{row.steps?.median_ns == null ? NOTHING : timeText(row.steps.median_ns)}</td>
      <td class="number">{row.steps ? timeText(row.steps.last_ns) : NOTHING}</td>
      <td>{named.map(({ name, share }) => `${name} ${shareText(share)}`).join(", ") || NOTHING}</td>
    </tr>
  );
}

/** How old the numbers are, or that there will be no more. */
function ageText({ update, failure }: LiveState): string {
  if (failure) return failure;
  if (!update.is_recording) return "Recording has ended. This is what there was last.";
  if (!update.second) return "Nothing yet: GPU work is shown about a second after it ran.";
  const age = timeText(update.now_ns - update.second.end_ns);
  const lost = update.lost_events ? ` ${countText(update.lost_events)} events were lost.` : "";
  const damaged = update.damaged_logs ? ` ${plural(update.damaged_logs, "log")} damaged: events are missing.` : "";
  const open = update.times && !update.times.is_settled ? " The newest gaps may change." : "";
  return `Busy: 1 s until ${age} ago.${open}${lost}${damaged}`;
}

/** Numbers by process and GPU; nothing of a finished recording. */
export function Live({ model }: { model: Model }) {
  const live = model.live.value;
  if (!live) return null;
  const { update, isFollowing } = live;
  const { times } = update;
  const window = times ? timeText(times.end_ns - times.start_ns) : "";
  const rows = liveRows(update);
  return (
    <section class="live" aria-label="Recording in progress">
      <p>
        <button type="button" aria-pressed={isFollowing} title="Follow the recording, or stay with what is shown (V)" onClick={() => switchFollowing(model)}>
          {isFollowing ? "Pause" : "Follow"}
        </button>
        <span data-testid="live-state">{ageText(live)}</span>
        {!isFollowing && <b> The timeline is paused.</b>}
      </p>
      {rows.length > 0 && (
        <div class="live-rows">
          <table aria-label="GPUs and processes">
            <thead>
              <tr>
                {["GPU", "Name", "Process", "Busy", `Busy ${window}`, "Operations/s", "Steps/s", "Step", "Last step", `Idle ${window}`].map((title) => (
                  <th scope="col" key={title}>{title}</th>
                ))}
              </tr>
            </thead>
            <tbody>{rows.map((row) => <Row key={row.key} model={model} row={row} update={update} />)}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}
