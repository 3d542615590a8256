/** Tests of the HTTP source against a real server: refusals, jobs, aborts, lost and restarted servers. */

import { type IncomingMessage, type Server, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";

import type { Job } from "../api/types";
import { createHttpSource } from "./httpSource";

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void;

let server: Server | null = null;

function serve(answer: Answer, port = 0): Promise<string> {
  return new Promise((resolve) => {
    server = createServer((request, response) => {
      let body = "";
      request.on("data", (part: Buffer) => (body += part.toString()));
      request.on("end", () => answer(request, response, body));
    });
    server.listen(port, "127.0.0.1", () =>
      resolve(`http://127.0.0.1:${(server?.address() as AddressInfo).port}`),
    );
  });
}

function stop(): Promise<void> {
  const old = server;
  server = null;
  return new Promise((resolve) => {
    if (!old) return resolve();
    old.closeAllConnections();
    old.close(() => resolve());
  });
}

afterEach(stop);

function sendJson(response: ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

function makeJob(change: Partial<Job>): Job {
  return {
    id: "j1",
    kind: "trust",
    model: "m",
    state: "queued",
    position: 0,
    done: 0,
    total: 0,
    remaining: null,
    result: null,
    error: null,
    ...change,
  };
}

const INPUT = { model: "m", text: "good", of: "logit" as const, truncate: true };

test("refusal: keeps its fault", async () => {
  const fault = { code: "too-long", message: "300 tokens are too many", hint: "Shorten it.", see: "docs" };
  const base = await serve((_, response) => sendJson(response, { ok: false, error: fault }, 422));
  await expect(createHttpSource(base).session()).rejects.toMatchObject({ name: "SourceError", fault });
});

test("refusal without a body: gets a fault", async () => {
  const base = await serve((_, response) => response.writeHead(502).end("<html>"));
  await expect(createHttpSource(base).session()).rejects.toMatchObject({ fault: { code: "http-502" } });
});

test("job: reports progress and returns its result", async () => {
  const result = { kind: "trust", sentence: "so it is" };
  const base = await serve((request, response) => {
    if (request.url === "/api/jobs/trust") return sendJson(response, makeJob({ position: 2 }), 202);
    if (request.url === "/api/jobs/j1/events") {
      response.writeHead(200, { "content-type": "text/event-stream" });
      // Cut in the middle of an event, and with a comment between two.
      response.write(
        `data: ${JSON.stringify(makeJob({ state: "running", done: 1, total: 3 }))}\n\n: alive\n\ndata: {"id":`,
      );
      const rest = JSON.stringify(makeJob({ state: "running", done: 3, total: 3 })).slice('{"id":'.length);
      setTimeout(() => response.end(`${rest}\n\n`), 20);
      return;
    }
    sendJson(response, { ...makeJob({ state: "done" }), result });
  });
  const seen: string[] = [];
  const progress = ({ state, position, done }: Job): number => seen.push(`${state} ${position} ${done}`);
  await expect(
    createHttpSource(base).trust({ input: INPUT, methods: ["attcat"] }, { progress }),
  ).resolves.toEqual(result);
  expect(seen).toEqual(["queued 2 0", "running 0 1", "running 0 3"]);
});

test("failed job: throws its fault", async () => {
  const fault = { code: "oom", message: "no memory", hint: "", see: "" };
  const base = await serve((request, response) => {
    if (request.method === "POST") return sendJson(response, makeJob({}), 202);
    if (request.url?.endsWith("/events")) return response.end();
    sendJson(response, makeJob({ state: "failed", error: fault }));
  });
  await expect(createHttpSource(base).trust({ input: INPUT, methods: ["attcat"] })).rejects.toMatchObject({
    fault,
  });
});

test("aborted request: its job is cancelled at the server", async () => {
  const control = new AbortController();
  const deleted = new Promise<string>((resolve) => {
    void serve((request, response) => {
      if (request.method === "DELETE") {
        sendJson(response, makeJob({ state: "cancelled" }));
        return resolve(request.url ?? "");
      }
      if (request.method === "POST") return sendJson(response, makeJob({}), 202);
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`data: ${JSON.stringify(makeJob({ state: "running" }))}\n\n`);
    }).then((base) => {
      const progress = ({ state }: Job): void => {
        if (state === "running") control.abort();
      };
      const request = createHttpSource(base).trust(
        { input: INPUT, methods: ["attcat"] },
        { signal: control.signal, progress },
      );
      return expect(request).rejects.toMatchObject({ name: "AbortError" });
    });
  });
  expect(await deleted).toBe("/api/jobs/j1");
});

test("server that died: awaited, and the request sent again", async () => {
  const base = await serve(() => undefined);
  const port = Number(new URL(base).port);
  const events: string[] = [];
  const waits: number[] = [];
  // The first wait is the time in which the server comes back.
  const source = createHttpSource(base, async (milliseconds) => {
    waits.push(milliseconds);
    if (waits.length === 2)
      await serve((request, response) => sendJson(response, { path: request.url }), port);
  });
  source.watch((health) => events.push(health));
  const request = source.session();
  await stop();
  await expect(request).resolves.toEqual({ path: "/api/session" });
  expect(events).toEqual(["away", "here"]);
  expect(waits).toEqual([500, 750]);
});

test("server back with another token: reported as here, and waiting requests get the refusal", async () => {
  const base = await serve(() => undefined);
  const port = Number(new URL(base).port);
  const events: string[] = [];
  const error = {
    code: "not-allowed",
    message: "This server asks for its token.",
    hint: "Open it.",
    see: "",
  };
  const source = createHttpSource(base, async () => {
    await serve((_, response) => sendJson(response, { ok: false, error }, 401), port);
  });
  source.watch((health) => events.push(health));
  const request = source.session();
  await stop();
  await expect(request).rejects.toMatchObject({ message: "This server asks for its token." });
  expect(events).toEqual(["away", "here"]);
});

test("job lost with its server: started again", async () => {
  let posts = 0;
  let restarted = false;
  const gone = { ok: false, error: { code: "no-job", message: "no such job", hint: "", see: "" } };
  const base = await serve((request, response) => {
    if (request.url === "/api/health") return sendJson(response, { ok: true });
    if (request.method === "POST") return sendJson(response, makeJob({ id: `j${++posts}` }), 202);
    if (request.url?.startsWith("/api/jobs/j1"))
      return restarted ? sendJson(response, gone, 404) : void request.socket.destroy();
    if (request.url?.endsWith("/events")) return response.end();
    sendJson(response, { ...makeJob({ state: "done" }), result: { kind: "trust" } });
  });
  const source = createHttpSource(base, async () => {
    restarted = true;
  });
  await expect(source.trust({ input: INPUT, methods: ["attcat"] })).resolves.toEqual({ kind: "trust" });
  expect(posts).toBe(2);
});
