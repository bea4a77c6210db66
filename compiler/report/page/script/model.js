// SPDX-License-Identifier: Apache-2.0
//
// The model by modules: a tree, and the chosen module as a drawing with layouts on its edges. Equal modules of one parent are one box until
// they are unfolded. Only visible rows and the chosen module are drawn.

const kPhases = ["forward", "backward"];
const modules = report?.modules, graph = report?.graph;

const moduleName = (module) => {
  const parts = [];
  for (; module !== 0; module = modules.parent[module]) {
    parts.unshift(modules.name[module]);
  }
  return parts.join(".") || report.model;
};
const opKind = (op) => graph.kinds[graph.ops.kind[op]].replace(/^nn\./, "");

// Returns what the views of the model need, once: the children and ops of each module, its first op, its collectives.
let index = null;
function modelIndex() {
  if (index) {
    return index;
  }
  const count = modules.name.length, lists = () => Array.from({length: count}, () => []);
  index = {children: lists(), ops: lists(), made: lists(), first: new Array(count).fill(Infinity), edgesOf: []};
  graph.ops.module.forEach((module, op) => {
    index.ops[module].push(op);
    for (let at = module; index.first[at] > op; at = modules.parent[at]) {
      index.first[at] = op;
    }
  });
  report.collectives.forEach((each, number) => { // of the module that makes the tensor, and of those around it
    for (let at = each.modules[0]; at !== undefined; at = at === 0 ? undefined : modules.parent[at]) {
      index.made[at].push(number);
    }
  });
  for (let module = 1; module < count; ++module) {
    index.children[modules.parent[module]].push(module);
  }
  index.children.forEach((list) => list.sort((a, b) => index.first[a] - index.first[b] || a - b));
  return index;
}

const model = {chosen: 0, open: new Set([0]), phase: 0, unfolded: new Set()};

// The visible rows of the tree: modules and their depth. Of equal modules there is the first one, until they are unfolded.
function treeRows() {
  const {children, first} = modelIndex(), rows = [];
  const visit = (module, depth) => {
    rows.push({module, depth, equal: depth > 0 ? membersOf(module).length : 1});
    if (model.open.has(module)) {
      children[module].filter((child) => (first[child] < Infinity || modelIndex().made[child].length > 0) && !isFolded(child)).forEach((child) => visit(child, depth + 1));
    }
  };
  visit(0, 0);
  return rows;
}

const kLeastFolded = 3;
const membersOf = (module) => {
  const representative = modules.equal[module];
  if (model.unfolded.has(representative)) {
    return [module];
  }
  const members = modelIndex().children[modules.parent[module]].filter((other) => modules.equal[other] === representative);
  return members.length >= kLeastFolded ? members : [module];
};
const isFolded = (module) => module !== 0 && membersOf(module)[0] !== module;

function unfold(module) {
  model.unfolded.add(modules.equal[module]);
  chooseModule(model.chosen);
}

let tree, canvas, treeBody;

function drawTree() {
  const rows = treeRows(), height = 26, {scrollTop, clientHeight} = tree;
  const first = Math.max(0, Math.floor(scrollTop / height) - 10), last = Math.min(rows.length, Math.ceil((scrollTop + (clientHeight || 600)) / height) + 10);
  treeBody.style.height = `${rows.length * height}px`;
  const {children, made} = modelIndex();
  treeBody.replaceChildren(...rows.slice(first, last).map(({module, depth, equal}, i) => {
    const hasChildren = children[module].length > 0;
    return make("div", {class: "row", role: "treeitem", "aria-level": depth + 1, "aria-selected": module === model.chosen, "data-module": module,
                        "aria-expanded": hasChildren ? String(model.open.has(module)) : null, style: `top: ${(first + i) * height}px; padding-left: ${8 + depth * 15}px`,
                        title: moduleName(module), click: () => chooseModule(module)},
      make("span", {class: "arrow", "aria-hidden": "true", click: (event) => { event.stopPropagation(); toggle(module); }}, hasChildren ? (model.open.has(module) ? "▾" : "▸") : ""),
      make("span", {class: "name"}, module === 0 ? report.model : modules.name[module]),
      equal > 1 && make("span", {class: "equal"}, `${equal} equal`),
      made[module].length > 0 && make("span", {class: "sent", title: `${countText(made[module].length, "collective")} on tensors of this module`}, `⇄ ${made[module].length}`));
  }));
}

function toggle(module) {
  model.open[model.open.has(module) ? "delete" : "add"](module);
  drawTree();
}

function pressTree(event) {
  const rows = treeRows(), at = rows.findIndex((row) => row.module === model.chosen), {children} = modelIndex();
  const go = (place) => chooseModule(rows[clamp(place, 0, rows.length - 1)].module);
  const hasChildren = children[model.chosen].length > 0, isOpen = model.open.has(model.chosen);
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    go(at + (event.key === "ArrowDown" ? 1 : -1));
  } else if (event.key === "Home" || event.key === "End") {
    go(event.key === "Home" ? 0 : rows.length);
  } else if (event.key === "ArrowRight") {
    hasChildren && !isOpen ? toggle(model.chosen) : go(at + 1);
  } else if (event.key === "ArrowLeft") {
    isOpen && hasChildren ? toggle(model.chosen) : model.chosen !== 0 && chooseModule(modules.parent[model.chosen]);
  } else if (event.key === "Enter") {
    moduleDetail(model.chosen);
  } else {
    return;
  }
  event.preventDefault();
}

// Shows a module: its row, which may be inside of others, and its drawing.
function chooseModule(module) {
  if (isFolded(module)) {
    model.unfolded.add(modules.equal[module]);
  }
  for (let at = module; at !== 0; at = modules.parent[at]) {
    model.open.add(modules.parent[at]);
    if (isFolded(at)) {
      model.unfolded.add(modules.equal[at]);
    }
  }
  model.chosen = module;
  const place = treeRows().findIndex((row) => row.module === module);
  const {scrollTop, clientHeight} = tree;
  if (place * 26 < scrollTop || place * 26 + 26 > scrollTop + clientHeight) {
    tree.scrollTop = place * 26 - clientHeight / 2;
  }
  drawTree();
  drawModule();
}

// The boxes of a module: its ops of the phase, and the modules in it, equal ones as one. Returns nodes, and the node of each op inside.
function boxesOf(module) {
  const {children, ops, first} = modelIndex(), nodes = [], nodeOfOp = new Map(), nodeOfChild = new Map();
  const isShown = (op) => graph.ops.phase[op] === model.phase;
  ops[module].filter(isShown).forEach((op) => {
    nodeOfOp.set(op, nodes.length);
    nodes.push({op, order: op, name: opKind(op), sub: graph.types[graph.ops.type[op]]});
  });
  const opsBelow = (child) => [...ops[child].filter(isShown), ...children[child].flatMap(opsBelow)];
  for (const child of children[module]) {
    const inside = first[child] < Infinity ? opsBelow(child) : [];
    if (inside.length === 0) {
      continue;
    }
    if (isFolded(child)) {
      nodeOfChild.set(child, nodeOfChild.get(membersOf(child)[0]));
    } else {
      const members = membersOf(child), names = members.map((each) => modules.name[each]);
      const isSingle = inside.length === 1 && members.length === 1;
      nodeOfChild.set(child, nodes.length);
      nodes.push(isSingle ? {op: inside[0], order: inside[0], name: modules.name[child], sub: `${opKind(inside[0]) === "read" ? "" : `${opKind(inside[0])} `}${graph.types[graph.ops.type[inside[0]]]}`}
        : {module: child, members, order: Math.min(...inside), name: members.length > 1 ? `${names[0]} … ${names[names.length - 1]}` : names[0],
           sub: members.length > 1 ? `${members.length} equal modules` : countText(inside.length, "op"), hasMade: modelIndex().made[child].length > 0});
    }
    inside.forEach((op) => nodeOfOp.set(op, nodeOfChild.get(child)));
  }
  for (const node of nodes) {
    node.width = clamp(Math.max(node.name.length * 8, (node.sub.length + (node.hasMade ? 7 : 0)) * 6.2) + 24, 84, 300);
    node.height = 40;
  }
  return {nodes, nodeOfOp};
}

// Joins the edges between two boxes; edges from outside come from a box with the name of their source.
function linksOf(nodes, nodeOfOp) {
  const links = new Map(), sources = new Map(), {edges, ops} = graph;
  const outside = (op) => {
    const from = ops.module[op], key = moduleName(from);
    if (!sources.has(key)) {
      sources.set(key, nodes.length);
      nodes.push({isOutside: true, op, order: op, name: key.length > 34 ? `…${key.slice(-32)}` : key, sub: ops.phase[op] === model.phase ? "outside" : `outside, ${kPhases[ops.phase[op]]}`,
                  width: clamp(Math.min(key.length, 34) * 8 + 24, 84, 290), height: 40});
    }
    return sources.get(key);
  };
  for (let edge = 0; edge < edges.from.length; ++edge) {
    const to = nodeOfOp.get(edges.to[edge]);
    if (to === undefined) {
      continue;
    }
    const from = nodeOfOp.get(edges.from[edge]) ?? outside(edges.from[edge]);
    if (from !== to) {
      const key = from * 1e6 + to;
      links.has(key) ? links.get(key).edges.push(edge) : links.set(key, {from, to, edges: [edge]});
    }
  }
  return [...links.values()];
}

const collectivesOfEdges = (edges) => [...new Set(edges.flatMap((edge) => graph.edges.redistribution[edge] < 0 ? [] : graph.redistributions[graph.edges.redistribution[edge]]))];

function edgeDetail(link) {
  const {edges, ops} = graph;
  const rows = link.edges.slice(0, 60).map((edge) => {
    const made = graph.layouts[edges.made[edge]], wanted = graph.layouts[edges.wanted[edge]];
    return facts(["made by", `${moduleName(ops.module[edges.from[edge]])} (${opKind(edges.from[edge])})`], ["tensor", make("code", {}, graph.types[ops.type[edges.from[edge]]])],
      ["as", made && make("code", {}, made)], ["taken by", `${moduleName(ops.module[edges.to[edge]])} (${opKind(edges.to[edge])})`], ["as", wanted && make("code", {}, wanted)],
      ["by", edges.redistribution[edge] < 0 ? null : graph.redistributions[edges.redistribution[edge]].length === 0 ? "a slice on each device, no communication"
        : graph.redistributions[edges.redistribution[edge]].map((i) => make("div", {}, openLink("collective", i, `${report.collectives[i].kind} of ${report.collectives[i].cause}`)))]);
  });
  showDetail(countText(link.edges.length, "tensor"), rows.map((row, i) => [i > 0 && make("h3", {}, ""), row]),
    link.edges.length > 60 && make("p", {class: "soft"}, `and ${link.edges.length - 60} more`));
}

function opDetail(op) {
  const {ops, edges} = graph, ends = (mine, others) => edges[mine].flatMap((each, edge) => each === op ? [edges[others][edge]] : []);
  const names = (list) => list.length === 0 ? null : [...new Set(list)].slice(0, 12).map((each) => make("div", {}, `${moduleName(ops.module[each])} (${opKind(each)})`));
  const variable = report.variables.findIndex((each) => each.module === ops.module[op]);
  showDetail(opKind(op), facts(["module", openLink("module", ops.module[op], moduleName(ops.module[op]))], ["phase", kPhases[ops.phase[op]]],
    ["type", make("code", {}, graph.types[ops.type[op]])], ["layout", graph.layouts[ops.layout[op]] && make("code", {}, graph.layouts[ops.layout[op]])],
    ["takes", names(ends("to", "from"))], ["taken by", names(ends("from", "to"))],
    ["parameter", opKind(op) === "read" && variable >= 0 ? openLink("variable", variable, report.variables[variable].name) : null]));
}

function moduleDetail(module) {
  const {ops, children, made} = modelIndex(), members = modules.equal.flatMap((each, i) => each === modules.equal[module] && i !== module ? [i] : []);
  const own = report.variables.flatMap((each, i) => { for (let at = each.module; at !== 0; at = modules.parent[at]) { if (at === module) { return [i]; } } return []; });
  const first = (list, link) => [list.slice(0, 40).map(link), list.length > 40 && make("p", {class: "soft"}, `and ${list.length - 40} more`)];
  showDetail(moduleName(module), facts(["ops", String(ops[module].length)], ["modules in it", children[module].length || null], ["equal modules", members.length > 0 ? members.map((each) => modules.name[each]).join(", ") : null]),
    made[module].length > 0 && [make("h3", {}, `Collectives on its tensors (${made[module].length})`), first(made[module], (i) => make("div", {}, openLink("collective", i, `${report.collectives[i].kind} of ${report.collectives[i].cause}`)))],
    own.length > 0 && module !== 0 && [make("h3", {}, `Parameters and state (${own.length})`), first(own, (i) => make("div", {}, openLink("variable", i, report.variables[i].name), " ", make("code", {class: "soft"}, report.variables[i].layout)))]);
}

// A part of the drawing that opens on a click, Enter or space.
const opening = (attributes, open, ...children) => draw("g", {tabindex: 0, role: "button", ...attributes, click: open, keydown: (event) => {
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    open();
  }
}}, ...children);

function drawBox(node) {
  const open = () => node.module !== undefined ? chooseModule(node.module) : opDetail(node.op);
  const kind = node.module !== undefined ? "module" : node.isOutside || opKind(node.op) === "read" || opKind(node.op) === "input" ? "parameter" : "";
  const {x, y, width, height} = node;
  const more = node.members?.length > 1 && draw("rect", {x: 5, y: 5, width, height, rx: 7});
  const made = node.module === undefined ? 0 : modelIndex().made[node.module].length * (node.members?.length ?? 1);
  return opening({class: `box ${kind}`, transform: `translate(${x - width / 2},${y - height / 2})`, "aria-label": `${node.name}, ${node.sub}`,
                  "data-box": node.module ?? `op${node.op}`}, open, more, draw("rect", {width, height, rx: 7}), draw("text", {x: 12, y: 17}, node.name),
                 draw("text", {x: 12, y: 32, class: "sub"}, node.sub, made > 0 && draw("tspan", {class: "made"}, `  ⇄ ${made}`)));
}

// The place of a label of a width and height on an edge where it hides no other one; else the one on the middle.
function placeLabel(edge, width, height, placed) {
  const boxes = [.5, .36, .64, .24, .76, .15, .85].map((share) => {
    const {x, y} = pointOf(edge, share);
    return {x, y, left: x - width / 2, right: x + width / 2, top: y - height + 7, bottom: y + 8};
  });
  const isFree = (box) => placed.every((other) => box.right + 4 < other.left || box.left - 4 > other.right || box.bottom < other.top || box.top > other.bottom);
  const box = boxes.find(isFree) ?? boxes[0];
  placed.push(box);
  return box;
}

function drawLink(link, nodes, placed) {
  const edge = link, {edges} = graph;
  const layouts = [...new Set(link.edges.map((each) => { const made = graph.layouts[edges.made[each]], wanted = graph.layouts[edges.wanted[each]]; return made === wanted ? made : `${made} → ${wanted}`; }))].filter(Boolean);
  const collectives = collectivesOfEdges(link.edges), isMoved = link.edges.some((each) => edges.redistribution[each] >= 0);
  const text = layouts.length === 0 ? "" : `${layouts[0].length > 60 ? `${layouts[0].slice(0, 58)}…` : layouts[0]}${layouts.length > 1 ? ` +${layouts.length - 1}` : ""}`;
  if (edge.isStub) {
    const target = nodes[link.to];
    target.stubs = (target.stubs ?? 0) + 1;
    const x = target.x + target.width / 2 + 14, y = target.y - 8 + target.stubs * 13;
    return opening({"aria-label": `from ${nodes[link.from].name}`}, () => edgeDetail(link), draw("text", {class: "layout", x, y}, `← ${nodes[link.from].name}  ${text}`));
  }
  const count = Math.min(collectives.length, 2) || (isMoved ? 1 : 0);
  const {x, y} = placeLabel(edge, Math.max(text.length * 6.7, count > 0 ? 150 : 0), 15 + count * 20, placed);
  const pills = collectives.slice(0, 2).map((number, i) => {
    const each = report.collectives[number], label = `${each.kind} ${each.axes.join("+")} ${bytesText(each.bytes)}`, width = label.length * 6.3 + 16;
    return opening({class: "pill", transform: `translate(${x - width / 2},${y - 27 - i * 20})`, "aria-label": `${label}, ${each.cause}`, "data-collective": number}, () => collectiveDetail(number),
                   draw("rect", {width, height: 17, rx: 8.5}), draw("text", {x: width / 2, y: 12.5, "text-anchor": "middle"}, label));
  });
  if (isMoved && collectives.length === 0) {
    pills.push(opening({class: "pill local", transform: `translate(${x - 22},${y - 27})`, "aria-label": "slice"}, () => edgeDetail(link), draw("rect", {width: 44, height: 17, rx: 8.5}),
                       draw("text", {x: 22, y: 12.5, "text-anchor": "middle"}, "slice")));
  }
  return [draw("path", {class: `edge${isMoved ? " moved" : ""}`, d: curveOf(edge), "marker-end": `url(#${isMoved ? "moved" : "end"})`}),
          text && opening({"aria-label": `tensor ${text}`}, () => edgeDetail(link),
                          draw("rect", {class: "back", x: x - text.length * 3.32 - 3, y: y - 7, width: text.length * 6.64 + 6, height: 15, rx: 3}),
                          draw("text", {class: "layout", x, y: y + 4, "text-anchor": "middle"}, text)),
          collectives.length > 2 ? [pills[0], opening({class: "pill", transform: `translate(${x - 34},${y - 47})`, "aria-label": "more collectives"}, () => edgeDetail(link),
            draw("rect", {width: 68, height: 17, rx: 8.5}), draw("text", {x: 34, y: 12.5, "text-anchor": "middle"}, `${collectives.length - 1} more`))] : pills];
}

const arrowHead = (id, name) => draw("marker", {id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse"},
  draw("path", {d: "M0,0.8 L7.5,4 L0,7.2 z", style: `fill: var(--${name})`}));

function drawModule() {
  const {nodes, nodeOfOp} = boxesOf(model.chosen);
  const links = linksOf(nodes, nodeOfOp);
  const path = [];
  for (let at = model.chosen; ; at = modules.parent[at]) {
    path.unshift(openLink("module", at, at === 0 ? report.model : modules.name[at]));
    if (at === 0) {
      break;
    }
    path.unshift(make("span", {class: "soft"}, "›"));
  }
  const members = model.chosen === 0 ? [] : modelIndex().children[model.chosen].filter((child) => membersOf(child).length > 1 && !isFolded(child));
  const folded = members.length > 0 || (modelIndex().children[model.chosen].some((child) => membersOf(child).length > 1));
  const heads = make("div", {class: "path"}, path, make("span", {style: "flex: 1"}),
    make("button", {class: "link action", click: () => moduleDetail(model.chosen)}, "Details"),
    folded && make("button", {class: "link action", click: () => { modelIndex().children[model.chosen].forEach((child) => model.unfolded.add(modules.equal[child])); chooseModule(model.chosen); }}, "Unfold equal modules"),
    !folded && model.unfolded.size > 0 && make("button", {class: "link action", click: () => { model.unfolded.clear(); chooseModule(model.chosen); }}, "Fold equal modules"));
  if (nodes.length === 0) {
    canvas.replaceChildren(heads, make("p", {class: "none"}, `No ops of the ${kPhases[model.phase]} pass are in this module.`));
    return;
  }
  const kMostBoxes = 700;
  if (nodes.length > kMostBoxes) {
    canvas.replaceChildren(heads, make("p", {class: "none"}, `${nodes.length} boxes are too many for a drawing; choose a module in the tree, or search for one.`));
    return;
  }
  const {width: drawn, height} = layOut(nodes, links);
  const placed = nodes.map(({x, y, width, height}) => ({left: x - width / 2, right: x + width / 2, top: y - height / 2, bottom: y + height / 2}));
  const drawnLinks = links.map((link) => drawLink(link, nodes, placed));
  const left = Math.min(0, ...placed.map((box) => box.left - 20)), width = Math.max(drawn, ...placed.map((box) => box.right + 20)) - left;
  const svg = draw("svg", {width, height, viewBox: `${left} 0 ${width} ${height}`, role: "group", "aria-label": `ops and modules of ${moduleName(model.chosen)}`},
    draw("defs", {}, arrowHead("end", "soft"), arrowHead("moved", "collective")), drawnLinks, nodes.map(drawBox));
  canvas.replaceChildren(heads, svg);
  canvas.scrollTop = 0;
  canvas.scrollLeft = Math.max(0, (width - canvas.clientWidth) / 2);
}

function buildModel() {
  if (graph.ops.module.length === 0) {
    return [make("p", {class: "none"}, "A step of this model has several programs; the page has their instructions, but no graph.")];
  }
  treeBody = make("div", {role: "group"});
  tree = make("div", {class: "tree", role: "tree", "aria-label": "Modules", tabindex: 0, scroll: drawTree, keydown: pressTree}, treeBody);
  canvas = make("div", {class: "canvas"});
  const choose = (phase) => {
    model.phase = phase;
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === phase)));
    drawModule();
  };
  const buttons = kPhases.map((name, phase) => make("button", {"aria-pressed": String(phase === model.phase), click: () => choose(phase)}, name));
  const hasBackward = graph.ops.phase.includes(1);
  new ResizeObserver(() => drawTree()).observe(tree);
  requestAnimationFrame(() => chooseModule(model.chosen));
  return [make("div", {class: "toolbar"}, hasBackward && buttons, make("span", {class: "rest"},
            `${countText(graph.ops.module.length, "op")}; layouts are on the edges, redistributions in colour`)),
          make("div", {class: "model"}, tree, canvas)];
}

openers.module = (module) => {
  openView("model");
  if (tree) {
    chooseModule(module);
  }
};
