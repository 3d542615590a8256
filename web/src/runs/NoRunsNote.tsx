/** Note of an empty run list, with the command that makes a run. */

/** Show the note for a folder without runs, or for no folder. */
export function NoRunsNote({ folder }: { readonly folder: string | null }) {
  return (
    <div className="empty large">
      <h1>No runs yet</h1>
      <p>
        {folder === null
          ? "The server was started without a folder of runs."
          : `There is none in ${folder}; one that is begun there appears here by itself.`}
      </p>
      <p>A run explains, tests and audits a whole data set, and can be interrupted and resumed:</p>
      <dl className="commands">
        <div>
          <dt>Make one</dt>
          <dd>
            <code>
              whence run --model reviews --data reviews.tsv --methods attcat,rollout --metrics
              comprehensiveness --out runs/first
            </code>
          </dd>
        </div>
        {folder === null && (
          <div>
            <dt>See it here, also while it is at work</dt>
            <dd>
              <code>whence app --runs runs</code>
            </dd>
          </div>
        )}
      </dl>
    </div>
  );
}
