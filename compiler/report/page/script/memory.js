// SPDX-License-Identifier: Apache-2.0
//
// The memory of a rank over a step, or while a program runs: the parts that are always there, and the temporaries that are alive at each
// instruction.

let memoryChart = null;

class MemoryChart {
  constructor(list, parts) {
    Object.assign(this, {list, fixed: parts.filter((part) => part.name !== "temporaries").reduce((sum, part) => sum + part.bytes, 0), hasFixed: false});
    this.hasTimes = list.end_ns.some((end) => end > 0);
    this.peak = list.peak.instruction;
    this.chosen = this.peak;
    const last = list.kind.length;
    this.view = {from: 0, to: this.hasTimes ? Math.max(...list.end_ns.slice(-1), list.end_ns.reduce((most, end) => Math.max(most, end), 1)) : Math.max(last, 1)};
    this.canvas = make("canvas", {tabindex: 0, role: "application", "aria-label": "Memory over a run: arrow keys, Home and End choose an instruction, Enter opens",
      click: (event) => this.choose(this.at(event), true), pointermove: (event) => showTip(event, this.about(this.at(event))), pointerleave: hideTip, keydown: (event) => this.press(event)});
    this.status = make("div", {class: "visually-hidden", role: "status"});
    this.element = make("div", {class: "chart"}, this.canvas, this.status);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  beginOf(i) { return this.hasTimes ? this.list.begin_ns[i] : i; }
  about(i) { return `${instructionName(this.list, i)}\n${bytesText(this.list.live_bytes[i])} of temporaries alive`; }

  at(event) {
    const x = event.clientX - this.canvas.getBoundingClientRect().left, time = this.view.from + (x - 74) / Math.max(this.width - 74, 1) * (this.view.to - this.view.from);
    let found = 0;
    for (let i = 0; i < this.list.kind.length; ++i) {
      if (!this.list.started[i] && this.beginOf(i) <= time) {
        found = i;
      }
    }
    return found;
  }

  choose(i, opens) {
    this.chosen = clamp(i, 0, this.list.kind.length - 1);
    this.status.textContent = this.about(this.chosen);
    this.draw();
    if (opens) {
      instructionDetail(this.list, this.chosen);
    }
  }

  press(event) {
    const moves = {ArrowRight: this.chosen + 1, ArrowLeft: this.chosen - 1, Home: 0, End: this.list.kind.length - 1};
    if (event.key in moves) {
      this.choose(moves[event.key], false);
    } else if (event.key === "Enter") {
      this.choose(this.chosen, true);
    } else {
      return;
    }
    event.preventDefault();
  }

  draw() {
    const height = 300, {paint, width} = sizeCanvas(this.canvas, height), base = height - 12, left = 74;
    this.width = width;
    const fixed = this.hasFixed ? this.fixed : 0, most = Math.max(fixed + this.list.peak.bytes, 1) * 1.06;
    const y = (value) => base - value / most * (base - kAxisHeight - 8);
    const x = this.hasTimes ? drawAxis(paint, this.view, left, width, height) : (value) => left + value / this.view.to * (width - left);
    paint.font = "11px system-ui, sans-serif";
    for (let i = 0; i <= 4; ++i) {
      const value = most * i / 4;
      paint.fillStyle = color("line");
      paint.fillRect(left, Math.round(y(value)), width - left, 1);
      paint.fillStyle = color("soft");
      paint.fillText(bytesText(value), 8, y(value) + 4);
    }
    if (fixed > 0) {
      paint.fillStyle = color("kernel");
      paint.fillRect(left, y(fixed), width - left, base - y(fixed));
    }
    paint.fillStyle = color("product");
    paint.beginPath();
    paint.moveTo(left, y(fixed));
    let last = left;
    for (let i = 0; i < this.list.kind.length; ++i) {
      if (!this.list.started[i]) {
        const from = x(this.beginOf(i)), to = x(this.hasTimes ? this.list.end_ns[i] : i + 1), top = y(fixed + this.list.live_bytes[i]);
        if (from > last + .5) { // between two runs nothing is alive
          paint.lineTo(last, y(fixed));
          paint.lineTo(from, y(fixed));
        }
        last = Math.max(to, from + .5);
        paint.lineTo(from, top);
        paint.lineTo(last, top);
      }
    }
    paint.lineTo(last, y(fixed));
    paint.fill();
    this.mark(paint, x, y, fixed, this.peak, color("collective"), "peak");
    if (this.chosen !== this.peak) {
      this.mark(paint, x, y, fixed, this.chosen, color("ink"), "");
    }
  }

  mark(paint, x, y, fixed, i, ink, text) {
    const at = x(this.beginOf(i)), top = y(fixed + this.list.live_bytes[i]);
    paint.fillStyle = ink;
    paint.fillRect(Math.round(at), kAxisHeight, 1.5, 300 - 12 - kAxisHeight);
    paint.beginPath();
    paint.arc(at, top, 4, 0, 7);
    paint.fill();
    paint.font = "600 11px system-ui, sans-serif";
    paint.fillText(text, at + 60 > this.width ? at - 32 : at + 7, top - 5);
  }
}

// Returns the instructions of all runs of a step of a stage, one after the other, as if they were one program.
function stepOfStage(runs, stage) {
  const all = {program: "step", stage, kinds: [], kind: [], module: [], begin_ns: [], end_ns: [], started: [], collective: [], live_bytes: [], peak: {bytes: -1}};
  for (const run of runs) {
    const list = instructionsOf(run.program, stage), first = all.kind.length;
    if (!list) {
      continue;
    }
    if (list.peak.bytes > all.peak.bytes) {
      all.peak = {...list.peak, instruction: first + list.peak.instruction, writer: list.peak.writer.map((writer) => first + writer)};
    }
    const kinds = list.kinds.map((kind) => all.kinds.includes(kind) ? all.kinds.indexOf(kind) : all.kinds.push(kind) - 1);
    all.kind.push(...list.kind.map((kind) => kinds[kind]));
    all.begin_ns.push(...list.begin_ns.map((time) => run.begin_ns + time));
    all.end_ns.push(...list.end_ns.map((time) => run.begin_ns + time));
    for (const column of ["module", "started", "collective", "live_bytes"]) {
      all[column].push(...list[column]);
    }
  }
  return all;
}

// What the view can show: steps of several runs, then programs.
function memoryLists() {
  const stages = report.pipeline ? report.pipeline.stages.map((stage, number) => [stage.runs, number]) : [[report.step?.runs ?? [], undefined]];
  const steps = stages.filter(([runs]) => runs.length > 1).map(([runs, stage]) => stepOfStage(runs, stage));
  return [...steps.filter((list) => list.kind.length > 0), ...report.instructions];
}

function residentsOf(list) {
  const {peak} = list, rows = peak.writer.map((writer, i) => ({name: instructionName(list, writer), bytes: peak.written_bytes[i], kind: "temporary", open: () => instructionDetail(list, writer)}));
  report.variables.forEach((each, i) => {
    if (each.stage === list.stage) {
      rows.push({name: each.name, bytes: each.bytes, kind: each.trainable ? "parameter" : "state", open: () => variableDetail(i)});
    }
  });
  return rows.sort((a, b) => b.bytes - a.bytes);
}

function buildMemory() {
  if (report.instructions.length === 0) {
    return [make("p", {class: "none"}, "The program does not fit, so it has no plan of memory.")];
  }
  const place = make("div", {style: "display: flex; flex-direction: column; flex: 1; min-height: 0; gap: 12px"});
  const lists = memoryLists(), largest = lists.reduce((best, each, i) => each.peak.bytes > lists[best].peak.bytes ? i : best, 0);
  const name = (list) => `${list.program}${list.stage === undefined ? "" : ` of stage ${list.stage}`}`;
  const select = make("select", {"aria-label": "Step or program", change: () => show(Number(select.value))},
    lists.map((list, i) => make("option", {value: i, selected: i === largest ? "" : null}, `${name(list)} — ${bytesText(list.peak.bytes)}`)));
  const whole = make("button", {"aria-pressed": "false", click: () => {
    memoryChart.hasFixed = !memoryChart.hasFixed;
    whole.setAttribute("aria-pressed", String(memoryChart.hasFixed));
    memoryChart.draw();
  }}, "With the fixed parts");
  const show = (number) => {
    const list = lists[number], memory = report.pipeline ? report.pipeline.stages[list.stage].memory : report.memory;
    memoryChart = new MemoryChart(list, memory?.parts ?? []);
    memoryChart.hasFixed = whole.getAttribute("aria-pressed") === "true";
    const residents = residentsOf(list);
    const table = new LongTable("Tensors at the peak", [
      {name: "at the peak", width: "minmax(240px, 3fr)", text: (row) => row.name}, {name: "kind", width: "110px", text: (row) => row.kind},
      {name: "bytes", width: "110px", num: true, text: (row) => bytesText(row.bytes), cell: (row) => bytes(row.bytes), value: (row) => row.bytes}], residents, (row) => row.open());
    place.replaceChildren(make("div", {class: "figures", style: "padding-bottom: 0"}, make("div", {}, make("span", {}, "temporaries at the peak"), make("strong", {id: "peak"}, bytes(list.peak.bytes))),
      make("div", {}, make("span", {}, "at"), make("strong", {style: "font-size: 15px"}, make("button", {class: "link", click: () => memoryChart.choose(memoryChart.peak, true)}, instructionName(list, list.peak.instruction)))),
      make("div", {}, make("span", {}, "fixed parts"), make("strong", {}, bytes(memoryChart.fixed)))), memoryChart.element, table.element);
  };
  show(largest);
  return [make("div", {class: "toolbar"}, lists.length > 1 && select, whole,
    make("span", {class: "rest"}, "bytes that an instruction uses, or a later one reads")), place];
}
