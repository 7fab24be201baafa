import { describe, expect, it } from "vitest";
import { Server, StoppedError } from "./server";

type Reply = Response | Error;

/** A server whose replies are given by path. */
function serverOf(reply: (path: string) => Reply): { server: Server; asked: string[]; told: boolean[] } {
  const asked: string[] = [];
  const told: boolean[] = [];
  const server = new Server((path) => {
    asked.push(path);
    const found = reply(path);
    return found instanceof Error ? Promise.reject(found) : Promise.resolve(found);
  });
  server.onChange = (isGone) => told.push(isGone);
  return { server, asked, told };
}

const text = (answer: Response): Promise<string> => answer.text();
const lost = (): Reply => new TypeError("Failed to fetch");

describe("a server", () => {
  it("answers", async () => {
    const { server, told } = serverOf(() => new Response("ten"));
    expect(await server.request("tiles/1", {}, text)).toBe("ten");
    expect(told).toEqual([]);
  });

  it("that has stopped is told of once, and asked nothing until it is back", async () => {
    let isUp = false;
    const { server, asked, told } = serverOf(() => (isUp ? new Response("ten") : lost()));
    const two = await Promise.allSettled([server.request("a", {}, text), server.request("b", {}, text)]);
    for (const one of two) expect(one).toMatchObject({ reason: new StoppedError() });
    expect(told).toEqual([true]);
    const before = asked.length;
    await expect(server.request("c", {}, text)).rejects.toThrow("The server has stopped.");
    expect(asked.length).toBe(before);
    isUp = true;
    expect(await server.probe()).toBe(true);
    expect(told).toEqual([true, false]);
    expect(await server.request("c", {}, text)).toBe("ten");
  });

  it("never says what the browser says", async () => {
    const { server } = serverOf((path) => (path === "./" ? new Response("") : lost()));
    await expect(server.request("a", {}, text)).rejects.toThrow("The connection to the server was interrupted.");
    const broken = serverOf(() => new Response("ten"));
    await expect(broken.server.request("a", {}, () => Promise.reject(lost()))).rejects.not.toThrow("Failed to fetch");
  });

  it("is here if it refuses a request, and gone if another serves its address", async () => {
    const refusing = serverOf((path) => new Response("", { status: path === "./" ? 200 : 404 }));
    await expect(refusing.server.request("a", {}, text)).rejects.toThrow("The server returned status 404.");
    expect(refusing.told).toEqual([]);
    const other = serverOf(() => new Response("", { status: 404 }));
    await expect(other.server.request("a", {}, text)).rejects.toThrow("The server has stopped.");
  });

  it("is not suspected because a request was aborted", async () => {
    const { server, asked, told } = serverOf(() => new DOMException("aborted", "AbortError"));
    await expect(server.request("a", {}, text)).rejects.toMatchObject({ name: "AbortError" });
    expect([asked, told]).toEqual([["a"], []]);
  });
});
