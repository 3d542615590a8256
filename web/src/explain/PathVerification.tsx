/** Test of the visible path: its edges are cut, then as many random ones, and the changes compared. */

import { useCallback } from "react";

import type { Verification } from "../api/types";
import type { Theme } from "../render/scene";
import { ResponsivePicture } from "../shell/ResponsivePicture";
import { FaultNote } from "../shell/FaultNote";
import { JobProgress } from "../shell/JobProgress";
import type { JobState } from "../shell/useRequest";
import { drawStripplot } from "./verificationPlot";

interface Props {
  readonly work: JobState<Verification>;
  readonly edges: number | null; // null: unknown yet
  readonly caption: string;
  readonly disabledReason: string | null;
  readonly onVerify: () => void;
}

/** Start the test and show its result. */
export function PathVerification({ work, edges, caption, disabledReason, onVerify }: Props) {
  return (
    <section className="panel verify" aria-labelledby="verify">
      <h2 id="verify">Verify the path</h2>
      {!work.value && !work.running && (
        <p className="dim">
          Cuts the {edges === null ? "" : `${edges} `}edges that are shown, and as many random ones, and looks
          at the prediction.
        </p>
      )}
      {work.fault && <FaultNote fault={work.fault} onRetry={onVerify} />}
      {work.running ? (
        <JobProgress job={work.job} onCancel={work.cancel} />
      ) : (
        <button
          type="button"
          disabled={disabledReason !== null}
          title={disabledReason ?? undefined}
          onClick={onVerify}
        >
          {work.value ? "Verify again" : "Verify path"}
        </button>
      )}
      {disabledReason && <p className="dim">{disabledReason}</p>}
      {work.value && <VerificationResult verification={work.value} caption={caption} />}
    </section>
  );
}

function VerificationResult({
  verification,
  caption,
}: {
  readonly verification: Verification;
  readonly caption: string;
}) {
  return (
    <div className="verified">
      <p>{verification.sentence}</p>
      {verification.tests.map((test) => (
        <CutResult key={String(test.renormalised)} test={test} caption={caption} />
      ))}
      {verification.warnings.map(({ code, message }) => (
        <p key={code} className="dim">
          {message}
        </p>
      ))}
    </div>
  );
}

interface CutResultProps {
  readonly test: Verification["tests"][number];
  readonly caption: string;
}

function CutResult({ test, caption }: CutResultProps) {
  const how = test.renormalised ? "the rest of each row makes up for it" : "nothing makes up for it";
  const draw = useCallback(
    (theme: Theme, width: number) =>
      drawStripplot(test, {
        width,
        theme,
        label: `Change of the target when the path is cut, beside ${test.of} random sets: ${how}`,
      }),
    [test, how],
  );
  return (
    <>
      <p>{test.sentence}</p>
      <ResponsivePicture
        name={test.renormalised ? "verify-renormalised" : "verify"}
        caption={`${caption} · path cut, ${how}`}
        draw={draw}
        most={420}
      />
    </>
  );
}
