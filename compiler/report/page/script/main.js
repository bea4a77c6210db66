// SPDX-License-Identifier: Apache-2.0
//
// The frame: head, tabs, search, keys. A view is built when it is first opened.

const views = [
  ...(report ? [
    {id: "overview", title: "Overview", build: buildOverview}, {id: "model", title: "Model", build: buildModel, isFull: true},
    {id: "collectives", title: "Collectives", count: report.collectives.length + messages.length, build: buildCollectives, isFull: true},
    {id: "timeline", title: "Timeline", build: buildTimeline, isFull: true}, {id: "memory", title: "Memory", build: buildMemory, isFull: true},
    {id: "parameters", title: "Parameters", count: report.variables.length, build: buildVariables, isFull: true},
    {id: "compare", title: "Compare", build: buildCompare}] : []),
  ...(plan ? [{id: "meshes", title: "Meshes", count: plan.meshes.length, build: buildPlan, isFull: true}] : []),
];
const tabs = document.getElementById("tabs"), viewPlace = document.getElementById("view"), built = new Map();
let currentView = null;

function openView(id) {
  const view = views.find((each) => each.id === id) ?? views[0];
  if (currentView === view) {
    return;
  }
  currentView = view;
  hideTip();
  if (!built.has(view)) {
    built.set(view, make("div", {class: "content", style: view.isFull ? "display: flex; flex-direction: column; flex: 1; min-height: 0" : null}, view.build()));
  }
  viewPlace.className = view.isFull ? "full" : "";
  viewPlace.replaceChildren(built.get(view));
  viewPlace.setAttribute("aria-label", view.title);
  [...tabs.children].forEach((tab) => {
    const isOpen = tab.dataset.view === view.id;
    tab.setAttribute("aria-selected", String(isOpen));
    tab.tabIndex = isOpen ? 0 : -1;
  });
  history.replaceState(null, "", `#${view.id}`);
}

function buildTabs() {
  tabs.append(...views.map((view) => make("button", {role: "tab", "data-view": view.id, "aria-controls": "view", click: () => openView(view.id)}, view.title,
    view.count !== undefined && make("span", {class: "count"}, String(view.count)))));
  tabs.addEventListener("keydown", (event) => {
    const move = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (move) {
      const next = (views.indexOf(currentView) + move + views.length) % views.length;
      openView(views[next].id);
      tabs.children[next].focus();
      event.preventDefault();
    }
  });
}

// The search: modules, parameters, collectives, and meshes whose text has all words.
function searchFor(text) {
  const whole = text.trim().toLowerCase(), words = whole.split(/\s+/).filter(Boolean);
  const search = (kind, list, nameOf, groupOf) => {
    const found = [], kMost = 25;
    for (let i = 0; words.length > 0 && i < list.length; ++i) {
      const name = nameOf(list[i], i), lower = name.toLowerCase();
      if (words.every((word) => lower.includes(word))) {
        found.push({name, group: groupOf(list[i]), open: () => openers[kind](i), place: lower === whole ? 0 : lower.startsWith(whole) ? 1 : 2});
      }
    }
    return found.sort((a, b) => a.place - b.place || a.name.length - b.name.length).slice(0, kMost);
  };
  const found = !report ? [] : [
    ...search("module", modules.name, (_, i) => i === 0 ? "" : moduleName(i), () => "module"), ...search("variable", report.variables, (each) => each.name, (each) => each.trainable ? "parameter" : "state"),
    ...search("collective", report.collectives, (each) => `${each.kind} ${each.axes.join(" ")} of ${each.cause}`, () => "collective")];
  return [...found, ...search("row", plan?.meshes ?? [], rowName, () => "mesh")].sort((a, b) => (a.place === 2) - (b.place === 2));
}

function buildSearch() {
  let found = [], chosen = 0;
  const list = make("div", {class: "results", role: "listbox", id: "results", "aria-label": "Results", hidden: true});
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };
  const open = (number) => {
    close();
    input.value = "";
    viewPlace.focus();
    found[number]?.open();
  };
  const show = () => {
    list.hidden = input.value.trim() === "";
    input.setAttribute("aria-expanded", String(!list.hidden));
    list.replaceChildren(...(found.length === 0 ? [make("div", {class: "soft"}, "Nothing matches.")] : found.map((each, i) => make("div", {role: "option", id: `result${i}`, "aria-selected": String(i === chosen), click: () => open(i)},
      make("span", {class: "what"}, each.name), make("span", {class: "group"}, each.group)))));
    input.setAttribute("aria-activedescendant", found.length > 0 ? `result${chosen}` : "");
    list.children[chosen]?.scrollIntoView({block: "nearest"});
  };
  const input = make("input", {type: "text", id: "search", role: "combobox", placeholder: "Search the plan", "aria-label": "Search", "aria-expanded": "false", "aria-controls": "results", autocomplete: "off", spellcheck: "false",
    input: () => {
      found = searchFor(input.value);
      chosen = 0;
      show();
    }, keydown: (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        chosen = clamp(chosen + (event.key === "ArrowDown" ? 1 : -1), 0, Math.max(found.length - 1, 0));
        show();
      } else if (event.key === "Enter") {
        open(chosen);
      } else if (event.key === "Escape") {
        input.value = "";
        close();
        input.blur();
        event.stopPropagation();
      } else {
        return;
      }
      event.preventDefault();
    }, blur: () => setTimeout(close, 150)});
  return make("div", {class: "search"}, input, make("kbd", {"aria-hidden": "true"}, "/"), list);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  timeline?.draw();
  memoryChart?.draw();
}

function buildHeader() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  const toggle = make("button", {id: "theme", "aria-label": "Light or dark", click: () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark")}, "◐");
  const facts = plan ? `${plan.target}, ${countText(plan.meshes.length, "mesh").replace("meshs", "meshes")}` : `${meshText(report.mesh)}${report.pipeline ? `, ${report.pipeline.stages.length} stages` : ""}`;
  document.getElementById("header").append(make("h1", {}, (report ?? plan).model), make("div", {class: "facts"}, facts), buildSearch(), toggle);
}

document.addEventListener("keydown", (event) => {
  const isTyping = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  if (event.key === "/" && !isTyping) {
    document.getElementById("search").focus();
    event.preventDefault();
  } else if (event.key === "Escape") {
    closeDetail();
  } else if (/^[1-9]$/.test(event.key) && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey && views[event.key - 1]) {
    openView(views[event.key - 1].id);
  }
});
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  if (report && event.dataTransfer.files.length > 0) {
    openReport(event.dataTransfer.files[0]);
  }
});
buildHeader();
buildTabs();
openView(location.hash.slice(1));
