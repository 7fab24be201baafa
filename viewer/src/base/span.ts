/** A half-open time range, in ns from the origin of the recording. */

export interface Span {
  readonly start: number;
  readonly end: number;
}
