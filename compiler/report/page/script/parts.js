// SPDX-License-Identifier: Apache-2.0
//
// Parts that several views have: tables of any length, the details at the side, facts, bars.

// The side panel. Escape closes it.
const detail = document.getElementById("detail");
let returnTo = null; // the element that had the focus
function showDetail(title, ...children) {
  if (!detail.contains(document.activeElement)) {
    returnTo = document.activeElement;
  }
  detail.replaceChildren(make("div", {class: "head"}, make("h2", {tabindex: -1}, title),
                              make("button", {"aria-label": "Close details", click: closeDetail}, "Close")), ...children.flat(Infinity).filter(Boolean));
  detail.hidden = false;
  detail.scrollTop = 0;
}
function closeDetail() {
  detail.hidden = true;
  if (returnTo && returnTo.isConnected) {
    returnTo.focus();
  }
}

// Pairs of a name and a text or element; those without a value are left out.
const facts = (...pairs) => make("dl", {class: "facts"}, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
  .map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));

// A short table: every row is drawn. `head`: [name, "num" or ""].
const smallTable = (head, rows) => make("table", {class: "small"},
  make("thead", {}, make("tr", {}, head.map(([name, kind]) => make("th", {class: kind, scope: "col"}, name)))),
  make("tbody", {}, rows.map((row) => make("tr", {}, row.map((cell, i) => make("td", {class: head[i][1]}, cell))))));

const kPartColors = ["product", "collective", "attention", "copy", "receive", "repeat", "wait", "kernel"];

// Parts of a sum as one bar, with its names.
function partsBar(parts) {
  const total = parts.reduce((sum, part) => sum + part.bytes, 0);
  const colorOf = (i) => `background: var(--${kPartColors[i % kPartColors.length]})`;
  return [
    make("div", {class: "bar", role: "img", "aria-label": parts.map((part) => `${part.name} ${bytesText(part.bytes)}`).join(", ")},
         parts.map((part, i) => make("span", {style: `${colorOf(i)}; flex: ${part.bytes / Math.max(total, 1)}`, title: `${part.name}: ${bytesText(part.bytes)}`}))),
    smallTable([["part", ""], ["bytes", "num"], ["share", "num"]], parts.map((part, i) =>
      [[make("span", {class: "chip", style: colorOf(i)}), part.name], bytes(part.bytes), shareText(part.bytes / Math.max(total, 1))])),
  ];
}

// A table that draws the visible rows only. `columns`: {name, width, num, text(row), cell(row), value(row)}; `open(row)`. Arrow keys, Home
// and End move, Enter opens; a click on a head sorts.
class LongTable {
  constructor(label, columns, rows, open) {
    Object.assign(this, {columns, rows, open, shown: rows.slice(), chosen: -1, sorted: null, isRising: false, showAll: () => {}});
    const gap = 18, least = columns.reduce((sum, column) => sum + Number(column.width.match(/\d+/)[0]) + gap, 24 - gap);
    this.template = `grid-template-columns: ${columns.map((column) => column.width).join(" ")}; min-width: ${least}px`;
    this.head = make("div", {class: "row headrow", role: "row", style: this.template});
    this.body = make("div", {class: "body", role: "rowgroup", style: "position: relative"});
    this.scroll = make("div", {class: "scroll", role: "grid", "aria-label": label, "aria-rowcount": rows.length, tabindex: 0,
                               scroll: () => this.drawRows(), keydown: (event) => this.press(event)}, this.head, this.body);
    this.element = make("div", {class: "table"}, this.scroll);
    this.drawHead();
    new ResizeObserver(() => this.drawRows()).observe(this.scroll);
  }

  drawHead() {
    this.head.replaceChildren(...this.columns.map((column) => {
      const isSorted = column === this.sorted;
      const mark = !isSorted ? "" : this.isRising ? " ▲" : " ▼";
      return make("div", {role: "columnheader", class: column.num ? "num" : "", "aria-sort": isSorted ? (this.isRising ? "ascending" : "descending") : "none"},
                  make("button", {tabindex: -1, click: () => this.sort(column)}, column.name + mark));
    }));
  }

  sort(column) {
    this.isRising = this.sorted === column ? !this.isRising : !column.num;
    this.sorted = column;
    this.drawHead();
    this.update();
  }

  filter(keeps) {
    this.keeps = keeps;
    this.update();
  }

  update() {
    const chosen = this.shown[this.chosen];
    this.shown = this.keeps ? this.rows.filter(this.keeps) : this.rows.slice();
    if (this.sorted) {
      const value = this.sorted.value ?? this.sorted.text, sign = this.isRising ? 1 : -1;
      this.shown.sort((a, b) => { const x = value(a), y = value(b); return sign * (x < y ? -1 : x > y ? 1 : 0); });
    }
    this.chosen = this.shown.indexOf(chosen);
    this.scroll.setAttribute("aria-rowcount", this.shown.length);
    this.drawRows();
  }

  drawRows() {
    const height = 30, {scrollTop, clientHeight} = this.scroll;
    const first = Math.max(0, Math.floor(scrollTop / height) - 8), last = Math.min(this.shown.length, Math.ceil((scrollTop + clientHeight) / height) + 8);
    this.body.style.height = `${this.shown.length * height}px`;
    if (this.shown.length === 0) {
      this.body.replaceChildren(make("div", {class: "none"}, "Nothing matches."));
      return;
    }
    this.body.replaceChildren(...this.shown.slice(first, last).map((row, i) => make("div", {
      class: "row", role: "row", "aria-rowindex": first + i + 1, "aria-selected": first + i === this.chosen, "data-row": this.rows.indexOf(row),
      style: `${this.template}; top: ${(first + i) * height}px`, click: () => this.choose(first + i, true)},
      this.columns.map((column) => make("div", {role: "gridcell", class: column.num ? "num" : "", title: column.cell ? null : column.text(row)},
                                        column.cell ? column.cell(row) : column.text(row))))));
  }

  choose(place, opens) {
    this.chosen = clamp(place, 0, this.shown.length - 1);
    const top = this.chosen * 30, {scrollTop, clientHeight} = this.scroll;
    if (top < scrollTop || top + 60 > scrollTop + clientHeight) {
      this.scroll.scrollTop = top < scrollTop ? top : top + 64 - clientHeight;
    }
    this.drawRows();
    if (opens && this.shown.length > 0) {
      this.open(this.shown[this.chosen]);
    }
  }

  // Chooses a row of the data, whatever the filter hides.
  chooseRow(row) {
    if (!this.shown.includes(row)) {
      this.showAll();
    }
    this.choose(this.shown.indexOf(row), true);
  }

  press(event) {
    const page = Math.max(1, Math.floor(this.scroll.clientHeight / 30) - 2);
    const moves = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.shown.length, End: this.shown.length};
    if (event.key in moves) {
      this.choose(this.chosen + moves[event.key], !detail.hidden);
    } else if (event.key === "Enter" && event.target === this.scroll && this.chosen >= 0) {
      this.open(this.shown[this.chosen]);
    } else {
      return;
    }
    event.preventDefault();
  }
}

// An input that filters a table by words: a row is kept if its text has all of them.
function filterInput(table, textOf, label) {
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    table.filter((row) => words.every((word) => textOf(row).toLowerCase().includes(word)));
    count.textContent = `${table.shown.length} of ${table.rows.length}`;
  };
  table.showAll = () => {
    input.value = "";
    apply();
  };
  const input = make("input", {type: "text", placeholder: label, "aria-label": label, input: apply, keydown: (event) => {
    if (event.key === "ArrowDown") {
      table.scroll.focus();
      table.choose(0, false);
      event.preventDefault();
    }
  }});
  const count = make("span", {class: "rest", role: "status"}, `${table.rows.length} of ${table.rows.length}`);
  return [input, count];
}
