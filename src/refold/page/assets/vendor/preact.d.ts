/** What the page uses of preact. */
export type Child = any;
export function h(type: any, props: any, ...children: Child[]): any;
export function render(vnode: any, parent: Element): void;
export class Component<P = any, S = any> {
  constructor(props: P);
  props: P;
  state: S;
  base: any;
  setState(change: Partial<S>): void;
  forceUpdate(): void;
  componentDidMount?(): void;
  componentDidUpdate?(before: P): void;
  componentWillUnmount?(): void;
  render(props?: P, state?: S): any;
}
