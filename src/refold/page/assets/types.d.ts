/** The page's document, as `refold.page.document` makes it. Times are microseconds since the first entry. */
type Interval = [number | null, number | null];

interface Fault {
  code?: string;
  message?: string;
}

interface Message {
  role: string;
  text: string;
  calls: (string | null)[];
}

/** A call with its result: of a tool, a subagent, a person; or a note, a limit, a timer. */
interface Step {
  kind: string;
  name: string;
  about: any;
  result: string;
  status: string;
  error: Fault | null;
  interval: Interval;
  child: string | null;
  entries: number[];
  call: string;
}

/** A request, its answer, and the steps that the answer asked for; `n` is 0 before any request. */
interface Turn {
  n: number;
  kept: number;
  kept_at_end: number;
  added: Message[];
  dropped: Message[];
  model: string;
  says: string;
  status: string;
  error: Fault | null;
  usage: any;
  spent: string;
  interval: Interval;
  entries: number[];
  steps: Step[];
}

interface Agent {
  key: string;
  parent: string | null;
  depth: number;
  name: string;
  number: number;
  status: string;
  standing: string;
  told: string;
  answered: string;
  error: Fault | null;
  question: { text: string; call: string } | null;
  files: { path: string; change: string; text: string }[];
  usage: any;
  own_usage: any;
  cost: string;
  notable: string[];
  models: string[];
  tools: { tool: string; called: number; failed: number }[];
  log: string | null;
  log_state: string;
  seq: number | null;
  scope: string;
  duration_ms: number | null;
  below: number;
  interval: Interval;
  turns: Turn[];
  [more: string]: any;
}

/** The document of a run. */
interface Run {
  agents: Agent[];
  main: string;
  logs: { id: string; name: string; bytes: number; entries: number; head: string; parent: any }[];
  changes: any[];
  critical: any[][];
  kinds: string[];
  diff: Diff | null;
  [more: string]: any;
}

interface Diff {
  other: Run;
  causes: Cause[];
  notes: string[];
  table: Record<string, any[]>;
  [more: string]: any;
}

interface Cause {
  where: string;
  what: string;
  a: any;
  b: any;
  differences: any[][];
  follows: number;
  alike: string[];
}

/** Of an element or a component. */
type Props = {
  onClick?: (e: any) => any;
  onInput?: (e: any) => any;
  onChange?: (e: any) => any;
  onToggle?: (e: any) => any;
  onKeyDown?: (e: any) => any;
  onPointerDown?: (e: any) => any;
  choose?: (i: number) => any;
  row?: (i: number) => any;
  keys?: (e: any) => any;
  [name: string]: any;
};

interface Query {
  text: string;
  status: string;
  tool: string;
  agent: string;
  files: string;
}

interface Place {
  view: string;
  agent: string;
  turn: number | null;
  step: number | null;
  log: string;
  seq: number | null;
  tab: string;
  from: number | null;
  to: number | null;
  cause: number;
}

/** A call, an answer or a task that a query finds. */
interface Hit {
  agent: Agent;
  turn: number | null;
  step: number | null;
  what: string;
  snippet: string;
  status: string;
}

/** What an agent did from one moment to another. */
interface Bar {
  kind: string;
  name: string;
  from: number;
  to: number | null;
  status: string;
  turn: number;
  step: number | null;
}

interface Entry {
  seq: number;
  kind: string;
  call?: string;
  cause?: any;
  hash?: string;
  at?: number;
  meta?: any;
  data: any;
  left?: boolean;
  damaged?: boolean;
}

/** A state that one function changes. */
interface State {
  run: Run | null;
  query: Query;
  at: Place;
  checked: Checked | null;
  store: any;
  given: any;
  runs: any[] | null;
  chosen: string[];
  lost: boolean;
  note: string;
}

/** What the page found of its logs by itself. */
interface Checked {
  state: string;
  done: number;
  all: number;
  why: string;
  problems: any[];
  open: string[];
}
