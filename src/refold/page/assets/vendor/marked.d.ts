/** What the page uses of marked: the lexer. */
export function lexer(text: string): any[];
