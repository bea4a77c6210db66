// SPDX-License-Identifier: Apache-2.0
//
// Two plans side by side: of two reports, or of two rows of a table of meshes. And that table.

// Rows of a name and the two values, with a mark where they differ. `draw`: of a value.
function sideBySide(names, rows) {
  return smallTable([["", ""], ...names.map((name) => [name, "num"])], rows.filter(([, first, second]) => first !== undefined || second !== undefined)
    .map(([name, first, second, show]) => [name, ...showBoth(first, second, show)]));
}
function markDifferences(table, rows) {
  const shown = rows.filter(([, first, second]) => first !== undefined || second !== undefined);
  [...table.tBodies[0].rows].forEach((row, i) => {
    const [, first, second] = shown[i];
    if (first !== undefined && second !== undefined && first !== second) {
      row.cells[1].classList.add("differs");
      row.cells[2].classList.add("differs");
    }
  });
  return table;
}
const compared = (names, rows) => markDifferences(sideBySide(names, rows), rows);

const plainText = (value) => String(value);
const partOf = (memory, name) => memory?.parts.find((part) => part.name === name)?.bytes;
const memoryRows = (first, second) => {
  const names = [...new Set([...(first?.parts ?? []), ...(second?.parts ?? [])].map((part) => part.name))];
  return [["memory of a rank", first?.bytes, second?.bytes, bytes], ...names.map((name) => [`  ${name}`, partOf(first, name), partOf(second, name), bytes])];
};

// Returns the first member that is not as a shape has it, "number at variables[3].bytes", or "" (misfit of plan_page.cpp).
function misfit(value, shape, place) {
  const at = place && ` at ${place}`, first = (faults) => faults.find(Boolean) ?? "";
  if (typeof shape === "string") {
    return typeof value === shape ? "" : shape + at;
  }
  if (Array.isArray(shape)) {
    return Array.isArray(value) ? first(value.map((each, i) => misfit(each, shape[0], `${place}[${i}]`))) : `list${at}`;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return `object${at}`;
  }
  return first(Object.keys(shape).sort().map((key) => {
    const name = key.replace("?", "");
    return name !== key && !(name in value) ? "" : misfit(value[name], shape[key], place ? `${place}.${name}` : name);
  }));
}

// The view: this report beside one that --compare embedded, or that is opened or dropped here.
const comparison = {place: make("div", {}), status: make("span", {class: "rest", role: "status"})};
function buildCompare() {
  const input = make("input", {type: "file", accept: ".json", hidden: "", change: () => openReport(input.files[0])});
  comparison.place.replaceChildren(...(other ? comparePlans(other) : [make("p", {class: "soft"}, "Open a file that --report wrote, or drop it onto the page.")]));
  return [make("div", {class: "toolbar"}, make("button", {click: () => { input.value = ""; input.click(); }}, "Open a report"), input, comparison.status), comparison.place];
}
async function openReport(file) {
  openView("compare");
  try {
    const opened = JSON.parse(await file.text()), fault = misfit(opened, kReportShape, "");
    if (fault) {
      throw new Error(`it has no ${fault}`);
    }
    comparison.place.replaceChildren(...comparePlans(opened));
    comparison.status.textContent = file.name;
  } catch (error) {
    comparison.status.textContent = `${file.name}: ${error.message}; open a file that --report of this version wrote`;
  }
}

// A name for each report: the mesh, and what it is a file of.
function comparePlans(other) {
  const names = [`this: ${meshText(report.mesh)}`, `other: ${meshText(other.mesh)}`];
  const both = (of) => [of(report), of(other)];
  const programOf = (of, name, stage) => of.programs.find((program) => program.name === name && program.stage === stage);
  const programs = [...new Map([...report.programs, ...other.programs].map((program) => [`${program.stage ?? ""} ${program.name}`, program])).values()];
  const rows = [
    ["model", ...both((of) => of.model), plainText], ["step, predicted", ...both((of) => stepOf(of) ?? undefined), time],
    ["devices", ...both((of) => devicesOf(of.mesh) * (of.pipeline?.stages.length ?? 1)), plainText], ["stages", ...both((of) => of.pipeline?.stages.length), plainText],
    ["micro-batches", ...both((of) => of.pipeline?.micro_batches), plainText], ["schedule", ...both((of) => of.pipeline?.schedule), plainText], ["bubble", ...both((of) => of.pipeline?.bubble), shareText],
    ...memoryRows(report.memory, other.memory),
    ...programs.flatMap((program) => {
      const [first, second] = both((of) => programOf(of, program.name, program.stage)), title = `${program.name}${program.stage === undefined ? "" : ` of stage ${program.stage}`}`;
      return [[`${title}: a run`, first?.predicted_ns, second?.predicted_ns, time], [`${title}: computing`, first?.compute_ns, second?.compute_ns, time],
              [`${title}: collectives`, first?.collectives, second?.collectives, plainText], [`${title}: sent`, first?.bytes, second?.bytes, bytes]];
    }),
  ];
  const mine = new Map(report.variables.map((each, i) => [each.name, {...each, number: i}])), theirs = new Map(other.variables.map((each) => [each.name, each]));
  const moved = [...new Set([...mine.keys(), ...theirs.keys()])].filter((name) => mine.get(name)?.layout !== theirs.get(name)?.layout || mine.get(name)?.bytes !== theirs.get(name)?.bytes);
  const keyOf = (each) => `${each.kind} over ${each.axes.join(", ")}: ${each.cause}`;
  const countOf = (of) => of.collectives.reduce((counts, each) => counts.set(keyOf(each), [...(counts.get(keyOf(each)) ?? []), each]), new Map());
  const [ours, others] = both(countOf);
  const onlyIn = (list, rest) => [...list].filter(([key, each]) => (rest.get(key)?.length ?? 0) < each.length).map(([key, each]) => ({key, each: each[0]}));
  const differing = [...onlyIn(ours, others).map((row) => ({...row, side: "this"})), ...onlyIn(others, ours).map((row) => ({...row, side: "other"}))];
  const layoutTable = new LongTable("Layouts that differ", [
    {name: "parameter or state", width: "minmax(220px, 2fr)", text: (name) => name}, {name: "this", width: "minmax(130px, 1fr)", text: (name) => mine.get(name)?.layout ?? "–"},
    {name: "other", width: "minmax(130px, 1fr)", text: (name) => theirs.get(name)?.layout ?? "–"},
    ...[mine, theirs].map((side, i) => ({name: i === 0 ? "this" : "other", width: "90px", num: true, value: (name) => side.get(name)?.bytes ?? -1,
      text: (name) => showBoth(mine.get(name)?.bytes, theirs.get(name)?.bytes, bytesText)[i]}))],
    moved, (name) => mine.has(name) && variableDetail(mine.get(name).number));
  const collectiveList = new LongTable("Collectives that only one plan has", [
    {name: "plan", width: "64px", text: (row) => row.side}, {name: "collective", width: "minmax(260px, 3fr)", text: (row) => row.key},
    {name: "sent", width: "90px", num: true, text: (row) => bytesText(row.each.bytes), value: (row) => row.each.bytes}], differing,
    (row) => row.side === "this" ? collectiveDetail(report.collectives.indexOf(row.each)) : showDetail(row.key, facts(["sent by a device", bytes(row.each.bytes)], ["time", time(row.each.time_ns)])));
  const sized = (table, rows) => { table.element.style.cssText = `height: ${clamp(rows * 30 + 34, 100, 420)}px; flex: none`; return table.element; };
  return [panel("Figures", compared(names, rows)),
          panel(`Layouts that differ (${moved.length})`, moved.length > 0 ? sized(layoutTable, moved.length) : make("p", {class: "soft"}, "None.")),
          panel(`Collectives that only one plan has (${differing.length})`, differing.length > 0 ? sized(collectiveList, differing.length) : make("p", {class: "soft"}, "None."))];
}

// The table of ashlarc plan.
const rowName = (row) => [meshText(row.mesh), row.stages > 1 && `${row.stages} stages ${row.schedule}`, row.micro_batches > 1 && `${row.micro_batches} micro-batches`,
                          row.level > 0 && `level ${row.level}`, row.recompute && "recompute AUTO"].filter(Boolean).join(", ");
let kept = null; // a row that others are compared with

function rowDetail(number) {
  const row = plan.meshes[number];
  if (row.refusal) {
    showDetail(rowName(row), facts(["devices", String(row.devices)], ["refused", row.refusal]));
    return;
  }
  const rows = (first, second) => [["devices", first.devices, second?.devices, plainText], ["step", first.step_ns, second?.step_ns, time], ["compute", first.compute_ns, second?.compute_ns, time],
    ["collectives", first.communication_ns, second?.communication_ns, time], ["exposed", first.exposed_ns, second?.exposed_ns, time], ["sent by a device", first.bytes_sent, second?.bytes_sent, bytes],
    ["bubble", first.bubble, second?.bubble, shareText], ["fits", first.fits ? "yes" : "no", second && (second.fits ? "yes" : "no"), plainText], ...memoryRows(first.memory, second?.memory)];
  if (kept !== null && kept !== number) {
    const first = plan.meshes[kept];
    showDetail("Side by side", compared([rowName(first), rowName(row)], rows(first, row)), make("p", {}, make("button", {click: () => { kept = null; rowDetail(number); }}, "End the comparison")));
  } else {
    showDetail(rowName(row), facts(...rows(row).filter(([name, value]) => value !== undefined && !name.startsWith("  ")).map(([name, value, , show]) => [name, show(value)])), make("h3", {}, "Memory of a rank"), partsBar(row.memory.parts),
      make("p", {}, make("button", {id: "keep", click: () => { kept = number; rowDetail(number); }, "aria-pressed": String(kept === number)}, kept === number ? "Choose another row" : "Compare with another row")));
  }
}

let planTable;
function buildPlan() {
  const rows = plan.meshes, has = (test) => rows.some(test);
  const limitOf = (row) => row.fits ? undefined : plan.memory_limit;
  const quantityColumn = (name, get, show, otherOf = () => undefined) => ({name, width: "96px", num: true, value: (row) => row.refusal ? Infinity : get(row),
    cell: (row) => row.refusal ? "" : showBoth(get(row), otherOf(row), show)[0]});
  planTable = new LongTable("Meshes", [
    {name: "mesh", width: "minmax(150px, 1.4fr)", text: (row) => meshText(row.mesh)}, {name: "devices", width: "72px", num: true, text: (row) => String(row.devices), value: (row) => row.devices},
    ...(has((row) => row.stages > 1) ? [{name: "stages", width: "130px", text: (row) => row.stages > 1 ? `${row.stages} ${row.schedule}` : "1"}] : []),
    ...(has((row) => row.micro_batches > 1) ? [{name: "micro-batches", width: "100px", num: true, text: (row) => String(row.micro_batches), value: (row) => row.micro_batches}] : []),
    ...(has((row) => row.level > 0) ? [{name: "level", width: "60px", num: true, text: (row) => String(row.level), value: (row) => row.level}] : []),
    quantityColumn("step", (row) => row.step_ns, time), quantityColumn("compute", (row) => row.compute_ns, time), quantityColumn("exposed", (row) => row.exposed_ns, time),
    quantityColumn("sent", (row) => row.bytes_sent, bytes), quantityColumn("memory", (row) => row.memory.bytes, bytes, limitOf),
    {name: "", width: "minmax(150px, 1.2fr)", text: (row) => row.refusal ?? (row.fits ? "" : `above ${showBoth(row.memory.bytes, limitOf(row), bytesText)[1]}`)}], rows, (row) => rowDetail(plan.meshes.indexOf(row)));
  const fitting = rows.filter((row) => row.fits).length;
  return [make("div", {class: "toolbar"}, filterInput(planTable, (row) => rowName(row) + (row.refusal ?? ""), "Filter by axis or schedule"),
            plan.memory_limit && make("span", {class: "soft"}, `${fitting} fit a device of ${bytesText(plan.memory_limit)}`)), planTable.element];
}
openers.row = (number) => {
  openView("meshes");
  planTable.chooseRow(plan.meshes[number]);
};
