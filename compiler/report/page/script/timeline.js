// SPDX-License-Identifier: Apache-2.0
//
// A step on a clock: the planned runs and instructions of all stages, and the tracks of a measured run. One canvas; only visible slices
// are drawn. The wheel zooms, dragging moves; keys move the chosen slice.

const kTrackHeight = 24, kHeadHeight = 22, kAxisHeight = 26, kLabelWidth = 176;

// A track: {group, name, begin, end (columns, by begin), text(i), color(i), open(i), about(i)}.
const sortedBy = (begin) => Array.from(begin.keys()).sort((a, b) => begin[a] - begin[b]);

const instructionsOf = (program, stage) => report.instructions.find((each) => each.program === program && each.stage === stage);
const instructionName = (list, i) => `${list.kinds[list.kind[i]]} ${moduleName(list.module[i])}`;

function instructionDetail(list, i, run) {
  const collective = list.collective[i], begin = list.begin_ns[i], end = list.end_ns[i];
  showDetail(list.kinds[list.kind[i]], facts(["module", list.module[i] ? openLink("module", list.module[i], moduleName(list.module[i])) : null],
    ["program", `${list.program}${list.stage === undefined ? "" : ` of stage ${list.stage}`}`], ["micro-batch", run ? String(run.micro_batch) : null],
    ["begins", [time(begin), ` into the ${list.program === "step" ? "step" : "program"}`]], ["takes", time(end - begin)], ["temporaries alive", bytes(list.live_bytes[i])],
    ["overlapped", list.started[i] ? "yes: it is started, and awaited later" : null],
    ["collective", collective >= 0 ? openLink("collective", collective, report.collectives[collective].cause) : null]));
}

function plannedTracks() {
  const stages = report.pipeline ? report.pipeline.stages : report.step ? [{runs: report.step.runs}] : [];
  return stages.flatMap((stage, number) => {
    const group = report.pipeline ? `stage ${number}, planned` : "planned", id = report.pipeline ? number : undefined;
    const programs = [...new Set(stage.runs.map((run) => run.program))];
    const runs = {group, name: "programs", begin: stage.runs.map((run) => run.begin_ns), end: stage.runs.map((run) => run.end_ns),
      text: (i) => `${stage.runs[i].program}${stage.runs.length > 1 ? ` ${stage.runs[i].micro_batch}` : ""}`,
      color: (i) => kPartColors[programs.indexOf(stage.runs[i].program) % kPartColors.length],
      about: (i) => `${stage.runs[i].program}, micro-batch ${stage.runs[i].micro_batch}\n${timeText(stage.runs[i].end_ns - stage.runs[i].begin_ns)}`,
      open: (i) => showDetail(stage.runs[i].program, facts(["micro-batch", String(stage.runs[i].micro_batch)], ["begins", time(stage.runs[i].begin_ns)], ["ends", time(stage.runs[i].end_ns)],
        ["takes", time(stage.runs[i].end_ns - stage.runs[i].begin_ns)], ["receives", stage.runs[i].receive_ns ? time(stage.runs[i].receive_ns) : null]))};
    const parts = {main: {begin: [], end: [], at: []}, beside: {begin: [], end: [], at: []}};
    stage.runs.forEach((run) => {
      const list = instructionsOf(run.program, id);
      for (let i = 0; list && i < list.kind.length; ++i) {
        if (list.end_ns[i] > list.begin_ns[i]) {
          const part = list.started[i] ? parts.beside : parts.main;
          part.begin.push(run.begin_ns + list.begin_ns[i]);
          part.end.push(run.begin_ns + list.end_ns[i]);
          part.at.push([list, i, run]);
        }
      }
    });
    const track = (name, {begin, end, at}) => ({group, name, begin, end, text: (i) => instructionName(at[i][0], at[i][1]), color: (i) => at[i][0].kinds[at[i][0].kind[at[i][1]]],
      about: (i) => `${instructionName(at[i][0], at[i][1])}\n${timeText(end[i] - begin[i])}`, open: (i) => instructionDetail(...at[i])});
    const receives = stage.runs.filter((run) => run.receive_ns > 0);
    return [runs, receives.length > 0 && {group, name: "receives", begin: receives.map((run) => run.begin_ns - run.receive_ns), end: receives.map((run) => run.begin_ns),
              text: () => "receives", color: () => "receive", about: (i) => `receives for ${receives[i].program} ${receives[i].micro_batch}\n${timeText(receives[i].receive_ns)}`, open: () => {}},
            track("instructions", parts.main), track("asynchronous", parts.beside)].filter((each) => each && each.begin.length > 0);
  });
}

function measuredTracks() {
  return (measured?.tracks ?? []).map((each) => {
    const order = sortedBy(each.begin_ns), name = (i) => measured.names[each.title[order[i]]];
    const step = (i) => each.step[order[i]] < 0 ? "" : `, step ${each.step[order[i]]}, micro-batch ${each.micro_batch[order[i]]}`;
    const begin = order.map((i) => each.begin_ns[i]), end = order.map((i) => each.end_ns[i]);
    return {group: `${each.process}${each.label ? ` · ${each.label}` : ""}`, name: each.name, begin, end, text: name, isMeasured: true,
            color: (i) => measured.names[each.category[order[i]]], about: (i) => `${name(i)}${step(i)}\n${timeText(end[i] - begin[i])}`,
            open: (i) => showDetail(name(i), facts(["track", `${each.process}, ${each.name}`], ["step", each.step[order[i]] < 0 ? null : String(each.step[order[i]])],
              ["micro-batch", each.micro_batch[order[i]] < 0 ? null : String(each.micro_batch[order[i]])], ["begins", time(begin[i])], ["takes", time(end[i] - begin[i])]))};
  });
}

// Draws an axis of time over a canvas; returns the function from times to pixels.
function drawAxis(paint, view, left, width, height) {
  const x = (ns) => left + (ns - view.from) / (view.to - view.from) * (width - left);
  const least = (view.to - view.from) * 110 / Math.max(width - left, 1);
  let step = 10 ** Math.floor(Math.log10(Math.max(least, 1e-3)));
  step *= step * 2 >= least ? 2 : step * 5 >= least ? 5 : 10;
  paint.font = "11px system-ui, sans-serif";
  for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
    paint.fillStyle = color("line");
    paint.fillRect(Math.round(x(at)), kAxisHeight - 6, 1, height);
    paint.fillStyle = color("soft");
    paint.fillText(timeText(Math.max(at, 0)), x(at) + 4, 13);
  }
  return x;
}

function sizeCanvas(canvas, height) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth;
  canvas.style.height = `${height}px`;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const paint = canvas.getContext("2d");
  paint.setTransform(ratio, 0, 0, ratio, 0, 0);
  paint.clearRect(0, 0, width, height);
  return {paint, width};
}

class TimelineChart {
  constructor(tracks) {
    this.tracks = tracks;
    this.end = tracks.reduce((end, track) => Math.max(end, track.end.reduce((most, each) => Math.max(most, each), 0)), 1);
    this.view = {from: 0, to: this.end};
    this.chosen = {track: 0, slice: -1};
    this.canvas = make("canvas", {tabindex: 0, role: "application", "aria-label": "Timeline: arrow keys, Home and End choose a slice, plus and minus zoom, 0 shows all, Enter opens",
      keydown: (event) => this.press(event), wheel: (event) => this.turn(event), pointerdown: (event) => this.grab(event), pointermove: (event) => this.point(event),
      pointerleave: hideTip, pointerup: (event) => this.drop(event)});
    this.status = make("div", {class: "visually-hidden", role: "status"});
    this.element = make("div", {class: "chart timeline"}, this.canvas, this.status);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  show(tracks) {
    this.tracks = tracks;
    this.chosen = {track: 0, slice: -1};
    this.draw();
  }

  // Tracks with their places from the top.
  places() {
    let y = kAxisHeight, group = null;
    return this.tracks.map((track) => {
      const isNew = track.group !== group;
      y += isNew ? kHeadHeight : 0;
      group = track.group;
      y += kTrackHeight;
      return {track, y: y - kTrackHeight, isNew};
    });
  }

  draw() {
    const places = this.places(), height = (places.length > 0 ? places[places.length - 1].y : 0) + kTrackHeight + 10;
    const {paint, width} = sizeCanvas(this.canvas, height);
    this.x = drawAxis(paint, this.view, kLabelWidth, width, height);
    this.width = width;
    const texts = {soft: color("soft"), ink: color("ink"), slice: color("on-slice"), accent: color("accent")}, colors = new Map();
    const colorOf = (name) => { if (!colors.has(name)) { colors.set(name, color(name) || color("kernel")); } return colors.get(name); };
    places.forEach(({track, y, isNew}, number) => {
      paint.font = "600 12px system-ui, sans-serif";
      paint.fillStyle = texts.ink;
      if (isNew) {
        paint.fillText(track.group, 10, y - 6);
      }
      paint.font = "12px system-ui, sans-serif";
      paint.fillStyle = texts.soft;
      paint.fillText(track.name, 20, y + 16);
      paint.save();
      paint.beginPath();
      paint.rect(kLabelWidth, y - 1, width - kLabelWidth, kTrackHeight + 2);
      paint.clip();
      this.drawSlices(paint, track, y, number, colorOf, texts);
      paint.restore();
    });
  }

  drawSlices(paint, track, y, number, colorOf, texts) {
    const {begin, end} = track;
    let last = -1;
    for (let i = this.firstFrom(track); i < begin.length && begin[i] < this.view.to; ++i) {
      const left = Math.max(this.x(begin[i]), kLabelWidth - 2), right = Math.min(this.x(end[i]), this.width + 2);
      if (right < last + .4) {
        continue;
      }
      const wide = Math.max(right - left - (right - left > 3 ? 1 : 0), .7);
      paint.fillStyle = colorOf(track.color(i));
      paint.fillRect(left, y + 2, wide, kTrackHeight - 4);
      last = left + wide;
      if (wide > 34) {
        paint.fillStyle = texts.slice;
        paint.save();
        paint.beginPath();
        paint.rect(left, y, wide - 4, kTrackHeight);
        paint.clip();
        paint.fillText(track.text(i), left + 5, y + 16);
        paint.restore();
      }
      if (this.chosen.track === number && this.chosen.slice === i) {
        paint.strokeStyle = texts.ink;
        paint.lineWidth = 2;
        paint.strokeRect(left, y + 2, wide, kTrackHeight - 4);
      }
    }
  }

  // The first slice that may be visible. Slices of a track do not overlap, except in one that began before.
  firstFrom({begin}) {
    let low = 0, high = begin.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      begin[middle] < this.view.from ? low = middle + 1 : high = middle;
    }
    return Math.max(0, low - 1);
  }

  find(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const number = this.places().findIndex((place) => y >= place.y && y < place.y + kTrackHeight);
    if (number < 0 || x < kLabelWidth) {
      return null;
    }
    const track = this.tracks[number], slack = 2 * (this.view.to - this.view.from) / this.width, at = this.timeAt(x);
    for (let i = this.firstFrom(track); i < track.begin.length && track.begin[i] <= at + slack; ++i) {
      if (track.end[i] >= at - slack) {
        return {track: number, slice: i};
      }
    }
    return null;
  }

  timeAt(x) { return this.view.from + (x - kLabelWidth) / Math.max(this.width - kLabelWidth, 1) * (this.view.to - this.view.from); }

  zoom(factor, at = (this.view.from + this.view.to) / 2) {
    const span = clamp((this.view.to - this.view.from) * factor, Math.min(50, this.end), this.end);
    const share = (at - this.view.from) / (this.view.to - this.view.from);
    this.move(at - share * span, span);
  }

  move(from, span = this.view.to - this.view.from) {
    const begin = clamp(from, 0, this.end - span);
    this.view = {from: begin, to: begin + span};
    this.draw();
  }

  turn(event) {
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.move(this.view.from + (event.deltaX || event.deltaY) / this.width * (this.view.to - this.view.from));
    } else if (event.ctrlKey || event.metaKey || this.element.scrollHeight <= this.element.clientHeight + 1) {
      this.zoom(1.0015 ** event.deltaY, this.timeAt(event.clientX - this.canvas.getBoundingClientRect().left));
    } else {
      return;
    }
    event.preventDefault();
  }

  grab(event) {
    this.grabbed = {x: event.clientX, from: this.view.from, isMoved: false};
    this.canvas.setPointerCapture(event.pointerId);
  }

  point(event) {
    if (this.grabbed) {
      this.grabbed.isMoved ||= Math.abs(event.clientX - this.grabbed.x) > 3;
      if (this.grabbed.isMoved) {
        this.move(this.grabbed.from - (event.clientX - this.grabbed.x) / (this.width - kLabelWidth) * (this.view.to - this.view.from));
      }
      return;
    }
    const found = this.find(event);
    showTip(event, found ? this.tracks[found.track].about(found.slice) : "");
  }

  drop(event) {
    const isClick = this.grabbed && !this.grabbed.isMoved, found = isClick ? this.find(event) : null;
    this.grabbed = null;
    if (found) {
      this.choose(found.track, found.slice);
      this.tracks[found.track].open(found.slice);
    }
  }

  choose(track, slice) {
    const number = clamp(track, 0, this.tracks.length - 1), {begin, end, about} = this.tracks[number];
    this.chosen = {track: number, slice: clamp(slice, 0, begin.length - 1)};
    const from = begin[this.chosen.slice], to = end[this.chosen.slice], span = this.view.to - this.view.from;
    if (to < this.view.from || from > this.view.to) {
      this.move((from + to - span) / 2);
    }
    this.status.textContent = about(this.chosen.slice);
    this.draw();
  }

  press(event) {
    const {track, slice} = this.chosen, span = this.view.to - this.view.from;
    const nearest = (other) => {
      const {begin} = this.tracks[clamp(other, 0, this.tracks.length - 1)], at = slice >= 0 ? this.tracks[track].begin[slice] : this.view.from;
      const found = begin.findIndex((each) => each >= at);
      return found < 0 ? begin.length - 1 : found;
    };
    const actions = {
      ArrowRight: () => event.shiftKey ? this.move(this.view.from + span / 5) : this.choose(track, slice + 1), ArrowLeft: () => event.shiftKey ? this.move(this.view.from - span / 5) : this.choose(track, slice - 1),
      Home: () => this.choose(track, 0), End: () => this.choose(track, this.tracks[track].begin.length - 1),
      ArrowDown: () => this.choose(track + 1, nearest(track + 1)), ArrowUp: () => this.choose(track - 1, nearest(track - 1)),
      "+": () => this.zoom(1 / 1.6), "=": () => this.zoom(1 / 1.6), "-": () => this.zoom(1.6), "0": () => this.move(0, this.end), Enter: () => slice >= 0 && this.tracks[track].open(slice),
    };
    if (actions[event.key] && this.tracks.length > 0) {
      actions[event.key]();
      event.preventDefault();
    }
  }
}

let timeline = null;

function buildTimeline() {
  const planned = plannedTracks(), run = measuredTracks();
  if (planned.length + run.length === 0) {
    return [make("p", {class: "none"}, "A step has no times: the program does not fit, or the rates of a device are unknown; --machine names them.")];
  }
  timeline = new TimelineChart([...planned, ...run]);
  const sets = [["all", [...planned, ...run]], ["planned", planned], ["measured", run]];
  const buttons = sets.map(([name, tracks], i) => make("button", {"aria-pressed": String(i === 0), click: () => {
    buttons.forEach((button, k) => button.setAttribute("aria-pressed", String(i === k)));
    timeline.show(tracks);
  }}, name));
  const key = (name, text) => make("span", {}, make("i", {style: `background: var(--${name})`}), text);
  return [make("div", {class: "toolbar"}, planned.length > 0 && run.length > 0 && buttons,
            make("button", {"aria-label": "Zoom in", click: () => timeline.zoom(1 / 1.6)}, "+"), make("button", {"aria-label": "Zoom out", click: () => timeline.zoom(1.6)}, "−"),
            make("button", {click: () => timeline.move(0, timeline.end)}, "Whole step"),
            make("span", {class: "keys"}, key("product", "products, convolutions"), key("attention", "attention"), key("kernel", "kernels"), key("collective", "collectives"), key("wait", "waits"), key("receive", "messages")),
            make("span", {class: "rest"}, "drag to move, ctrl and wheel to zoom")), timeline.element, instructionTable()];
}

// The instructions of the programs of a step, the longest first.
function instructionTable() {
  const rows = report.instructions.flatMap((list) => Array.from(list.kind.keys(), (i) => ({list, i, takes: list.end_ns[i] - list.begin_ns[i]})));
  const table = new LongTable("Instructions", [
    {name: "instruction", width: "110px", text: ({list, i}) => list.kinds[list.kind[i]]}, {name: "module", width: "minmax(220px, 3fr)", text: ({list, i}) => moduleName(list.module[i])},
    {name: "program", width: "minmax(120px, 1fr)", text: ({list}) => `${list.program}${list.stage === undefined ? "" : ` of stage ${list.stage}`}`},
    {name: "begins", width: "100px", num: true, text: ({list, i}) => timeText(list.begin_ns[i]), cell: ({list, i}) => time(list.begin_ns[i]), value: ({list, i}) => list.begin_ns[i]},
    {name: "takes", width: "100px", num: true, text: ({takes}) => timeText(takes), cell: ({takes}) => time(takes), value: ({takes}) => takes},
    {name: "temporaries", width: "110px", num: true, text: ({list, i}) => bytesText(list.live_bytes[i]), cell: ({list, i}) => bytes(list.live_bytes[i]), value: ({list, i}) => list.live_bytes[i]}],
    rows, ({list, i}) => instructionDetail(list, i));
  table.sort(table.columns[4]);
  return table.element;
}
