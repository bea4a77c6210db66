// SPDX-License-Identifier: Apache-2.0
//
// The plan at a glance: figures of a step, the mesh with its devices, programs, memory, the search.

// The step that a report predicts: of a pipeline, of runs one after the other, or of the main program.
const stepOf = (of) => of.pipeline?.step_ns ?? of.step?.step_ns ?? null;

const panel = (title, ...children) => make("section", {class: "panel"}, make("h2", {}, title), children);

function meshPanel() {
  const {mesh, device_ids: ids, pipeline} = report;
  const stages = pipeline ? pipeline.stages.length : 1, devices = devicesOf(mesh);
  const kMostDrawn = 512;
  const columns = mesh.length > 0 ? mesh[mesh.length - 1].size : 1, rows = devices / columns;
  const outer = mesh.slice(0, -1);
  const nameOfRow = (row) => {
    const parts = [];
    for (let axis = outer.length - 1, rest = row; axis >= 0; --axis) {
      parts.unshift(`${outer[axis].axis} ${rest % outer[axis].size}`);
      rest = Math.floor(rest / outer[axis].size);
    }
    return parts.join(", ");
  };
  const owners = new Map((report.owners ?? []).map((owner) => [owner.device, owner]));
  const grid = (stage) => make("div", {class: "mesh"}, make("table", {"aria-label": "devices of the mesh"},
    mesh.length > 0 && make("tr", {}, make("th"), Array.from({length: columns}, (_, i) => make("th", {scope: "col"}, `${mesh[mesh.length - 1].axis} ${i}`))),
    Array.from({length: rows}, (_, row) => make("tr", {}, make("th", {scope: "row"}, nameOfRow(row)), Array.from({length: columns}, (_, column) => {
      const device = row * columns + column, owner = owners.get(device);
      return make("td", {title: owner ? `keeps ${bytesText(owner.bytes)} alone: ${owner.parameters.length} parameters` : `device ${device}`,
                         style: owner ? "border-color: var(--accent)" : null}, String(stage * devices + (ids ? ids[device] : device)));
    })))));
  const text = `${meshText(mesh)}; ${countText(devices, "device")}${stages > 1 ? ` a stage, ${stages} stages` : ""}; a cell has the rank of its device`;
  return panel("Mesh", make("p", {class: "soft"}, text), devices > kMostDrawn
    ? make("p", {class: "soft"}, `The ${devices} devices are too many to draw.`)
    : Array.from({length: stages}, (_, stage) => [stages > 1 && make("h3", {}, `stage ${stage}`), grid(stage)]));
}

function programsPanel() {
  const hasStages = report.programs.some((program) => program.stage !== undefined);
  const head = [["program", ""], ...(hasStages ? [["stage", "num"]] : []), ["collectives", "num"], ["sent", "num"], ["sending", "num"], ["computing", "num"], ["a run", "num"], ["temporaries", "num"]];
  return panel("Programs", smallTable(head, report.programs.map((program) => [
    program.name, ...(hasStages ? [program.stage ?? ""] : []), String(program.collectives), bytes(program.bytes), report.costs_known ? time(program.time_ns) : "",
    program.compute_ns === undefined ? "" : time(program.compute_ns), program.predicted_ns === undefined ? "" : time(program.predicted_ns),
    program.temporary_bytes === undefined ? "" : bytes(program.temporary_bytes)])),
    !report.rates_known && make("p", {class: "soft"}, "The rates of a device are unknown: times of computation are missing."),
    !report.costs_known && make("p", {class: "soft"}, "The links of the mesh are unknown: times of collectives are missing."));
}

function memoryPanel() {
  if (!report.memory) {
    return panel("Memory of a rank", make("p", {}, "The program does not fit."));
  }
  return panel(`Memory of a rank${report.pipeline ? " of the largest stage" : ""}`, make("p", {}, bytes(report.memory.bytes), make("span", {class: "soft"},
    report.memory.bytes_each_further_thread ? `, and ${bytesText(report.memory.bytes_each_further_thread)} for each further thread` : "")), partsBar(report.memory.parts));
}

function pipelinePanel() {
  const {pipeline} = report;
  return pipeline && panel("Pipeline", make("p", {class: "soft"}, `${pipeline.schedule}, ${pipeline.micro_batches} micro-batches; a stage waits ${shareText(pipeline.bubble)} of a step on average`),
    smallTable([["stage", ""], ["computes", "num"], ["receives", "num"], ["waits", "num"], ["memory", "num"], ["slots", "num"]],
      pipeline.stages.map((stage) => [String(stage.stage), time(stage.compute_ns), time(stage.receive_ns), time(stage.wait_ns), bytes(stage.memory.bytes), String(stage.slots)])),
    pipeline.crossings.length > 0 && [make("h3", {}, "Messages"), smallTable([["value", ""], ["from", "num"], ["to", "num"], ["a step", "num"], ["bytes", "num"], ["time", "num"]],
      pipeline.crossings.map((message) => [message.name, String(message.from), String(message.to), String(message.messages), bytes(message.bytes), time(message.time_ns)]))]);
}

function searchPanels() {
  const table = (strategies, taken) => smallTable([["strategy", ""], ["step", "num"], ["on a device", "num"], ["", ""]], strategies.map((strategy) => [
    strategy.name, time(strategy.step_ns), bytes(strategy.bytes), [strategy.name === taken ? "taken" : "", strategy.lowered ? "" : "estimated"].filter(Boolean).join(", ")]));
  const {search, mesh_search: meshes, gradient_sync: sync} = report;
  return [
    meshes && panel("Search for the mesh", make("p", {class: "soft"}, `${meshes.looked_at} looked at, ${meshes.not_looked_at} not`), table(meshes.meshes, meshes.meshes[0]?.name)),
    search && panel("Search for layouts", table(search.strategies, search.taken),
      search.rules.length > 0 && [make("h3", {}, `Rules that lead to it (${search.rules_are})`), search.rules.map((rule) => make("div", {class: "mono"}, `${rule.match}  ${rule.layout}${rule.priority ? `  priority ${rule.priority}` : ""}`))],
      search.runners_up.length > 0 && [make("h3", {}, "Runner-up of each block"), smallTable([["block", ""], ["instead", ""], ["longer", "num"], ["memory", "num"]],
        search.runners_up.map((each) => [each.block, each.differs, time(each.more_ns), bytes(each.more_bytes)]))]),
    sync && panel("Sum of gradients", table(sync.strategies, sync.taken)),
    report.job_rules.length > 0 && panel("Rules of the job", smallTable([["line", ""], ["rule", ""]], report.job_rules.map((rule) => [rule.origin || "command line", make("code", {}, rule.text)]))),
  ];
}

function buildOverview() {
  const main = report.programs[0], step = stepOf(report);
  const figure = (name, value) => value !== null && make("div", {}, make("span", {}, name), make("strong", {}, value));
  return [
    make("div", {class: "figures"},
      figure("step, predicted", step === null ? null : time(step)),
      figure("step, measured", measured?.step_ns === undefined ? null : time(measured.step_ns)),
      figure("devices", make("span", {"data-value": devicesOf(report.mesh) * (report.pipeline?.stages.length ?? 1)}, String(devicesOf(report.mesh) * (report.pipeline?.stages.length ?? 1)))),
      !report.pipeline && figure(`sent by a device in ${main.name}`, bytes(main.bytes)),
      figure("memory of a rank", report.memory ? bytes(report.memory.bytes) : null),
      report.pipeline && figure("bubble", shareText(report.pipeline.bubble))),
    make("div", {class: "grid"}, meshPanel(), memoryPanel()),
    programsPanel(), pipelinePanel(), searchPanels(),
  ];
}
