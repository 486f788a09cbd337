/** The page's document, as `refold.page.document` makes it. Times are microseconds since the first entry. */
type Interval = [number, number | null];

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
  child: string;
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

/** An agent as `refold show --json` has it, with its place, task, answer and turns. */
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
  files: FileChange[];
  usage: any;
  own_usage: any;
  priced: { usd_micros: number; unpriced: number };
  spent: string;
  own_spent: string;
  narrowed: Record<string, number>;
  notable: Record<string, string>;
  models: string[];
  tools: { tool: string; called: number; failed: number }[];
  log: string | null;
  log_state: string;
  seq: number | null;
  scope: string;
  duration_ms: number | null;
  below: number;
  interval: Interval | [null, null];
  turns: Turn[];
  [more: string]: any;
}

interface FileChange {
  path: string;
  change: string;
  lines_added: number | null;
  lines_removed: number | null;
  is_sole?: boolean;
}

/** The document of a run. */
interface Run {
  agents: Agent[];
  main: string;
  logs: { id: string; name: string; bytes: number; entries: number; head: string; parent: any }[];
  changes: (FileChange & { seq: number; calls: string[]; diff: string })[];
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

/** The words of both sides, each with ` `, `-` or `+`; a text where content is left out. */
type Parts = [string, string][] | string | undefined;

/** A cause as `refold diff --json` has it, with log and entry of both calls. */
interface Cause {
  where: string;
  what: string;
  entries: ([string, number] | null)[];
  differences: { pointer: string; before?: any; after?: any; parts?: Parts }[];
  follows: number;
  alike: string[];
}

/** What the lexer of Markdown makes. */
interface Token {
  type: string;
  raw: string;
  text: string;
  href: string;
  depth: number;
  ordered: boolean;
  start: number;
  tokens: Token[];
  items: Token[];
  header: Token[];
  rows: Token[][];
}

/** Of an element or a component. */
type Props = {
  onClick?: (e: any) => any;
  onInput?: (e: any) => any;
  onChange?: (e: any) => any;
  onToggle?: (e: any) => any;
  onKeyDown?: (e: any) => any;
  onPointerDown?: (e: any) => any;
  choose?: (i: any) => any;
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

/** An agent by its key, a turn or a step of it. */
interface Spot {
  agent: string;
  turn: number | null;
  step: number | null;
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
  run: Run;
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

type Change = Partial<Omit<State, "at" | "query">> & { at?: Partial<Place>; query?: Partial<Query> };

/** What the page found of its logs by itself. */
interface Checked {
  state: string;
  done: number;
  all: number;
  why: string;
  problems: any[];
  open: string[];
}
