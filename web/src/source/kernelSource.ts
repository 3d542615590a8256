/** A notebook's kernel: questions go to Python as messages of the widget, and answers come back. */

import type { Fault, Job } from "../api/types";
import { STATISTICS, WEIGHTS, namesOf } from "../state/choices";
import { type Asking, type Progress, type Reach, type Source, SourceError, type Tensor } from "./source";

/** What anywidget gives a view of the model in Python. */
export interface WidgetModel {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, listener: (...given: never[]) => void): void;
  off(event: string, listener: (...given: never[]) => void): void;
  send(content: unknown): void;
}

/** What Python says to a question: how far it is, or what came of it. */
interface Said {
  readonly id: string;
  readonly job?: Job;
  readonly answer?: unknown;
  readonly error?: Fault;
  readonly tensors?: readonly {
    readonly name: string;
    readonly dtype: string;
    readonly shape: readonly number[];
  }[];
}

interface Question {
  readonly id: string;
  readonly ask: string;
  readonly asked: unknown;
  readonly progress?: Progress;
  readonly settle: (said: Said, buffers: readonly DataView[]) => void;
}

export interface Kernel extends Source {
  readonly kind: "kernel";
  close(): void;
}

export function kernelSource(model: WidgetModel): Kernel {
  // The kernel answers one message after the other, so only one is on its way: what was called off before is not sent.
  const waiting: Question[] = [];
  let current: Question | null = null;
  let number = 0;
  const mine = Math.random().toString(36).slice(2); // several views of one widget hear the same messages

  const next = (): void => {
    current = waiting.shift() ?? null;
    if (current !== null) model.send({ id: current.id, ask: current.ask, asked: current.asked });
  };
  const hear = (said: Said, buffers: readonly DataView[]): void => {
    if (current === null || said.id !== current.id) return;
    if (said.job !== undefined) {
      current.progress?.(said.job);
      return;
    }
    const { settle } = current;
    next();
    settle(said, buffers);
  };
  model.on("msg:custom", hear);

  function put<T>(
    ask: string,
    asked: unknown,
    asking: Asking | undefined,
    read: (said: Said, buffers: readonly DataView[]) => T,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const settle: Question["settle"] = (said, buffers) => {
        if (said.error !== undefined) reject(new SourceError(said.error));
        else resolve(read(said, buffers));
      };
      const progress = asking?.progress;
      const question = { id: `${mine}-${number++}`, ask, asked, settle, ...(progress ? { progress } : {}) };
      asking?.signal?.addEventListener("abort", () => {
        const place = waiting.indexOf(question);
        if (place >= 0) waiting.splice(place, 1);
        reject(new DOMException("called off", "AbortError"));
      });
      waiting.push(question);
      if (current === null) next();
    });
  }

  const json = <T>(ask: string, asked: unknown, asking?: Asking): Promise<T> =>
    put(ask, asked, asking, (said) => said.answer as T);
  return {
    kind: "kernel",
    reach: reachOf(model),
    session: (asking) => json("session", {}, asking),
    explain: (asked, asking) => json("explain", asked, asking),
    flow: (asked, asking) => json("flow", asked, asking),
    heads: (asked, asking) => json("heads", asked, asking),
    tensors: (asked, asking) => put("tensors", asked, asking, tensorsOf),
    trust: (asked, asking) => json("trust", asked, asking),
    verify: (asked, asking) => json("verify", asked, asking),
    compare: (asked, asking) => json("compare", asked, asking),
    generate: (asked, asking) => json("generate", asked, asking),
    close: () => model.off("msg:custom", hear),
  };
}

/** All there is; the methods are those of the whence in the kernel. */
function reachOf(model: WidgetModel): Reach {
  return {
    methods: (model.get("_methods") ?? []) as readonly string[],
    weights: namesOf(WEIGHTS),
    statistics: namesOf(STATISTICS),
    thumbnails: true,
    matrices: true,
    input: true,
    target: true,
    trace: true,
    trust: true,
    verify: true,
    why: "",
  };
}

function tensorsOf(said: Said, buffers: readonly DataView[]): Map<string, Tensor> {
  return new Map(
    (said.tensors ?? []).map(({ name, dtype, shape }, place) => {
      const view = buffers[place] ?? new DataView(new ArrayBuffer(0));
      // A copy, as an array of floats may not begin in the middle of one.
      const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice();
      return [name, { shape, data: dtype === "uint8" ? bytes : new Float32Array(bytes.buffer) }];
    }),
  );
}
