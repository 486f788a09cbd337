const block = document.getElementById("page");
const bytes = Uint8Array.from(atob(block.textContent), (c) => c.charCodeAt(0));
const text = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
const page = await new Response(text).json();
document.getElementById("app").textContent = `${page.title}: ${page.totals.runs} runs`;
