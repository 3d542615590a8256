/** Where a component breaks, the rest of the page stands. */

import { Component, type ReactNode } from "react";

import { FaultNote } from "./FaultNote";
import { faultOf } from "./useAsked";

interface Props {
  readonly children: ReactNode;
  readonly about: string; // another page, another try
}

interface State {
  readonly error: unknown;
  readonly about: string;
}

export class ErrorBoundary extends Component<Props, State> {
  override state: State = { error: null, about: this.props.about };

  static getDerivedStateFromError(error: unknown): Partial<State> {
    return { error: error ?? new Error("something unnamed") };
  }

  static getDerivedStateFromProps(props: Props, state: State): Partial<State> | null {
    return props.about === state.about ? null : { error: null, about: props.about };
  }

  override render(): ReactNode {
    if (this.state.error === null) return this.props.children;
    return <FaultNote fault={faultOf(this.state.error)} onAgain={() => this.setState({ error: null })} />;
  }
}
