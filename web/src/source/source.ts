/** Where the page's numbers come from: a server, a notebook's kernel, or what a file carries with it. */

import type {
  Compared,
  Explanations,
  Fault,
  Flow,
  Heads,
  Job,
  Session,
  Statistic,
  WeightName,
} from "../api/types";
import type { components } from "../api/schema.gen";

type S = components["schemas"];

/** What a job says while it runs. */
export type Progress = (job: Job) => void;

export interface Asking {
  readonly signal?: AbortSignal;
  readonly progress?: Progress;
}

export interface Tensor {
  readonly shape: readonly number[];
  readonly data: Float32Array | Uint8Array;
}

/** How far a source goes that does not go everywhere; controls beyond it are disabled, and say why. */
export interface Reach {
  readonly methods: readonly string[]; // those that can be asked for
  readonly weights: readonly WeightName[];
  readonly statistics: readonly Statistic[];
  readonly thumbnails: boolean;
  readonly matrices: boolean; // maps of single heads
  readonly input: boolean; // another text, another model
  readonly target: boolean; // another target
  readonly trace: boolean; // from, to and through words, and filters
  readonly trust: boolean;
  readonly verify: boolean;
  readonly why: string; // a sentence: what is out of reach, and where it is not
}

export interface Source {
  /** Absent: everything. */
  readonly reach?: Reach;
  /** "server" can do everything; "kernel" and "file" say so when something is out of their reach. */
  readonly kind: "server" | "kernel" | "file";
  session(asking?: Asking): Promise<Session>;
  explain(asked: S["ExplainAsked"], asking?: Asking): Promise<Explanations>;
  flow(asked: S["FlowAsked"], asking?: Asking): Promise<Flow>;
  heads(asked: S["HeadsAsked"], asking?: Asking): Promise<Heads>;
  tensors(asked: S["TensorsAsked"], asking?: Asking): Promise<Map<string, Tensor>>;
  trust(asked: S["TrustAsked"], asking?: Asking): Promise<S["TrustCard"]>;
  verify(asked: S["VerifyAsked"], asking?: Asking): Promise<S["Verified"]>;
  compare(asked: S["CompareAsked"], asking?: Asking): Promise<Compared>;
  generate(asked: S["GenerateAsked"], asking?: Asking): Promise<S["Generated"]>;
}

/** What only a server has. */
export interface Server extends Source {
  readonly kind: "server";
  help(asking?: Asking): Promise<S["Help"]>;
  load(name: string, asking?: Asking): Promise<S["ModelEntry"]>;
  compareData(asked: S["CompareDataAsked"], asking?: Asking): Promise<S["Comparison"]>;
  /** Brings a picture; it is asked about by its id. */
  bring(file: File, asking?: Asking): Promise<S["Picture"]>;
  /** Brings a data set; by these columns, or by those that are guessed. */
  upload(file: File, asking?: Asking, columns?: S["ColumnsAsked"]): Promise<S["DataSet"]>;
  /** Reads a data set anew, by other columns. */
  columns(data: string, asked: S["ColumnsAsked"], asking?: Asking): Promise<S["DataSet"]>;
  predict(data: string, asked: S["PredictAsked"], asking?: Asking): Promise<S["Predicted"]>;
  leaning(data: string, asked: S["WordsAsked"], asking?: Asking): Promise<S["Leaning"]>;
  habits(data: string, asked: S["HabitsAsked"], asking?: Asking): Promise<S["Habits"]>;
  results(asking?: Asking): Promise<S["Results"]>;
  addResult(file: File, asking?: Asking): Promise<S["StoredResult"]>;
  runs(asking?: Asking): Promise<S["Runs"]>;
  /** Has a report made, so that whatever is wrong with it is known before it is shown; `query` begins with "?". */
  runPage(id: string, query: string, asking?: Asking): Promise<void>;
  runRows(id: string, query: string, asking?: Asking): Promise<S["RunRows"]>;
  runExample(id: string, row: number, method: string | null, asking?: Asking): Promise<S["RunExample"]>;
}

/** What every refusal is, wherever it came from. */
export class SourceError extends Error {
  constructor(readonly fault: Fault) {
    super(fault.message);
    this.name = "SourceError";
  }
}
