/** Is the path that is drawn the path that is used? Its edges are cut, and as many random ones. */

import { useCallback } from "react";

import type { Verified } from "../api/types";
import type { Theme } from "../render/scene";
import { Drawn } from "../shell/Drawn";
import { FaultNote } from "../shell/FaultNote";
import { JobLine } from "../shell/JobLine";
import type { Working } from "../shell/useAsked";
import { stripplot } from "./stripplot";

interface Props {
  readonly work: Working<Verified>;
  readonly edges: number | null; // null: not known yet
  readonly caption: string;
  readonly whyNot: string | null;
  readonly onVerify: () => void;
}

export function VerifyPath({ work, edges, caption, whyNot, onVerify }: Props) {
  return (
    <section className="panel verify" aria-labelledby="verify">
      <h2 id="verify">Verify the path</h2>
      {!work.value && !work.running && (
        <p className="dim">
          Cuts the {edges === null ? "" : `${edges} `}edges that are shown, and as many random ones, and looks
          at the prediction.
        </p>
      )}
      {work.fault && <FaultNote fault={work.fault} onAgain={onVerify} />}
      {work.running ? (
        <JobLine job={work.job} onCancel={work.cancel} />
      ) : (
        <button type="button" disabled={whyNot !== null} title={whyNot ?? undefined} onClick={onVerify}>
          {work.value ? "Verify again" : "Verify path"}
        </button>
      )}
      {whyNot && <p className="dim">{whyNot}</p>}
      {work.value && <Result verified={work.value} caption={caption} />}
    </section>
  );
}

function Result({ verified, caption }: { readonly verified: Verified; readonly caption: string }) {
  return (
    <div className="verified">
      <p>{verified.sentence}</p>
      {verified.tests.map((test) => (
        <Cut key={String(test.renormalised)} test={test} caption={caption} />
      ))}
      {verified.warnings.map(({ code, message }) => (
        <p key={code} className="dim">
          {message}
        </p>
      ))}
    </div>
  );
}

interface CutProps {
  readonly test: Verified["tests"][number];
  readonly caption: string;
}

function Cut({ test, caption }: CutProps) {
  const how = test.renormalised ? "the rest of each row makes up for it" : "nothing makes up for it";
  const draw = useCallback(
    (theme: Theme, width: number) =>
      stripplot(test, {
        width,
        theme,
        label: `Change of the target when the path is cut, beside ${test.of} random sets: ${how}`,
      }),
    [test, how],
  );
  return (
    <>
      <p>{test.sentence}</p>
      <Drawn
        name={test.renormalised ? "verify-renormalised" : "verify"}
        caption={`${caption} · path cut, ${how}`}
        draw={draw}
        most={420}
      />
    </>
  );
}
