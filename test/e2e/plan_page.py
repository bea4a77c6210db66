# SPDX-License-Identifier: Apache-2.0
"""Opens the pages that plan_page.sh has made, and clicks, types and measures.

    plan_page.py FOLDER
"""

import base64
import json
import pathlib
import re
import sys
import zlib

import browser
from plan_page_model import MARKUP

folder = pathlib.Path(sys.argv[1])
faults = []


def expect(holds, text):
    if not holds:
        faults.append(text)


def read(name):
    return json.loads((folder / name).read_text())


def part(page, name):
    """The JSON of an element of a page, as the page itself reads it."""
    text = re.search(rf'<script type="application/x-deflate" id="{name}">([^<]*)</script>', (folder / page).read_text())[1]
    return json.loads(zlib.decompress(base64.b64decode(text)))


# The cells of the visible rows of the open table: {row number: {column: [data-value or none, text]}}.
CELLS = """Object.fromEntries([...document.querySelectorAll('#view .content:last-child .body [data-row]')].map(row => [row.dataset.row, Object.fromEntries(
  [...row.children].map((cell, i) => [row.parentElement.parentElement.querySelectorAll('[role=columnheader]')[i].textContent.replace(/ [▲▼]/, ''),
    [cell.querySelector('[data-value]')?.dataset.value ?? null, cell.textContent]]))]))"""
DETAIL = "document.getElementById('detail').hidden ? '' : document.getElementById('detail').innerText"
CHOSEN = "document.querySelector('.tree [aria-selected=true]')?.title"


# Whether the cells of all visible rows stand below the heads of their columns.
IS_ALIGNED = """[...document.querySelectorAll('#view [role=grid]')].every(grid => {
  const heads = [...grid.querySelectorAll('[role=columnheader]')].map(cell => cell.getBoundingClientRect().left);
  return [...grid.querySelectorAll('.body [role=row]')].every(row => [...row.children].every((cell, i) => Math.abs(cell.getBoundingClientRect().left - heads[i]) < 1));
})"""


def number(cell):
    return float(cell[0])


def check_facts(report):
    """Instructions agree with the programs and collectives of the same report."""
    for each in report["instructions"]:
        program = next(one for one in report["programs"] if (one["name"], one.get("stage")) == (each["program"], each.get("stage")))
        name = f"{program['name']} of stage {program.get('stage')}"
        padding = 64 * len(each["peak"]["writer"])
        expect(0.9 * program["temporary_bytes"] - padding <= each["peak"]["bytes"] <= program["temporary_bytes"], f"{name}: a peak of {each['peak']['bytes']} in {program['temporary_bytes']} bytes")
        expect(each["peak"]["bytes"] == max(each["live_bytes"]) == each["live_bytes"][each["peak"]["instruction"]], f"{name}: the peak is elsewhere")
        expect(sum(each["peak"]["written_bytes"]) == each["peak"]["bytes"], f"{name}: the values at the peak do not add up")
        expect(0.9 * program["predicted_ns"] <= max(each["end_ns"]) <= program["predicted_ns"], f"{name}: ends at {max(each['end_ns'])} of {program['predicted_ns']}")
        numbers = [one for one in each["collective"] if one >= 0]
        expect(len(numbers) == len(set(numbers)) == program["collectives"], f"{name}: the collectives {numbers} of {program['collectives']}")
        for begin, end, one, started in zip(each["begin_ns"], each["end_ns"], each["collective"], each["started"]):
            if one >= 0 and not started:
                expect(abs(end - begin - report["collectives"][one]["time_ns"]) < 1, f"{name}: collective {one} takes {end - begin} ns")


def check_numbers(page, report):
    """Each visible row of the tables has the numbers of the report."""
    page.click("[data-view=collectives]")
    cells = page.run(CELLS)
    expect(len(cells) == len(report["collectives"]) + len(report.get("sends", [])), f"{len(cells)} collectives are shown")
    for row, shown in cells.items():
        if int(row) < len(report["collectives"]):
            fact = report["collectives"][int(row)]
            expect(number(shown["sent"]) == fact["bytes"] and number(shown["time"]) == fact["time_ns"], f"collective {row}: {shown}")
            expect(shown["cause"][1] == fact["cause"] and shown["kind"][1] == fact["kind"], f"collective {row}: {shown}")
    page.click("[data-view=parameters]")
    cells = page.run(CELLS)
    expect(len(cells) == len(report["variables"]), f"{len(cells)} parameters are shown")
    expect(page.run(IS_ALIGNED), "the columns of the parameters are not below each other")
    for row, shown in cells.items():
        fact = report["variables"][int(row)]
        expect(number(shown["bytes"]) == fact["bytes"] and shown["name"][1] == fact["name"] and shown["layout"][1] == fact["layout"], f"parameter {row}: {shown}")
    page.click("[data-view=overview]")
    values = [float(each) for each in page.run("[...document.querySelectorAll('#view [data-value]')].map(e => e.dataset.value)")]
    step = report["pipeline"]["step_ns"] if "pipeline" in report else report["step"]["step_ns"]
    wanted = [step, report["memory"]["bytes"], *(each["bytes"] for each in report["memory"]["parts"]), *(each["bytes"] for each in report["programs"])]
    expect(set(wanted) <= set(values), f"the overview lacks {set(wanted) - set(values)}")
    page.click("[data-view=memory]")
    peak = max(each["peak"]["bytes"] for each in report["instructions"])
    expect(float(page.run("document.querySelector('#peak [data-value]').dataset.value")) == peak, "the peak of memory")


def check_clicks(page, report):
    """Clicks reach what they name: a row, a module, a part of the drawing, a slice of time."""
    page.click("[data-view=collectives]")
    page.click("[data-row='3']")
    fact = report["collectives"][3]
    shown = page.run(DETAIL)
    expect(fact["cause"] in shown and fact["reasons"][0]["from"] in shown and fact["reasons"][0]["producer"] in shown, f"the details of collective 3: {shown}")
    expect(fact["reasons"][0]["runner_up"]["steps"] in shown, "collective 3 has no runner-up")
    page.click("[data-row='0']")
    shown = page.run(DETAIL)
    expect('rules { match: "fc1.weight" layout: "[{tp}, {}]" }' in shown, f"collective 0 does not show the rule behind it: {shown}")
    page.click("#detail [data-open^='module:']")
    expect(page.run(CHOSEN) == "fc2", f"a click on a module of collective 0 opens {page.run(CHOSEN)}")
    layouts = page.run("[...document.querySelectorAll('.canvas text.layout')].map(e => e.textContent)")
    expect("[{dp}, {}], partial = sum {tp} → [{dp}, {}]" in layouts, f"the edges of fc2: {layouts}")
    page.click(".canvas [data-collective='0']")
    expect(report["collectives"][0]["cause"] in page.run(DETAIL), "a pill of the drawing")
    page.click(".tree [data-module='0'] .name")
    expect(page.run(CHOSEN) == "mlp", "the row of the model")
    page.click(f".canvas [data-box='{report['modules']['name'].index('fc1')}']")
    expect(page.run(CHOSEN) == "fc1", "a box of the drawing")
    boxes = page.run("[...document.querySelectorAll('.canvas [data-box]')].map(e => e.getAttribute('aria-label'))")
    expect(any(each.startswith("matmul, 256x512xf32") for each in boxes), f"the boxes of fc1: {boxes}")
    layouts = page.run("[...document.querySelectorAll('.canvas text.layout')].map(e => e.textContent)")
    expect("[{dp}, {}]" in layouts and "[{tp}, {}]" in layouts, f"the edges of fc1: {layouts}")
    page.click(".toolbar button:nth-child(2)")
    boxes = page.run("[...document.querySelectorAll('.canvas [data-box]')].map(e => e.getAttribute('aria-label'))")
    expect(any("gradient" in each for each in boxes), f"the backward boxes of fc1: {boxes}")
    # The first product begins with the step, so it is at the left end of the second track.
    page.click("[data-view=timeline]")
    page.click(".timeline canvas", at=(0.3, (26 + 22 + 24 + 12) / page.run("document.querySelector('.timeline canvas').clientHeight")))
    shown = page.run(DETAIL)
    expect("product" in shown and "fc1" in shown and "train_step" in shown, f"a slice of the timeline: {shown}")
    page.click("[data-view=memory]")
    page.click(".content .link")
    shown = page.run(DETAIL)
    peak = report["instructions"][0]["peak"]
    values = page.run("[...document.querySelectorAll('#detail [data-value]')].map(e => Number(e.dataset.value))")
    expect(peak["bytes"] in values, f"the instruction at the peak: {shown}")


def check_keys(page, report):
    """All of it without a mouse."""
    page.press("3")
    expect(page.run("location.hash") == "#collectives", "the key 3")
    page.press("/")
    expect(page.run("document.activeElement.id") == "search", "the key /")
    page.type("fc3.weight")
    options = page.run("[...document.querySelectorAll('.results [role=option]')].map(e => e.innerText)")
    expect(len(options) >= 3 and all("fc3.weight" in each for each in options), f"the results: {options}")
    page.press("ArrowDown")
    wanted = page.run("document.querySelector('.results [aria-selected=true] .what').textContent")
    page.press("Enter")
    expect(wanted in page.run(DETAIL) or page.run(CHOSEN) == wanted, f"Enter does not open {wanted}")
    page.press("Escape")
    expect(page.run(DETAIL) == "", "Escape leaves the details open")
    page.press("/")
    page.type("all_reduce gradient of fc2.weight")
    page.press("Enter")
    expect("gradient of fc2.weight" in page.run(DETAIL), f"the search for a collective opens {page.run(DETAIL)}")
    page.press("Escape")
    page.press("/")
    page.press("Escape")
    expect(page.run("document.activeElement.id") != "search", "Escape leaves the search focused")
    page.press("3")
    page.run("document.querySelector('#view [role=grid]').focus()")
    page.press("Home", "ArrowDown", "Enter")
    expect(report["collectives"][1]["cause"] in page.run(DETAIL), "the second row by keys")
    page.press("Escape")
    expect(page.run("document.activeElement.getAttribute('role')") == "grid", "the focus after Escape")
    page.press("2")
    page.run("document.querySelector('[role=tree]').focus()")
    page.press("Home", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown")
    expect(page.run(CHOSEN) == "fc1.weight", f"the keys of the tree lead to {page.run(CHOSEN)}")
    page.press("ArrowLeft")
    expect(page.run(CHOSEN) == "fc1", "the key left")
    page.press("4")
    page.run("document.querySelector('.timeline canvas').focus()")
    page.press("ArrowDown", "ArrowRight", "Enter")
    shown = page.run("document.querySelector('.timeline [role=status]').textContent")
    kinds = report["instructions"][0]["kinds"]
    expect(shown.split()[0] in kinds and shown.split()[0] in page.run(DETAIL), f"the keys of the timeline: {shown}")
    each = report["instructions"][0]
    texts = [f"{each['kinds'][kind]} {{}}{report['modules']['name'][module]}" for kind, module in zip(each["kind"], each["module"])]
    check_ends(page, "timeline", [text for text, begin, end, started in zip(texts, each["begin_ns"], each["end_ns"], each["started"]) if end > begin and not started])
    page.run("document.querySelector('#tabs [aria-selected=true]').focus()")
    page.press("ArrowRight")
    expect(page.run("location.hash") == "#memory", "the key right on the tabs")
    check_ends(page, "chart:not(.timeline)", texts)


def check_ends(page, chart, texts):
    """The keys Home and End choose the first and the last instruction of a chart."""
    expect(texts[0] != texts[-1], f"the ends of the {chart} are alike")
    page.run(f"document.querySelector('.{chart} canvas').focus()")
    for key, text in (("End", texts[-1]), ("Home", texts[0])):
        page.press(key)
        kind, module = text.split(" {}")
        shown = page.run(f"document.querySelector('.{chart} [role=status]').textContent").split("\n")[0]
        expect(shown.startswith(kind + " ") and shown.endswith(module), f"{key} on the {chart}: {shown}, not {kind} {module}")


def check_search_behind_filter(page, report):
    """A search that opens a row which the filter of its table hides empties the filter."""
    page.press("3")
    page.run("document.querySelector('#view .toolbar input').focus()")
    page.type("zzz")
    toolbar = "document.querySelector('#view .toolbar input').value + '|' + document.querySelector('#view .toolbar [role=status]').textContent"
    count = len(report["collectives"])
    expect(page.run(toolbar) == f"zzz|0 of {count}" and not page.run(CELLS), f"the filter: {page.run(toolbar)}")
    page.run("document.activeElement.blur()")
    page.press("/")
    page.type("all_reduce gradient of fc2.weight")
    page.press("Enter")
    expect(page.run(toolbar) == f"|{count} of {count}" and len(page.run(CELLS)) == count, f"the filter after a search: {page.run(toolbar)}")
    page.press("Escape")


# Figures of the view Compare: {name: [this, other]}, as numbers where they have some.
COMPARED = """Object.fromEntries([...document.querySelectorAll('#view table.small tbody tr')].map(
  row => [row.cells[0].textContent.trim(), [...row.cells].slice(1).map(cell => cell.querySelector('[data-value]')?.dataset.value ?? cell.textContent)]))"""
STATUS = "document.querySelector('#view [role=status]').textContent"


def check_opened(page):
    """Another report is opened by a file chooser, or dropped; other files are refused, and the comparison stays."""
    other = read("two.json")
    page.press("7")
    expect(page.run("location.hash") == "#compare" and not page.run(COMPARED), "the view Compare without another report")
    page.choose("#view input[type=file]", folder / "two.json")
    page.wait(f"{STATUS} !== ''")
    expect(page.run(COMPARED)["step, predicted"][1] == str(other["pipeline"]["step_ns"]), f"the opened report: {page.run(COMPARED)}")
    page.press("1")
    broken = {**other, "variables": [other["variables"][0], {"name": "w", "layout": "[{}]"}]}
    for text, fault in ((json.dumps(broken), "it has no number at variables[1].bytes"), ("[]", "it has no object"), ("{", "JSON"), (json.dumps(read("plan.json")), "it has no list at collectives")):
        page.run(f"""(() => {{ const data = new DataTransfer(); data.items.add(new File([{json.dumps(text)}], 'dropped.json'));
          document.body.dispatchEvent(new DragEvent('drop', {{dataTransfer: data, bubbles: true, cancelable: true}})); }})()""")
        page.wait(f"{STATUS}.includes({json.dumps(fault)})")
        shown = page.run(STATUS)
        expect(shown.startswith("dropped.json: ") and "--report" in shown and page.run(COMPARED), f"a dropped file: {shown}")


def luminance(color):
    parts = [int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def check_colors(page):
    """Text has a contrast of 4.5 in the theme that is on, slices have 3 with the panel that they lie on."""
    slices = "product convolution attention kernel collective wait copy repeat insert receive send step program planned".split()
    names = ["ink", "soft", "accent", "on-slice", "bg", "panel", "raised", "hover", "chosen", "mark", *slices]
    of = page.run(f"Object.fromEntries({json.dumps(names)}.map(n => [n, getComputedStyle(document.documentElement).getPropertyValue('--' + n).trim()]))")
    pairs = [(text, ground) for text in ("ink", "soft", "accent", "collective") for ground in ("bg", "panel", "raised", "hover", "chosen")]
    for text, ground in pairs + [("ink", "mark")] + [("on-slice", each) for each in slices]:
        expect(contrast(of[text], of[ground]) >= 4.5, f"contrast of {text} on {ground}: {contrast(of[text], of[ground]):.2f}")
    for each in slices:
        expect(contrast(of[each], of["panel"]) >= 3, f"contrast of {each}: {contrast(of[each], of['panel']):.2f}")


def check_pictures(page):
    """Each view is drawn, in both themes and on a narrow screen."""
    for dark, (width, height) in ((False, (1280, 800)), (True, (480, 860))):
        page.open(folder / "two.html", width, height, dark)
        check_colors(page)
        for view in page.run("[...document.querySelectorAll('#tabs button')].map(e => e.dataset.view)"):
            page.click(f"[data-view={view}]")
            shown_width, shown_height, rows = page.screenshot(width, height, scale=0.25)
            expect((shown_width, shown_height) == (width // 4, height // 4), f"{view} is {shown_width} x {shown_height}")
            pixels = [row[i:i + 3] for row in rows for i in range(0, len(row), 3)]
            bright = sum(map(sum, pixels)) / (3 * len(pixels))
            expect(bright < 90 if dark else bright > 165, f"{view}, {'dark' if dark else 'light'}: mean brightness {bright:.0f}")
            expect(len(set(pixels)) > 25, f"{view} has {len(set(pixels))} colours")
            expect(page.run("document.documentElement.scrollWidth <= innerWidth"), f"{view} is wider than a screen of {width}")
    before = page.run("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    expect(page.run("getComputedStyle(document.body).backgroundColor") != before, "the button of the theme")


def check_run(page):
    """Measured tracks are next to planned ones, and another report is beside this one."""
    page.open(folder / "two.html")
    report, other, run = part("two.html", "report"), part("two.html", "other"), part("two.html", "measured")
    expect(other == read("mlp.json"), "the other report is not that of the file")
    check_numbers(page, report)
    page.click("[data-view=memory]") # of the stage with the largest peak the whole step: its runs one after the other
    options = page.run("[...document.querySelectorAll('#view option')].map(e => e.textContent)")
    expect(options[0].startswith("step of stage 0") and options[1].startswith("step of stage 1") and len(options) == 2 + len(report["instructions"]), f"the steps: {options}")
    page.run("document.querySelector('#view canvas').focus()")
    page.press("Enter")
    values = page.run("[...document.querySelectorAll('#detail [data-value]')].map(e => Number(e.dataset.value))")
    peak = max((each["peak"]["bytes"], -each["stage"]) for each in report["instructions"])
    stage = next(each for each in report["pipeline"]["stages"] if each["stage"] == -peak[1])
    begins = [run["begin_ns"] + each["begin_ns"][each["peak"]["instruction"]] for run in stage["runs"] for each in report["instructions"]
              if each["stage"] == stage["stage"] and each["program"] == run["program"] and each["peak"]["bytes"] == peak[0]]
    expect(peak[0] in values and any(abs(values[0] - begin) < 1e-3 for begin in begins), f"the peak of the step: {values}, {begins}")
    trace = read("trace.json")["traceEvents"]
    slices = [each for each in trace if each["ph"] == "X"]
    expect(sum(len(track["title"]) for track in run["tracks"]) == len(slices) > 100, "slices of the trace are missing")
    steps = [each["dur"] for each in slices if each["cat"] == "step"]
    expect(len(steps) == 8 and abs(run["step_ns"] - 1000 * sum(steps) / len(steps)) < 1, f"a step of {run['step_ns']} ns")
    shown = page.run("(document.querySelector('[data-view=overview]').click(), [...document.querySelectorAll('.figures > div')].map(e => [e.children[0].textContent, e.querySelector('[data-value]')?.dataset.value]))")
    expect(["step, measured", str(run["step_ns"])] in [[name, value] for name, value in shown], f"the figures: {shown}")
    page.click("[data-view=timeline]")
    page.click(".toolbar button:nth-child(3)")
    page.run("document.querySelector('.timeline canvas').focus()")
    page.press("ArrowRight", "Enter")
    expect("rank 0, steps" in page.run(DETAIL) and "step 3" in page.run(DETAIL), f"the first measured slice: {page.run(DETAIL)}")
    first = next(each for each in slices if each["pid"] == 1 and each["cat"] == "step")
    values = page.run("[...document.querySelectorAll('#detail [data-value]')].map(e => Number(e.dataset.value))")
    expect(len(values) == 2 and abs(values[0] - 1000 * first["ts"]) < 1e-3 and abs(values[1] - 1000 * first["dur"]) < 1e-3, f"the times of the first slice: {values}, {first}")
    page.click("[data-view=compare]")
    table = page.run(COMPARED)
    expect([float(each) for each in table["step, predicted"]] == [report["pipeline"]["step_ns"], other["step"]["step_ns"]], f"steps side by side: {table['step, predicted']}")
    expect([float(each) for each in table["memory of a rank"]] == [report["memory"]["bytes"], other["memory"]["bytes"]], "memory side by side")
    layouts = page.run("document.querySelector('#view').innerText")
    expect("fc1.weight" in layouts and "[{tp}, {}]" in layouts, "the layouts that differ")


def check_plan(page):
    page.open(folder / "plan.html")
    table = read("plan.json")
    expect(part("plan.html", "plan") == table, "the table is not that of --json")
    for row, shown in page.run(CELLS).items():
        mesh = table["meshes"][int(row)]
        if not mesh["fits"]:
            expect(shown["memory"][1] != shown[""][1].removeprefix("above "), f"memory and limit of mesh {row} are alike: {shown}")
        expect([number(shown[name]) for name in ("step", "compute", "exposed", "sent", "memory")] ==
               [mesh["step_ns"], mesh["compute_ns"], mesh["exposed_ns"], mesh["bytes_sent"], mesh["memory"]["bytes"]], f"mesh {row}: {shown}")
    page.click("[data-row='0']")
    page.click("#keep")
    page.click("[data-row='2']")
    rows = page.run("Object.fromEntries([...document.querySelectorAll('#detail tbody tr')].map(r => [r.cells[0].textContent, [...r.cells].slice(1).map(c => Number(c.querySelector('[data-value]')?.dataset.value))]))")
    expect(rows["step"] == [table["meshes"][0]["step_ns"], table["meshes"][2]["step_ns"]], f"two rows side by side: {rows}")
    expect(rows["  parameters"] == [next(p["bytes"] for p in table["meshes"][i]["memory"]["parts"] if p["name"] == "parameters") for i in (0, 2)], f"parts side by side: {rows}")


def check_names(page):
    """A parameter, a node and a model of odd names are text everywhere."""
    page.open(folder / "odd.html")
    report = read("odd.json")
    expect(report["variables"][0]["name"] == MARKUP, "the model has another name")
    page.click("[data-view=parameters]")
    expect(page.run(CELLS)["0"]["name"][1] == MARKUP, f"the name in the table: {page.run(CELLS)['0']['name']}")
    page.click("[data-row='0']")
    expect(page.run("document.querySelector('#detail h2').textContent") == MARKUP, "the name in the details")
    page.press("/")
    page.type("<img")
    page.press("Enter", "2", "4", "5", "1")
    page.click("[data-view=model]")
    expect(page.run("document.title").startswith("odd" + MARKUP), "the title")
    expect(page.run("document.images.length === 0 && window.taken === undefined"), "a name became markup")


def main():
    report = read("mlp.json")
    check_facts(report)
    check_facts(read("two.json"))
    expect(part("mlp.html", "report") == report, "the data of the page is not that of --report")
    expect(part("two.html", "report") == read("two.json"), "the data of the pipeline's page is not that of --report")
    with browser.Browser() as page:
        page.open(folder / "mlp.html")
        check_numbers(page, report)
        check_clicks(page, report)
        check_keys(page, report)
        check_search_behind_filter(page, report)
        check_opened(page)
        check_run(page)
        check_plan(page)
        check_names(page)
        check_pictures(page)
        expect(not page.complaints, f"the browser complains: {page.complaints}")
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return 1 if faults else 0


sys.exit(main())
