// SPDX-License-Identifier: Apache-2.0
//
// The collectives and messages, and the parameters with their shards and owners; and the details of one of them.

const messages = report?.sends ?? [];

// Lines of the job that a text names: 'rule "w" (mlp.txtpb:11)'.
const rulesIn = (text) => (report.job_rules ?? []).filter((rule) => rule.origin && text.includes(`(${rule.origin})`));
const withRules = (texts) => [texts.map((text) => make("div", {}, text)), rulesIn(texts.join("\n")).map((rule) => make("div", {class: "mono soft"}, `${rule.origin}: rules { ${rule.text} }`))];

const planText = (way) => [way.steps || "nothing", " · ", bytes(way.bytes), " · ", time(way.time_ns)];

function collectiveDetail(number) {
  const each = report.collectives[number];
  showDetail(`${each.kind}${each.reduction ? ` ${each.reduction}` : ""} over ${each.axes.join(", ")}`,
    facts(
      ["cause", each.cause],
      ["stage", each.stage === undefined ? null : `${each.stage}, ${each.program}`],
      ["sent by a device", bytes(each.bytes)],
      ["in f32", each.f32_bytes === undefined ? null : [bytes(each.f32_bytes), ", ", time(each.f32_time_ns)]],
      ["time", report.costs_known ? time(each.time_ns) : "the links of the mesh are unknown"],
      ["hidden", each.hidden_ns > 0 ? time(each.hidden_ns) : null],
      ["group", `${each.group_size} devices`],
      ["runs", each.runs > 1 ? `${each.runs} times a run of the program` : null],
      ["shape", each.operand === each.result ? each.operand : `${each.operand} → ${each.result}`],
      ["type", each.type],
      ["fusion", each.fusion || null],
      ["tensors", each.members.length > 1 ? each.members.join(", ") : null],
      ["modules", each.modules.filter((module) => module !== 0).map((module, i) => [i > 0 ? ", " : "", openLink("module", module, moduleName(module))])]),
    each.reasons.length === 0 && make("p", {class: "soft"}, "The model itself asks for it."),
    each.reasons.map((reason, i) => [
      make("h3", {}, each.reasons.length > 1 ? `Reason ${i + 1}` : "Reason"),
      facts(["tensor", make("code", {}, reason.tensor)], ["made by", reason.producer], ["as", make("code", {}, reason.from)],
            ["wanted by", reason.consumers.join(", ")], ["as", make("code", {}, reason.to)],
            ["because of", reason.origins.length > 0 ? withRules(reason.origins) : "inference alone"],
            ["plan", planText(reason.plan)],
            ["instead of", reason.runner_up ? planText(reason.runner_up) : "no other way"],
            ["at best", reason.plan.least_time_ns < reason.plan.time_ns ? time(reason.plan.least_time_ns) : null])]));
}

function messageDetail(number) {
  const each = messages[number];
  showDetail(`send to stage ${each.to.join(", ")}`, facts(["cause", each.cause], ["stage", `${each.stage}, ${each.program}`], ["message of a device", bytes(each.bytes)], ["shape", each.type]));
}

function variableDetail(number) {
  const each = report.variables[number];
  const owner = each.owner === undefined ? null : (report.owners ?? []).find((one) => one.device === each.owner);
  const about = report.collectives.flatMap((one, i) => one.modules.includes(each.module) ? [i] : []);
  showDetail(each.name, facts(
    ["kind", each.trainable ? "parameter" : "state"], ["stage", each.stage ?? null], ["tensor", make("code", {}, each.global)], ["layout", make("code", {}, each.layout)],
    ["on a device", make("code", {}, each.local)], ["bytes", bytes(each.bytes)],
    ["owner", owner ? [`device ${each.owner}, which keeps `, bytes(owner.bytes), " alone"] : each.owner ?? null],
    ["replicated", each.replicated ?? null], ["fusion id", each.fusion_id || null],
    ["because of", each.origin ? withRules([each.origin]) : "no rule shards it"],
    ["module", each.module ? openLink("module", each.module, moduleName(each.module)) : null]),
    about.length > 0 && [make("h3", {}, "Collectives"), about.map((i) => make("div", {}, openLink("collective", i, `${report.collectives[i].kind} of ${report.collectives[i].cause}`)))]);
}

let collectiveTable, variableTable;

function buildCollectives() {
  const rows = [...report.collectives.map((each, number) => ({each, number, kind: each.kind, axes: each.axes.join(", ")})),
                ...messages.map((each, number) => ({each, number, isMessage: true, kind: "send", axes: `to stage ${each.to.join(", ")}`}))];
  const hasStages = rows.some((row) => row.each.stage !== undefined);
  const columns = [
    {name: "kind", width: "minmax(118px, .6fr)", text: (row) => row.kind},
    ...(hasStages ? [{name: "stage", width: "minmax(110px, .5fr)", text: (row) => `${row.each.stage} ${row.each.program}`}] : []),
    {name: "over", width: "minmax(84px, .4fr)", text: (row) => row.axes},
    {name: "cause", width: "minmax(210px, 2fr)", text: (row) => row.each.cause},
    {name: "sent", width: "92px", num: true, text: (row) => bytesText(row.each.bytes), cell: (row) => bytes(row.each.bytes), value: (row) => row.each.bytes},
    {name: "time", width: "92px", num: true, text: (row) => row.isMessage || !report.costs_known ? "" : timeText(row.each.time_ns),
     cell: (row) => row.isMessage || !report.costs_known ? "" : time(row.each.time_ns), value: (row) => row.each.time_ns ?? 0},
    {name: "hidden", width: "84px", num: true, text: (row) => row.each.hidden_ns > 0 ? timeText(row.each.hidden_ns) : "", value: (row) => row.each.hidden_ns ?? 0},
    {name: "shape", width: "minmax(130px, 1fr)", text: (row) => row.isMessage ? row.each.type : row.each.operand},
  ];
  collectiveTable = new LongTable("Collectives", columns, rows, (row) => (row.isMessage ? messageDetail : collectiveDetail)(row.number));
  const text = (row) => [row.kind, row.axes, row.each.cause, row.each.program ?? "", row.each.type].join(" ");
  return [make("div", {class: "toolbar"}, filterInput(collectiveTable, text, "Filter by kind, axis or cause")), collectiveTable.element];
}

function buildVariables() {
  const has = (field) => report.variables.some((each) => each[field] !== undefined);
  const columns = [
    {name: "name", width: "minmax(230px, 2fr)", text: (row) => row.name},
    {name: "kind", width: "90px", text: (row) => row.trainable ? "parameter" : "state"},
    ...(has("stage") ? [{name: "stage", width: "60px", num: true, text: (row) => String(row.stage), value: (row) => row.stage}] : []),
    {name: "tensor", width: "minmax(110px, .8fr)", text: (row) => row.global},
    {name: "layout", width: "minmax(120px, 1fr)", text: (row) => row.layout, cell: (row) => make("code", {}, row.layout)},
    {name: "on a device", width: "minmax(110px, .8fr)", text: (row) => row.local},
    {name: "bytes", width: "92px", num: true, text: (row) => bytesText(row.bytes), cell: (row) => bytes(row.bytes), value: (row) => row.bytes},
    ...(has("owner") ? [{name: "owner", width: "70px", num: true, text: (row) => row.owner === undefined ? "all" : String(row.owner), value: (row) => row.owner ?? -1}] : []),
    {name: "because of", width: "minmax(160px, 1.4fr)", text: (row) => row.origin || row.replicated || ""},
  ];
  variableTable = new LongTable("Parameters and state", columns, report.variables, (row) => variableDetail(report.variables.indexOf(row)));
  const text = (row) => [row.name, row.layout, row.global, row.origin, row.trainable ? "parameter" : "state"].join(" ");
  return [make("div", {class: "toolbar"}, filterInput(variableTable, text, "Filter by name, layout or rule")), variableTable.element];
}

openers.collective = (number) => {
  openView("collectives");
  collectiveTable.chooseRow(collectiveTable.rows[number]);
};
openers.variable = (number) => {
  openView("parameters");
  variableTable.chooseRow(report.variables[number]);
};
