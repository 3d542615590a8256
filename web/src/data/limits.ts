/** How many rows each kind of work takes at first, and at most. */

export const USUALLY_PREDICTED = 1000;
export const MOST_PREDICTED = 10_000;
export const USUALLY_TAKEN = 100;
export const MOST_TAKEN = 2000;
