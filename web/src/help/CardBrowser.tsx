/** Browser of the help cards, by words, kind and family; each card has its own link. */

import { useEffect, useRef, useState } from "react";

import type { Card } from "../api/types";
import { usePage } from "../shell/pageContext";
import { formatCount } from "../shell/numberFormat";
import { formatUrl } from "../state/url";
import {
  type CardKind,
  buildCardId,
  listFacts,
  groupFamilies,
  getFamily,
  KIND_ORDER,
  KINDS,
  filterCards,
} from "./cards";

interface Props {
  readonly cards: readonly Card[];
  readonly search: string;
  readonly onSearch: (search: string) => void;
}

/** Show filters and the matching cards. */
export function CardBrowser({ cards, search, onSearch }: Props) {
  const [kind, setKind] = useState<CardKind | null>(null);
  const [family, setFamily] = useState<string | null>(null);
  const matches = filterCards(cards, { search, kind, family });
  const groups = KIND_ORDER.map((each) => [each, matches.filter((card) => card.kind === each)] as const);
  const choose = (value: string): void => {
    const at = value.indexOf(":");
    setKind(value === "" ? null : ((at < 0 ? value : value.slice(0, at)) as CardKind));
    setFamily(at < 0 ? null : value.slice(at + 1));
  };
  return (
    <>
      <form className="filters" role="search" aria-label="Cards" onSubmit={(event) => event.preventDefault()}>
        <label>
          Find <input type="search" value={search} onChange={(event) => onSearch(event.target.value)} />
        </label>
        <label>
          Family{" "}
          <select
            value={kind === null ? "" : family === null ? kind : `${kind}:${family}`}
            onChange={(event) => choose(event.target.value)}
          >
            <option value="">all</option>
            {KIND_ORDER.map((each) => (
              <optgroup key={each} label={KINDS[each].title}>
                <option value={each}>all {KINDS[each].title.toLowerCase()}</option>
                {groupFamilies(cards)
                  .filter((one) => one.kind === each)
                  .map(({ name, cards: number }) => (
                    <option key={name} value={`${each}:${name}`}>
                      {name} ({number})
                    </option>
                  ))}
              </optgroup>
            ))}
          </select>
        </label>
        <span className="dim" role="status">
          {formatCount(matches.length, "card")}
        </span>
      </form>
      {matches.length === 0 && <p className="empty">No card has all these words.</p>}
      {groups.map(
        ([each, members]) =>
          members.length > 0 && (
            <section key={each} className="card-group" aria-label={KINDS[each].title}>
              <h3>
                {KINDS[each].title} <span className="dim">{KINDS[each].intro}</span>
              </h3>
              <div className="cards">
                {members.map((card) => (
                  <CardDetails key={card.name} card={card} />
                ))}
              </div>
            </section>
          ),
      )}
    </>
  );
}

function CardDetails({ card }: { readonly card: Card }) {
  const { state, update } = usePage();
  const id = buildCardId(card);
  const open = state.card === id || state.card === card.name;
  const place = useRef<HTMLElement>(null);
  // A link scrolls to its card; a click on a card does not scroll.
  const wanted = useRef(open);
  useEffect(() => {
    if (wanted.current) place.current?.scrollIntoView({ block: "center" });
  }, []);
  const family = getFamily(card);
  return (
    <article ref={place} className={open ? "card open" : "card"} id={`card-${id}`}>
      <h4>
        <button
          type="button"
          className="plain"
          aria-expanded={open}
          onClick={() => update({ card: open ? null : id }, "replace")}
        >
          {card.name}
        </button>
        {family !== null && <span className="dim">{family}</span>}
      </h4>
      <p>{card.summary}</p>
      {open && (
        <>
          <dl>
            {listFacts(card).map(({ name, title, text }) => (
              <div key={name} className={name === "misleads_when" ? "warn" : undefined}>
                <dt>{title}</dt>
                <dd>{name === "formula" ? <code>{text}</code> : text}</dd>
              </div>
            ))}
          </dl>
          <a href={formatUrl({ ...state, page: "help", card: id })}>Link to this card</a>
        </>
      )}
    </article>
  );
}
