/** Starts the page: reads the head, shows the overview, then loads the events. */

import { effect } from "@preact/signals";
import { render } from "preact";
import workerScript from "worker-text:../data/decode-worker";
import { type Blocks, pageBlocks, serverBlocks } from "../data/blocks";
import { startDecoders } from "../data/decoders";
import { readHead } from "../data/head";
import { askLive, blocksOf } from "../data/live";
import { Recording } from "../data/recording";
import { Server, StoppedError } from "../data/server";
import { serverTiles } from "../data/tile-source";
import { fitSpan } from "../engine/view";
import { parseAddress } from "../views/address";
import { copyText, onKey } from "../views/keys";
import { Model } from "../views/model";
import { Page } from "../views/page";
import { showRange } from "../views/table-lines";
import { startTwin } from "../views/twin";

const MOST_WORKERS = 4;
const ARRIVALS_MS = 200;

function startTheme(model: Model): void {
  const light = window.matchMedia("(prefers-color-scheme: light)");
  const follow = (): void => {
    model.theme.value = light.matches ? "light" : "dark";
  };
  follow();
  light.addEventListener("change", follow); // some systems switch at night
  let isPaper = false; // paper is white, and browsers print no backgrounds
  const show = (): void => {
    document.documentElement.dataset["theme"] = isPaper ? "light" : model.theme.value;
  };
  const print = (is: boolean): void => {
    isPaper = is;
    show();
  };
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  window.matchMedia("print").addEventListener("change", (event) => print(event.matches));
  effect(show);
}

/** Synchronizes the URL fragment and the page in both directions. */
function startAddress(model: Model): void {
  let own = window.location.hash;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const first = parseAddress(own);
  if (first) model.go(first);
  window.addEventListener("hashchange", () => {
    if (window.location.hash === own) return;
    own = window.location.hash;
    const address = parseAddress(own);
    if (address) model.go(address);
  });
  effect(() => {
    const text = model.addressText();
    clearTimeout(timer);
    timer = setTimeout(() => {
      // Keep a requested event in the address until it has arrived.
      if (!model.isComplete.peek() || text === own) return;
      own = text;
      try {
        window.history.replaceState(null, "", text);
      } catch {
        // A frame without its own address, as in notebooks: nothing to update.
      }
    }, 250);
  });
}

const KEYS_OFF = "warpline-single-keys-off";

/** Stores whether single-key shortcuts are off, if the page has storage. */
function startKeys(model: Model): void {
  try {
    model.hasSingleKeys.value = window.localStorage.getItem(KEYS_OFF) === null;
    effect(() => {
      if (model.hasSingleKeys.value) window.localStorage.removeItem(KEYS_OFF);
      else window.localStorage.setItem(KEYS_OFF, "1");
    });
  } catch {
    // A sandboxed frame has no storage: the choice lasts until the page is closed.
  }
  document.addEventListener("keydown", (event) => onKey(model, event));
}

function enableButtons(overview: HTMLElement | null): void {
  for (const button of overview?.querySelectorAll("button") ?? []) {
    button.hidden = false;
    button.disabled = false;
  }
}

/** Enables the static overview: findings, breakdown parts, events, windows, tables, commands. */
function enliven(model: Model): void {
  const root = document.getElementById("warpline-static");
  enableButtons(root);
  root?.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    const element = target?.closest<HTMLElement | SVGElement>(
      "[data-finding],[data-part],[data-range],[data-event],[data-window],[data-table],[data-copy]",
    );
    if (!element) return;
    const { finding, part, range, event: id, window: span, table, copy } = element.dataset;
    const [, device, category] = /^(\d+)\/(.+)$/s.exec(part ?? "") ?? [];
    const [start, end] = (span ?? "").split(",").map(Number);
    if (copy) copyText(model, copy, "Command");
    else if (finding) model.showFinding(finding);
    else if (category) model.showPart(Number(device), category);
    else if (range) showRange(model, range);
    else if (table) {
      model.table.value = table;
      model.page.value = "tables";
    } else {
      model.page.value = "timeline";
      if (id) model.attempt(model.selectId(id));
      else if (start !== undefined && end !== undefined && end > start) model.show(fitSpan({ start, end }, model.limits, 0.1));
    }
    event.preventDefault();
  });
}

async function load(model: Model): Promise<void> {
  const { recording } = model;
  let waiting = false;
  let due = 0;
  // Throttle updates: otherwise most events would be drawn and sent to tables many times.
  const changed = (): void => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      due = performance.now() + ARRIVALS_MS;
      model.arrived.value++;
    }, due - performance.now());
  };
  await recording.loadOverview().then(
    () => performance.mark("warpline-overview"),
    () => undefined, // only the first picture is affected
  );
  model.goHome();
  model.arrived.value++;
  recording.onTiles = (error) => {
    model.fail(error);
    model.refined.value++;
  };
  await recording.loadNames();
  await recording.loadEvents(changed);
  model.isComplete.value = true;
  model.arrived.value++;
  const address = parseAddress(window.location.hash);
  if (address?.selected) await model.selectArrived(address.selected);
}

const ASK_AGAIN_MS = 1000;
const PROBE_MS = 3000;

/** Notices the end of the server even if nothing is requested, and its return. */
function watchServer(model: Model, server: Server): void {
  server.onChange = (isGone) => {
    model.isServerGone.value = isGone;
    if (isGone) return;
    model.fail(null);
    model.arrived.value++; // asks again what failed
    model.refined.value++;
  };
  const probe = (): void => {
    if (document.visibilityState === "visible") void server.probe();
  };
  setInterval(probe, PROBE_MS);
  document.addEventListener("visibilitychange", probe);
}

/** Shows what the server is still computing, and takes the diagnosis into the page when it is ready. */
async function watchPending(model: Model): Promise<void> {
  const { recording } = model;
  for (let text = recording.head.pending ?? null; text; ) {
    model.pending.value = { text, isReady: false };
    await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN_MS));
    const known = text;
    text = await recording.pending().then((now) => now ?? renew(model)).catch((error: unknown) => {
      if (error instanceof StoppedError) return known; // asks again: the server may come back
      throw error;
    });
  }
}

/** Replaces the overview and the head by those that the server has now; returns what is still pending. */
async function renew(model: Model): Promise<string | null> {
  const later = new DOMParser().parseFromString((await model.recording.page()) ?? "", "text/html");
  const head = readHead(later.getElementById("warpline-head")?.textContent ?? "");
  await model.recording.renew(head);
  const overview = document.getElementById("warpline-static");
  overview?.replaceChildren(...(later.getElementById("warpline-static")?.childNodes ?? []));
  enableButtons(overview);
  model.arrived.value++;
  model.pending.value = { text: "The diagnosis is ready.", isReady: true };
  return head.pending ?? null;
}

const LIVE_MS = 1000;

/** Asks for what a recording in progress has, once per second while the page is visible. */
async function followLive(model: Model, server: Server): Promise<void> {
  const { recording } = model;
  let version = 0;
  const known = new Set<string>();
  for (let due = performance.now(); ; due = Math.max(due + LIVE_MS, performance.now())) {
    const { live } = model;
    const isFollowing = live.peek()?.isFollowing ?? true;
    try {
      const answer = await askLive(server, isFollowing ? version : null);
      const isWanted = live.peek()?.isFollowing ?? true; // the user may have begun to look at it meanwhile
      live.value = { update: answer.update, isFollowing: isWanted, failure: answer.failure };
      if (isWanted && answer.head) {
        await recording.follow(answer.head, blocksOf(answer));
        model.takeLater(known);
        for (const { id } of answer.head.rows) known.add(id);
        version = answer.version;
        model.isComplete.value = true;
      }
      model.fail(null);
      if (answer.failure || !answer.update.is_recording) return;
    } catch (error) {
      model.fail(error instanceof Error ? error : new Error(String(error)));
    }
    await new Promise((resolve) => setTimeout(resolve, due + LIVE_MS - performance.now()));
    while (document.visibilityState !== "visible") await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
  }
}

/** Shows a recording in progress. Whoever moves the view or selects something stays with what is shown. */
function startLive(model: Model, server: Server): void {
  effect(() => {
    const live = model.live.value;
    if (live?.isFollowing && !model.isUntouched) model.live.value = { ...live, isFollowing: false };
  });
  void followLive(model, server);
}

function start(): void {
  const root = document.getElementById("warpline-app");
  const text = document.getElementById("warpline-head")?.textContent;
  if (!root || !text) return;
  try {
    const head = readHead(text);
    const page = pageBlocks(document);
    const server = head.source === "http" ? new Server() : null;
    const blocks: Blocks = server ? serverBlocks(server) : page;
    const workers = Math.max(1, Math.min(MOST_WORKERS, navigator.hardwareConcurrency || 2));
    const source = server && head.tiles ? serverTiles(server) : null;
    const recording = new Recording(head, blocks, startDecoders(workerScript, workers), source);
    const model = new Model(recording);
    Object.assign(window, { warpline: { take: page.take, model } });
    page.take();
    if (document.readyState === "loading") {
      document.addEventListener("DOMContentLoaded", () => page.end());
    } else page.end();
    const overview = document.getElementById("warpline-static");
    const hasOverview = overview?.childElementCount && !head.pending && head.first_page !== "timeline";
    model.page.value = hasOverview ? "overview" : "timeline";
    startTheme(model);
    enliven(model);
    render(<Page model={model} />, root);
    startKeys(model);
    if (server) watchServer(model, server);
    if (server && head.live) return startLive(model, server);
    startAddress(model);
    startTwin(model);
    watchPending(model).catch((error: unknown) => {
      model.pending.value = null;
      model.fail(error instanceof Error ? error : new Error(String(error)));
    });
    load(model).catch((error: unknown) => model.fail(error instanceof Error ? error : new Error(String(error))));
  } catch (error) {
    root.textContent = error instanceof Error ? error.message : String(error);
  }
}

start();
