/** The server: requests, jobs, and what to do while it does not answer. */

import type { Fault, Job } from "../api/types";
import { readTensors } from "./safetensors";
import { type Asking, type Server, SourceError } from "./source";

/** How the server is: "away" while it does not answer. */
export type Health = "here" | "away";

export interface Http extends Server {
  /** Tells when the server goes away and when it is back; what was asked meanwhile is asked again by itself. */
  readonly watch: (listener: (health: Health) => void) => () => void;
}

const BODY = { "content-type": "application/json" };

export function http(base = "", wait: (milliseconds: number) => Promise<void> = pause): Http {
  const line = connection(base, wait);
  const post = <T>(path: string, asked: unknown, asking?: Asking): Promise<T> =>
    line.json<T>(path, { method: "POST", headers: BODY, body: JSON.stringify(asked) }, asking);
  const job = async <T>(path: string, asked: unknown, asking?: Asking): Promise<T> => {
    for (;;) {
      const deaths = line.deaths();
      try {
        return await follow<T>(line, await post<Job>(`/api/jobs/${path}`, asked, asking), asking);
      } catch (error) {
        // A server that was away may have come back without its jobs.
        if (!(error instanceof SourceError) || line.deaths() === deaths) throw error;
      }
    }
  };
  const put = <T>(path: string, file: File, asking?: Asking, more: object = {}): Promise<T> => {
    const given = Object.entries(more).filter(
      (each): each is [string, string] => typeof each[1] === "string",
    );
    const query = new URLSearchParams([["name", file.name], ...given]);
    return line.json<T>(`${path}?${query}`, { method: "PUT", body: file }, asking);
  };
  return {
    kind: "server",
    watch: line.watch,
    session: (asking) => line.json("/api/session", {}, asking),
    help: (asking) => line.json("/api/help", {}, asking),
    load: (name, asking) => post("/api/models", { name }, asking),
    explain: (asked, asking) => post("/api/explain", asked, asking),
    flow: (asked, asking) => post("/api/flow", asked, asking),
    compare: (asked, asking) => post("/api/compare", asked, asking),
    heads: (asked, asking) =>
      asked.statistic === "ablation" ? job("heads", asked, asking) : post("/api/heads", asked, asking),
    tensors: async (asked, asking) => {
      const answer = await line.ask(
        "/api/tensors",
        { method: "POST", headers: BODY, body: JSON.stringify(asked) },
        asking,
      );
      return readTensors(await answer.arrayBuffer());
    },
    trust: (asked, asking) => job("trust", asked, asking),
    verify: (asked, asking) => job("verify", asked, asking),
    generate: (asked, asking) => job("generate", asked, asking),
    compareData: (asked, asking) => job("compare", asked, asking),
    predict: (data, asked, asking) => job(`predict/${encodeURIComponent(data)}`, asked, asking),
    leaning: (data, asked, asking) => job(`words/${encodeURIComponent(data)}`, asked, asking),
    habits: (data, asked, asking) => job(`habits/${encodeURIComponent(data)}`, asked, asking),
    bring: (file, asking) => put("/api/pictures", file, asking),
    upload: (file, asking, columns) => put("/api/data", file, asking, columns),
    columns: (data, asked, asking) => post(`/api/data/${encodeURIComponent(data)}/columns`, asked, asking),
    results: (asking) => line.json("/api/results", {}, asking),
    addResult: (file, asking) => put("/api/results", file, asking),
    runs: (asking) => line.json("/api/runs", {}, asking),
    runPage: async (id, query, asking) => {
      await line.ask(`/api/runs/${encodeURIComponent(id)}/page${query}`, {}, asking);
    },
    runRows: (id, query, asking) => line.json(`/api/runs/${encodeURIComponent(id)}/rows${query}`, {}, asking),
    runExample: (id, row, method, asking) => {
      const query = method === null ? "" : `?method=${encodeURIComponent(method)}`;
      return line.json(`/api/runs/${encodeURIComponent(id)}/rows/${row}${query}`, {}, asking);
    },
  };
}

interface Line {
  readonly ask: (path: string, init: RequestInit, asking?: Asking) => Promise<Response>;
  readonly json: <T>(path: string, init: RequestInit, asking?: Asking) => Promise<T>;
  readonly watch: Http["watch"];
  readonly deaths: () => number; // how often the server went away
}

function connection(base: string, wait: (milliseconds: number) => Promise<void>): Line {
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
          // One that asks for another token is back, too: what waits hears of it.
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

  const ask: Line["ask"] = async (path, init, asking) => {
    for (;;) {
      try {
        const answer = await fetch(base + path, { ...init, signal: asking?.signal ?? null });
        if (answer.ok) return answer;
        throw new SourceError(await faultOf(answer));
      } catch (error) {
        // fetch itself fails with a TypeError, and only where there was no answer at all.
        if (!(error instanceof TypeError) || asking?.signal?.aborted) throw error;
        await orAborted(revival(), asking?.signal);
      }
    }
  };
  return {
    ask,
    deaths: () => deaths,
    json: async <T>(path: string, init: RequestInit, asking?: Asking) =>
      (await (await ask(path, init, asking)).json()) as T,
    watch: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Follows a job to its end; calls it off when nobody wants it any more. */
async function follow<T>(line: Line, first: Job, asking?: Asking): Promise<T> {
  const path = `/api/jobs/${encodeURIComponent(first.id)}`;
  const cancel = (): void => void line.ask(path, { method: "DELETE" }).catch(() => undefined);
  if (asking?.signal?.aborted) cancel();
  asking?.signal?.addEventListener("abort", cancel, { once: true });
  try {
    let job = first;
    asking?.progress?.(job);
    while (job.state === "queued" || job.state === "running") {
      const events = await line.ask(`${path}/events`, { headers: { accept: "text/event-stream" } }, asking);
      for await (const event of eventsOf(events)) {
        job = JSON.parse(event) as Job;
        asking?.progress?.(job);
      }
      // The stream may have broken off; the job itself knows best.
      job = await line.json<Job>(path, {}, asking);
    }
    if (job.state !== "done") job = { ...job, error: job.error ?? CANCELLED };
    else if (job.result === undefined) job = await line.json<Job>(path, {}, asking);
    if (job.error) throw new SourceError(job.error);
    return job.result as T;
  } finally {
    asking?.signal?.removeEventListener("abort", cancel);
  }
}

const CANCELLED: Fault = {
  code: "cancelled",
  message: "This was called off.",
  hint: "Begin it again.",
  see: "",
};

/** The data of each server-sent event; a stream that breaks off just ends. */
export async function* eventsOf(answer: Response): AsyncGenerator<string> {
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

async function faultOf(answer: Response): Promise<Fault> {
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

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function orAborted(waiting: Promise<void>, signal?: AbortSignal): Promise<void> {
  if (!signal) return waiting;
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(new DOMException("nobody waits for it any more", "AbortError"));
    signal.addEventListener("abort", stop, { once: true });
    void waiting.then(resolve);
  });
}
