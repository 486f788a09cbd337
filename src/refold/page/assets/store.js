/** The one state of the page, and the one function that changes it. */
import { NO_PLACE, NO_QUERY, address } from "./model.js";

/** @type {State} */
export const state = {
	run: /** @type {any} */ (null),
	query: { ...NO_QUERY },
	at: { ...NO_PLACE },
	checked: null,
	store: null,
	given: {},
	runs: null,
	chosen: [],
	lost: false,
	note: "",
};

let isWaiting = false;
/** @type {() => void} */
let draw = () => {};

/** @param {() => void} render */
export function onChange(render) {
	draw = render;
}

/** Change the state, and the address with it; draw before the next frame.
 * With `isNew`, going back leads to where one is now.
 * @param {Change} change */
export function set(change, isNew = false) {
	const { at, query, ...rest } = change;
	Object.assign(state, rest);
	state.at = { ...state.at, ...at };
	state.query = { ...state.query, ...query };
	if (at || query) {
		const hash = address(state.query, state.at);
		if (hash !== (location.hash || "#")) history[isNew ? "pushState" : "replaceState"](null, "", hash);
	}
	if (isWaiting) return;
	isWaiting = true;
	requestAnimationFrame(() => {
		isWaiting = false;
		draw();
	});
}
