/** Names for what goes over the wire; the shapes themselves are generated from the server's description. */

import type { components } from "./schema.gen";

type S = components["schemas"];

export type Session = S["Session"];
export type ModelEntry = S["ModelEntry"];
export type Input = S["Input"];
export type Token = S["Token"];
export type Word = S["Word"];
export type Explanations = S["Explanations"];
export type OneExplanation = S["OneExplanation"];
export type StatedScale = S["Scale"];
export type Agreement = S["Agreement"];
export type TrustCard = S["TrustCard"];
export type TrustTest = S["TrustTest"];
export type FlowAsked = S["FlowAsked"];
export type Flow = S["Flow"];
export type Query = S["Query"];
export type Heads = S["Heads"];
export type Generated = S["Generated"];
export type ShownPicture = S["Shown"];
export type Verified = S["Verified"];
export type Compared = S["Compared"];
export type Comparison = S["Comparison"];
export type DataSet = S["DataSet"];
export type Predicted = S["Predicted"];
export type Leaning = S["Leaning"];
export type Habits = S["Habits"];
export type Help = S["Help"];
export type Card = S["Card"];
export type Results = S["Results"];
export type Runs = S["Runs"];
export type StoredRun = S["StoredRun"];
export type RunRows = S["RunRows"];
export type RunRow = S["RunRow"];
export type RunExample = S["RunExample"];
export type Job = S["Job"];
export type Fault = S["Fault"];
export type Interval = S["Interval"];

export type WeightName = Flow["weight"];
export type Direction = Flow["direction"];
export type Statistic = S["HeadsAsked"]["statistic"];
export type Granularity = S["GenerateAsked"]["granularity"];
export type SegmentPair = Query["segments"][number];
