/** Menus of the methods: the first one's scores, and up to three more stacked below. */

interface Props {
  readonly names: readonly string[]; // all available methods
  readonly chosen: readonly string[];
  readonly onChange: (methods: readonly string[]) => void;
}

const MOST = 4;

/** Choose the methods of the workbench. */
export function MethodSwitch({ names, chosen, onChange }: Props) {
  const [first = "", ...rest] = chosen;
  const known = names.includes(first) ? names : [first, ...names];
  return (
    <span className="controls">
      <label>
        Method{" "}
        <select
          value={first}
          title="The keys 1 to 9 choose the first nine"
          onChange={(event) =>
            onChange([event.target.value, ...rest.filter((each) => each !== event.target.value)])
          }
        >
          {known.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label>
        <span className="unseen">Stack another method</span>
        <select
          value=""
          disabled={chosen.length >= MOST}
          title={
            chosen.length >= MOST ? `At most ${MOST} methods are stacked.` : "Stack another method below"
          }
          onChange={(event) => onChange([...chosen, event.target.value])}
        >
          <option value="">+ stack a method</option>
          {names
            .filter((name) => !chosen.includes(name))
            .map((name) => (
              <option key={name}>{name}</option>
            ))}
        </select>
      </label>
    </span>
  );
}
