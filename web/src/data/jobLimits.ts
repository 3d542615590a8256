/** Default and maximum number of rows of each job. */

export const DEFAULT_PREDICTION_ROWS = 1000;
export const MAX_PREDICTION_ROWS = 10_000;
export const DEFAULT_JOB_ROWS = 100;
export const MAX_JOB_ROWS = 2000;
