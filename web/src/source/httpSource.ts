/** HTTP source: requests, jobs, and reconnection while the server does not answer. */

import type { Fault, Job } from "../api/types";
import { readTensors } from "./safetensors";
import { type RequestOptions, type Server, SourceError } from "./source";

/** Health of the server: "away" while it does not answer. */
export type Health = "here" | "away";

/** Server source that also reports its health. */
export interface HttpSource extends Server {
  /** Reports when the server goes away and comes back; requests made meanwhile are sent again. */
  readonly watch: (listener: (health: Health) => void) => () => void;
}

const BODY = { "content-type": "application/json" };

/** Create a source for a server. */
export function createHttpSource(
  base = "",
  wait: (milliseconds: number) => Promise<void> = sleep,
): HttpSource {
  const line = createConnection(base, wait);
  const post = <T>(path: string, request: unknown, options?: RequestOptions): Promise<T> =>
    line.json<T>(path, { method: "POST", headers: BODY, body: JSON.stringify(request) }, options);
  const job = async <T>(path: string, request: unknown, options?: RequestOptions): Promise<T> => {
    for (;;) {
      const deaths = line.deaths();
      try {
        return await followJob<T>(line, await post<Job>(`/api/jobs/${path}`, request, options), options);
      } catch (error) {
        // A restarted server has lost its jobs.
        if (!(error instanceof SourceError) || line.deaths() === deaths) throw error;
      }
    }
  };
  const put = <T>(path: string, file: File, options?: RequestOptions, more: object = {}): Promise<T> => {
    const given = Object.entries(more).filter(
      (each): each is [string, string] => typeof each[1] === "string",
    );
    const query = new URLSearchParams([["name", file.name], ...given]);
    return line.json<T>(`${path}?${query}`, { method: "PUT", body: file }, options);
  };
  return {
    kind: "server",
    watch: line.watch,
    session: (options) => line.json("/api/session", {}, options),
    help: (options) => line.json("/api/help", {}, options),
    load: (name, options) => post("/api/models", { name }, options),
    explain: (request, options) => post("/api/explain", request, options),
    flow: (request, options) => post("/api/flow", request, options),
    compare: (request, options) => post("/api/compare", request, options),
    heads: (request, options) =>
      request.statistic === "ablation"
        ? job("heads", request, options)
        : post("/api/heads", request, options),
    tensors: async (request, options) => {
      const answer = await line.ask(
        "/api/tensors",
        { method: "POST", headers: BODY, body: JSON.stringify(request) },
        options,
      );
      return readTensors(await answer.arrayBuffer());
    },
    trust: (request, options) => job("trust", request, options),
    verify: (request, options) => job("verify", request, options),
    generate: (request, options) => job("generate", request, options),
    compareData: (request, options) => job("compare", request, options),
    predict: (data, request, options) => job(`predict/${encodeURIComponent(data)}`, request, options),
    classWords: (data, request, options) => job(`words/${encodeURIComponent(data)}`, request, options),
    headPatterns: (data, request, options) => job(`habits/${encodeURIComponent(data)}`, request, options),
    uploadPicture: (file, options) => put("/api/pictures", file, options),
    uploadData: (file, options, columns) => put("/api/data", file, options, columns),
    readColumns: (data, request, options) =>
      post(`/api/data/${encodeURIComponent(data)}/columns`, request, options),
    results: (options) => line.json("/api/results", {}, options),
    addResult: (file, options) => put("/api/results", file, options),
    runs: (options) => line.json("/api/runs", {}, options),
    runPage: async (id, query, options) => {
      await line.ask(`/api/runs/${encodeURIComponent(id)}/page${query}`, {}, options);
    },
    runRows: (id, query, options) =>
      line.json(`/api/runs/${encodeURIComponent(id)}/rows${query}`, {}, options),
    runExample: (id, row, method, options) => {
      const query = method === null ? "" : `?method=${encodeURIComponent(method)}`;
      return line.json(`/api/runs/${encodeURIComponent(id)}/rows/${row}${query}`, {}, options);
    },
  };
}

interface Connection {
  readonly ask: (path: string, init: RequestInit, options?: RequestOptions) => Promise<Response>;
  readonly json: <T>(path: string, init: RequestInit, options?: RequestOptions) => Promise<T>;
  readonly watch: HttpSource["watch"];
  readonly deaths: () => number; // number of times the server went away
}

function createConnection(base: string, wait: (milliseconds: number) => Promise<void>): Connection {
  const listeners = new Set<(health: Health) => void>();
  let back: Promise<void> | null = null;
  let deaths = 0;
  const tell = (health: Health): void => listeners.forEach((listener) => listener(health));

  /** Asks for a sign of life, more and more patiently; all that waits, waits for the same. */
  const revival = (): Promise<void> => {
    back ??= (async () => {
      deaths++;
      tell("away");
      for (let pause = 500; ; pause = Math.min(8000, pause * 1.5)) {
        await wait(pause);
        const alive = await fetch(`${base}/api/health`).then(
          // A server that rejects the token is back too: waiting requests get its refusal.
          (answer) => answer.ok || answer.status === 401,
          () => false,
        );
        if (alive) break;
      }
      back = null;
      tell("here");
    })();
    return back;
  };

  const ask: Connection["ask"] = async (path, init, options) => {
    for (;;) {
      try {
        const answer = await fetch(base + path, { ...init, signal: options?.signal ?? null });
        if (answer.ok) return answer;
        throw new SourceError(await readFault(answer));
      } catch (error) {
        // fetch throws a TypeError only where there was no answer.
        if (!(error instanceof TypeError) || options?.signal?.aborted) throw error;
        await waitOrAbort(revival(), options?.signal);
      }
    }
  };
  return {
    ask,
    deaths: () => deaths,
    json: async <T>(path: string, init: RequestInit, options?: RequestOptions) =>
      (await (await ask(path, init, options)).json()) as T,
    watch: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Follow a job to its end; cancel it when the request is aborted. */
async function followJob<T>(line: Connection, first: Job, options?: RequestOptions): Promise<T> {
  const path = `/api/jobs/${encodeURIComponent(first.id)}`;
  const cancel = (): void => void line.ask(path, { method: "DELETE" }).catch(() => undefined);
  if (options?.signal?.aborted) cancel();
  options?.signal?.addEventListener("abort", cancel, { once: true });
  try {
    let job = first;
    options?.progress?.(job);
    while (job.state === "queued" || job.state === "running") {
      const events = await line.ask(`${path}/events`, { headers: { accept: "text/event-stream" } }, options);
      for await (const event of readEvents(events)) {
        job = JSON.parse(event) as Job;
        options?.progress?.(job);
      }
      // The stream may have broken off; request the job's final state.
      job = await line.json<Job>(path, {}, options);
    }
    if (job.state !== "done") job = { ...job, error: job.error ?? CANCELLED };
    else if (job.result === undefined) job = await line.json<Job>(path, {}, options);
    if (job.error) throw new SourceError(job.error);
    return job.result as T;
  } finally {
    options?.signal?.removeEventListener("abort", cancel);
  }
}

const CANCELLED: Fault = {
  code: "cancelled",
  message: "This was called off.",
  hint: "Begin it again.",
  see: "",
};

/** Read the data of server-sent events; a stream that breaks off ends. */
export async function* readEvents(answer: Response): AsyncGenerator<string> {
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let held = "";
  for (;;) {
    const { done, value } = await reader.read().catch((error: unknown) => {
      if (error instanceof TypeError) return { done: true as const, value: undefined };
      throw error;
    });
    if (done) return;
    held += value.replace(/\r\n?/g, "\n");
    for (let end = held.indexOf("\n\n"); end >= 0; end = held.indexOf("\n\n")) {
      const lines = held.slice(0, end).split("\n");
      held = held.slice(end + 2);
      const data = lines.filter((each) => each.startsWith("data:")).map((each) => each.slice(5).trimStart());
      if (data.length > 0) yield data.join("\n");
    }
  }
}

async function readFault(answer: Response): Promise<Fault> {
  const body: unknown = await answer.json().catch(() => null);
  const fault = body && typeof body === "object" && "error" in body ? (body as { error: Fault }).error : null;
  return (
    fault ?? {
      code: `http-${answer.status}`,
      message: `The server answered ${answer.status} without a reason.`,
      hint: "Look at the terminal in which whence app runs.",
      see: "",
    }
  );
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function waitOrAbort(waiting: Promise<void>, signal?: AbortSignal): Promise<void> {
  if (!signal) return waiting;
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(new DOMException("nobody waits for it any more", "AbortError"));
    signal.addEventListener("abort", stop, { once: true });
    void waiting.then(resolve);
  });
}
