/** Kernel source: requests as widget messages to Python in a notebook, and its answers. */

import type { Fault, Job } from "../api/types";
import { STATISTICS, WEIGHTS, listNames } from "../state/choices";
import {
  type RequestOptions,
  type Progress,
  type Reach,
  type Source,
  SourceError,
  type Tensor,
} from "./source";

/** Interface of anywidget's model. */
export interface WidgetModel {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, listener: (...given: never[]) => void): void;
  off(event: string, listener: (...given: never[]) => void): void;
  send(content: unknown): void;
}

/** Message from Python: progress or answer of a request. */
interface KernelMessage {
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

interface PendingRequest {
  readonly id: string;
  readonly ask: string;
  readonly asked: unknown;
  readonly progress?: Progress;
  readonly settle: (message: KernelMessage, buffers: readonly DataView[]) => void;
}

/** Kernel source, which can be closed. */
export interface KernelSource extends Source {
  readonly kind: "kernel";
  close(): void;
}

/** Create a source for the kernel of a notebook. */
export function createKernelSource(model: WidgetModel): KernelSource {
  // The kernel answers messages one by one, so only one is sent at a time; cancelled ones are never sent.
  const waiting: PendingRequest[] = [];
  let current: PendingRequest | null = null;
  let number = 0;
  const mine = Math.random().toString(36).slice(2); // all views of one widget receive the same messages

  const next = (): void => {
    current = waiting.shift() ?? null;
    if (current !== null) model.send({ id: current.id, ask: current.ask, asked: current.asked });
  };
  const handleMessage = (message: KernelMessage, buffers: readonly DataView[]): void => {
    if (current === null || message.id !== current.id) return;
    if (message.job !== undefined) {
      current.progress?.(message.job);
      return;
    }
    const { settle } = current;
    next();
    settle(message, buffers);
  };
  model.on("msg:custom", handleMessage);

  function put<T>(
    ask: string,
    request: unknown,
    options: RequestOptions | undefined,
    read: (message: KernelMessage, buffers: readonly DataView[]) => T,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const settle: PendingRequest["settle"] = (message, buffers) => {
        if (message.error !== undefined) reject(new SourceError(message.error));
        else resolve(read(message, buffers));
      };
      const progress = options?.progress;
      const question = {
        id: `${mine}-${number++}`,
        ask,
        asked: request,
        settle,
        ...(progress ? { progress } : {}),
      };
      options?.signal?.addEventListener("abort", () => {
        const place = waiting.indexOf(question);
        if (place >= 0) waiting.splice(place, 1);
        reject(new DOMException("called off", "AbortError"));
      });
      waiting.push(question);
      if (current === null) next();
    });
  }

  const json = <T>(ask: string, request: unknown, options?: RequestOptions): Promise<T> =>
    put(ask, request, options, (message) => message.answer as T);
  return {
    kind: "kernel",
    reach: buildReach(model),
    session: (options) => json("session", {}, options),
    explain: (request, options) => json("explain", request, options),
    flow: (request, options) => json("flow", request, options),
    heads: (request, options) => json("heads", request, options),
    tensors: (request, options) => put("tensors", request, options, readTensors),
    trust: (request, options) => json("trust", request, options),
    verify: (request, options) => json("verify", request, options),
    compare: (request, options) => json("compare", request, options),
    generate: (request, options) => json("generate", request, options),
    close: () => model.off("msg:custom", handleMessage),
  };
}

/** Build the reach: everything, with the methods of the kernel's whence. */
function buildReach(model: WidgetModel): Reach {
  return {
    methods: (model.get("_methods") ?? []) as readonly string[],
    weights: listNames(WEIGHTS),
    statistics: listNames(STATISTICS),
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

function readTensors(message: KernelMessage, buffers: readonly DataView[]): Map<string, Tensor> {
  return new Map(
    (message.tensors ?? []).map(({ name, dtype, shape }, place) => {
      const view = buffers[place] ?? new DataView(new ArrayBuffer(0));
      // A copy: a Float32Array needs an offset that is a multiple of four.
      const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice();
      return [name, { shape, data: dtype === "uint8" ? bytes : new Float32Array(bytes.buffer) }];
    }),
  );
}
