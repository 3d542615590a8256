/** Interfaces of the data sources (server, notebook kernel, offline file): requests, reach, tensors, errors. */

import type {
  InputComparisonData,
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

/** Listener of a job's progress. */
export type Progress = (job: Job) => void;

/** Options of a request: abort signal and progress listener. */
export interface RequestOptions {
  readonly signal?: AbortSignal;
  readonly progress?: Progress;
}

/** Shape and numbers. */
export interface Tensor {
  readonly shape: readonly number[];
  readonly data: Float32Array | Uint8Array;
}

/** Reach of a limited source; controls beyond it are disabled with the reason `why`. */
export interface Reach {
  readonly methods: readonly string[]; // available methods
  readonly weights: readonly WeightName[];
  readonly statistics: readonly Statistic[];
  readonly thumbnails: boolean;
  readonly matrices: boolean; // maps of single heads
  readonly input: boolean; // another text, another model
  readonly target: boolean; // another target
  readonly trace: boolean; // from, to and through words, and filters
  readonly trust: boolean;
  readonly verify: boolean;
  readonly why: string; // sentence: the limits of this source, and where to go beyond them
}

/** Source of explanations and flows. */
export interface Source {
  /** Absent: unlimited. */
  readonly reach?: Reach;
  /** Kind of the source; only a server is unlimited. */
  readonly kind: "server" | "kernel" | "file";
  session(options?: RequestOptions): Promise<Session>;
  explain(request: S["ExplainRequest"], options?: RequestOptions): Promise<Explanations>;
  flow(request: S["FlowRequest"], options?: RequestOptions): Promise<Flow>;
  heads(request: S["HeadsRequest"], options?: RequestOptions): Promise<Heads>;
  tensors(request: S["TensorsRequest"], options?: RequestOptions): Promise<Map<string, Tensor>>;
  trust(request: S["TrustRequest"], options?: RequestOptions): Promise<S["TrustCard"]>;
  verify(request: S["VerifyRequest"], options?: RequestOptions): Promise<S["Verification"]>;
  compare(request: S["CompareRequest"], options?: RequestOptions): Promise<InputComparisonData>;
  generate(request: S["GenerateRequest"], options?: RequestOptions): Promise<S["Generation"]>;
}

/** Server source, with data sets, results and runs. */
export interface Server extends Source {
  readonly kind: "server";
  help(options?: RequestOptions): Promise<S["Help"]>;
  load(name: string, options?: RequestOptions): Promise<S["ModelEntry"]>;
  compareData(request: S["CompareDataRequest"], options?: RequestOptions): Promise<S["Comparison"]>;
  /** Uploads a picture; requests refer to it by its id. */
  uploadPicture(file: File, options?: RequestOptions): Promise<S["Picture"]>;
  /** Uploads a data set, with these columns or with guessed ones. */
  uploadData(file: File, options?: RequestOptions, columns?: S["ColumnsRequest"]): Promise<S["DataSet"]>;
  /** Reads a data set again with other columns. */
  readColumns(data: string, request: S["ColumnsRequest"], options?: RequestOptions): Promise<S["DataSet"]>;
  predict(
    data: string,
    request: S["PredictRequest"],
    options?: RequestOptions,
  ): Promise<S["PredictionTable"]>;
  classWords(data: string, request: S["WordsRequest"], options?: RequestOptions): Promise<S["WordsByClass"]>;
  headPatterns(data: string, request: S["HabitsRequest"], options?: RequestOptions): Promise<S["Habits"]>;
  results(options?: RequestOptions): Promise<S["Results"]>;
  addResult(file: File, options?: RequestOptions): Promise<S["StoredResult"]>;
  runs(options?: RequestOptions): Promise<S["Runs"]>;
  /** Has a report built, so that errors are known before it is shown; `query` begins with "?". */
  runPage(id: string, query: string, options?: RequestOptions): Promise<void>;
  runRows(id: string, query: string, options?: RequestOptions): Promise<S["RunRows"]>;
  runExample(
    id: string,
    row: number,
    method: string | null,
    options?: RequestOptions,
  ): Promise<S["RunExample"]>;
}

/** Error of any source, with its fault. */
export class SourceError extends Error {
  constructor(readonly fault: Fault) {
    super(fault.message);
    this.name = "SourceError";
  }
}
