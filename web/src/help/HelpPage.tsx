/** Help page: introduction, reading guide, cards, keyboard shortcuts, glossary. */

import { useState } from "react";

import { useServer } from "../shell/pageContext";
import { FaultNote } from "../shell/FaultNote";
import { useRequest } from "../shell/useRequest";
import { KEYS } from "../state/keyMap";
import { CardBrowser } from "./CardBrowser";
import { GLOSSARY, GUIDE } from "./glossary";
import "../shell/parts.css";
import "./help.css";

const PARTS = [
  ["what", "What this is"],
  ["reading", "How to read it"],
  ["cards", "Cards"],
  ["keys", "Keys"],
  ["glossary", "Glossary"],
] as const;

/** Show the tab of the help page that is open. */
export function HelpPage() {
  const { source, session } = useServer();
  const help = useRequest(`help ${session.started}`, (options) => source.help(options));
  const [search, setSearch] = useState("");
  return (
    <div className="help-page with-list">
      <nav aria-label="Parts of the help">
        <ul>
          {PARTS.map(([id, title]) => (
            <li key={id}>
              {/* The address belongs to the state of the page, so this is no link. */}
              <button
                type="button"
                className="choice"
                onClick={() => document.getElementById(`help-${id}`)?.scrollIntoView()}
              >
                {title}
              </button>
            </li>
          ))}
        </ul>
      </nav>
      <div className="help-text">
        <section id="help-what" aria-labelledby="help-what-title">
          <h1 id="help-what-title">Why did the model say that, and can I believe the answer?</h1>
          <p>
            whence explains predictions of Transformers, shows how information flowed from the decision back
            to the words, tests both on the very input, and holds two models against each other.{" "}
            <strong>Explain</strong> is for one input, <strong>Compare</strong> for two models,{" "}
            <strong>Data set</strong> for many inputs, <strong>Results</strong> for what the command line
            computed. The address in the browser is all that you see: send it, and it opens the same view on a
            server that has the same models.
          </p>
        </section>
        <section id="help-reading" aria-labelledby="help-reading-title">
          <h2 id="help-reading-title">How to read it</h2>
          <ol className="guide">
            {GUIDE.map(({ title, text }) => (
              <li key={title}>
                <strong>{title}</strong> {text}
              </li>
            ))}
          </ol>
        </section>
        <section id="help-cards" aria-labelledby="help-cards-title">
          <h2 id="help-cards-title">Cards</h2>
          {help.fault && <FaultNote fault={help.fault} onRetry={help.retry} />}
          {help.value ? (
            <CardBrowser cards={help.value.cards} search={search} onSearch={setSearch} />
          ) : (
            !help.fault && <p className="empty">Fetching the cards …</p>
          )}
        </section>
        <section id="help-keys" aria-labelledby="help-keys-title">
          <h2 id="help-keys-title">Keys</h2>
          <p className="dim">
            They work wherever nobody types; in a picture, arrow keys walk from mark to mark.
          </p>
          <dl className="keys">
            {KEYS.map(({ label, words }) => (
              <div key={label}>
                <dt>
                  <kbd>{label}</kbd>
                </dt>
                <dd>{words}</dd>
              </div>
            ))}
          </dl>
        </section>
        <section id="help-glossary" aria-labelledby="help-glossary-title">
          <h2 id="help-glossary-title">Glossary</h2>
          <dl className="glossary">
            {GLOSSARY.map(({ term, meaning }) => (
              <div key={term}>
                <dt>{term}</dt>
                <dd>{meaning}</dd>
              </div>
            ))}
          </dl>
        </section>
      </div>
    </div>
  );
}
