/** Type names of the HTTP API; the shapes are generated from the server's OpenAPI description. */

import type { components } from "./schema.gen";

type S = components["schemas"];

export type Session = S["Session"];
export type ModelEntry = S["ModelEntry"];
export type Input = S["Input"];
export type Token = S["Token"];
export type Word = S["Word"];
export type Explanations = S["Explanations"];
export type MethodExplanation = S["MethodExplanation"];
export type ServerScale = S["Scale"];
export type Agreement = S["Agreement"];
export type TrustCardData = S["TrustCard"];
export type TrustTest = S["TrustTest"];
export type FlowRequest = S["FlowRequest"];
export type Flow = S["Flow"];
export type Query = S["Query"];
export type Heads = S["Heads"];
export type Generation = S["Generation"];
export type ExplainedImage = S["ExplainedPicture"];
export type Verification = S["Verification"];
export type InputComparisonData = S["InputComparison"];
export type Comparison = S["Comparison"];
export type DataSet = S["DataSet"];
export type PredictionData = S["PredictionTable"];
export type ClassWordScores = S["WordsByClass"];
export type AttentionPatterns = S["Habits"];
export type Help = S["Help"];
export type Card = S["Card"];
export type Results = S["Results"];
export type Runs = S["Runs"];
export type RunSummary = S["StoredRun"];
export type RunRows = S["RunRows"];
export type RunRow = S["RunRow"];
export type RunExample = S["RunExample"];
export type Job = S["Job"];
export type Fault = S["Fault"];
export type Interval = S["Interval"];

export type WeightName = Flow["weight"];
export type Direction = Flow["direction"];
export type Statistic = S["HeadsRequest"]["statistic"];
export type Granularity = S["GenerateRequest"]["granularity"];
export type SegmentPair = Query["segments"][number];
