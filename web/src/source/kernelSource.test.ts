/** Tests of the kernel source on a fake widget model: order, aborts, progress, refusals, tensors. */

import { describe, expect, it } from "vitest";

import { type WidgetModel, createKernelSource } from "./kernelSource";
import { SourceError } from "./source";

type Listener = (content: unknown, buffers: readonly DataView[]) => void;
interface Sent {
  readonly id: string;
  readonly ask: string;
  readonly asked: unknown;
}

/** Fake widget model: records sent messages and emits replies. */
function ends(): { model: WidgetModel; sent: Sent[]; say: Listener; listeners: Set<Listener> } {
  const listeners = new Set<Listener>();
  const sent: Sent[] = [];
  const model: WidgetModel = {
    get: () => undefined,
    set: () => undefined,
    save_changes: () => undefined,
    on: (_, listener) => listeners.add(listener as Listener),
    off: (_, listener) => listeners.delete(listener as Listener),
    send: (content) => sent.push(content as Sent),
  };
  return {
    model,
    sent,
    listeners,
    say: (content, buffers) => listeners.forEach((one) => one(content, buffers)),
  };
}

const INPUT = { model: "m", text: "a", pair: null, target: null, of: "logit" as const, truncate: true };
const heads = { input: INPUT, statistic: "entropy" as const };

describe("createKernelSource", () => {
  it("several requests: sent one by one, answered by id", async () => {
    const { model, sent, say } = ends();
    const source = createKernelSource(model);
    const first = source.heads(heads);
    const second = source.session();
    expect(sent.map(({ ask }) => ask)).toEqual(["heads"]);
    expect(sent[0]?.asked).toEqual(heads);
    say({ id: "of another view", answer: "wrong" }, []);
    say({ id: sent[0]?.id, answer: "heads" }, []);
    expect(sent.map(({ ask }) => ask)).toEqual(["heads", "session"]);
    say({ id: sent[1]?.id, answer: "session" }, []);
    expect([await first, await second]).toEqual(["heads", "session"]);
  });

  it("aborted request: never sent", async () => {
    const { model, sent, say } = ends();
    const source = createKernelSource(model);
    const control = new AbortController();
    const first = source.session();
    const gone = source.heads(heads, { signal: control.signal });
    const last = source.session();
    control.abort();
    await expect(gone).rejects.toMatchObject({ name: "AbortError" });
    say({ id: sent[0]?.id, answer: 1 }, []);
    say({ id: sent[1]?.id, answer: 2 }, []);
    expect([await first, await last]).toEqual([1, 2]);
    expect(sent.map(({ ask }) => ask)).toEqual(["session", "session"]);
  });

  it("reports progress, and continues after a refusal", async () => {
    const { model, sent, say } = ends();
    const source = createKernelSource(model);
    const seen: number[] = [];
    const job = source.heads(heads, { progress: ({ done }) => seen.push(done) });
    const next = source.session();
    say({ id: sent[0]?.id, job: { done: 3 } }, []);
    say({ id: sent[0]?.id, job: { done: 7 } }, []);
    const fault = { code: "no-head", message: "No head.", hint: "", see: "" };
    say({ id: sent[0]?.id, error: fault }, []);
    const error: unknown = await job.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(SourceError);
    expect((error as SourceError).fault).toEqual(fault);
    expect(seen).toEqual([3, 7]);
    say({ id: sent[1]?.id, answer: "here" }, []);
    expect(await next).toBe("here");
  });

  it("reads tensors at any byte offset", async () => {
    const { model, sent, say, listeners } = ends();
    const source = createKernelSource(model);
    const answer = source.tensors({ input: INPUT, keys: ["attention.0.0", "thumbnails"] });
    const whole = new Uint8Array(11); // floats from byte 3 on: no multiple of four
    whole.set(new Uint8Array(new Float32Array([0.25, 0.75]).buffer), 3);
    const tensors = [
      { name: "attention.0.0", dtype: "float32", shape: [1, 2] },
      { name: "thumbnails", dtype: "uint8", shape: [2] },
    ];
    say({ id: sent[0]?.id, tensors }, [
      new DataView(whole.buffer, 3, 8),
      new DataView(new Uint8Array([7, 9]).buffer),
    ]);
    const read = await answer;
    expect(read.get("attention.0.0")).toEqual({ shape: [1, 2], data: new Float32Array([0.25, 0.75]) });
    expect(read.get("thumbnails")?.data).toEqual(new Uint8Array([7, 9]));
    source.close();
    expect(listeners.size).toBe(0);
  });
});
