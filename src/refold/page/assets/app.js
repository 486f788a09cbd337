const page = JSON.parse(document.getElementById("page").textContent);
document.getElementById("app").textContent = `${page.title}: ${page.totals.runs} runs`;
