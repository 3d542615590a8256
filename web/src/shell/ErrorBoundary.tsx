/** Error boundary: a component that throws leaves the rest of the page intact. */

import { Component, type ReactNode } from "react";

import { FaultNote } from "./FaultNote";
import { toFault } from "./useRequest";

interface Props {
  readonly children: ReactNode;
  readonly about: string; // a change resets the error
}

interface State {
  readonly error: unknown;
  readonly about: string;
}

/** Show the error of its children in their place. */
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
    return <FaultNote fault={toFault(this.state.error)} onRetry={() => this.setState({ error: null })} />;
  }
}
