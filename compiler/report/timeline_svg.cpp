// SPDX-License-Identifier: Apache-2.0
//
// Facts -> elements, in pixels.

#include "compiler/report/timeline_svg.h"

#include "compiler/report/timeline_text.h"
#include "compiler/report/units.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <map>

using llvm::formatv;

namespace ashlar::report {
namespace {

// Light enough for black text, and told from each other by those who see few colours.
constexpr const char *kColours[] = {"#8ecae6", "#f4a261", "#90be6d", "#e5989b", "#f9dc5c", "#b8a9e3", "#66c2b0", "#d4b483"};

constexpr double kLeft = 84, kRight = 150, kTop = 60, kRowHeight = 32, kRowGap = 16, kAxisHeight = 44, kLegendHeight = 34;
constexpr double kLeastWidth = 900, kMostWidth = 16000; // of the step
constexpr double kReadableRun = 16;                     // as wide as the shortest run should be
constexpr double kDigitWidth = 7;
constexpr size_t kMostMessages = 400; // more would hide what they connect

// Returns the text as XML has it, which knows neither control characters nor bytes that are no UTF-8: in their place stands a sign that
// something is missing.
std::string escaped(llvm::StringRef text) {
  std::string result;
  llvm::raw_string_ostream out(result);
  for (char letter : llvm::json::fixUTF8(text)) {
    if (static_cast<unsigned char>(letter) < ' ') {
      out << "\xef\xbf\xbd";
    } else {
      llvm::printHTMLEscaped(llvm::StringRef(&letter, 1), out);
    }
  }
  return result;
}

class Picture {
public:
  Picture(const PipelineFacts &facts, llvm::StringRef model) : facts(facts), model(model) {
    int64_t shortestPs = INT64_MAX;
    std::map<std::string, int64_t> firstPs; // by program
    for (auto [stage, line] : llvm::zip_equal(facts.stages, facts.timeline.stages)) {
      for (const TimelineRun &run : line.runs) {
        shortestPs = run.endPs > run.beginPs ? std::min(shortestPs, run.endPs - run.beginPs) : shortestPs;
        int64_t &first = firstPs.try_emplace(stage.programs[run.program].name, run.beginPs).first->second;
        first = std::min(first, run.beginPs);
      }
    }
    llvm::append_range(programs, llvm::make_first_range(firstPs));
    llvm::sort(programs, [&](const std::string &a, const std::string &b) { return std::pair(firstPs[a], a) < std::pair(firstPs[b], b); });
    double wanted = kReadableRun * static_cast<double>(facts.timeline.timePs) / static_cast<double>(shortestPs);
    width = std::clamp(wanted, kLeastWidth, kMostWidth);
    height = static_cast<double>(facts.stages.size()) * (kRowHeight + kRowGap);
  }

  std::string draw() {
    double wide = kLeft + width + kRight, high = kTop + height + kAxisHeight + kLegendHeight;
    out << formatv(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"{0:F0}\" height=\"{1:F0}\" viewBox=\"0 0 {0:F0} {1:F0}\" "
               "font-family=\"sans-serif\" font-size=\"12\">\n",
               wide, high)
        << "<title>" << escaped(model) << ": a step of its pipeline</title>\n"
        << formatv("<rect width=\"{0:F0}\" height=\"{1:F0}\" fill=\"#ffffff\"/>\n", wide, high);
    label(kLeft, 24, "start", model, " font-size=\"14\" font-weight=\"bold\"");
    label(kLeft, 44, "start", stepText(facts));
    for (size_t stage = 0; stage < facts.stages.size(); ++stage) {
      drawStage(stage);
    }
    drawMessages();
    drawAxis();
    drawLegend();
    out << "</svg>\n";
    return std::move(text);
  }

private:
  double x(int64_t timePs) const {
    const int64_t stepPs = facts.timeline.timePs;
    return kLeft + (stepPs == 0 ? 0 : width * (static_cast<double>(timePs) / static_cast<double>(stepPs)));
  }
  double y(size_t stage) const { return kTop + static_cast<double>(stage) * (kRowHeight + kRowGap); }

  llvm::StringRef colourOf(llvm::StringRef program) const {
    return kColours[(llvm::find(programs, program) - programs.begin()) % std::size(kColours)];
  }

  void label(double x, double y, llvm::StringRef anchor, llvm::StringRef content, llvm::StringRef attributes = "") {
    out << formatv("<text x=\"{0:F1}\" y=\"{1:F1}\" text-anchor=\"{2}\"{3}>{4}</text>\n", x, y, anchor, attributes, escaped(content));
  }

  void drawStage(size_t stage) {
    const StageTimeline &line = facts.timeline.stages[stage];
    out << formatv("<g class=\"stage\" id=\"stage{0}\">\n", stage)
        << formatv(
               "<rect class=\"idle\" x=\"{0:F1}\" y=\"{1:F1}\" width=\"{2:F1}\" height=\"{3:F1}\" fill=\"#f2f2f2\" stroke=\"#cccccc\"/>\n",
               kLeft, y(stage), width, kRowHeight);
    label(kLeft - 10, y(stage) + 21, "end", ("stage " + llvm::Twine(stage)).str());
    for (const TimelineRun &run : line.runs) {
      drawRun(stage, run);
    }
    label(kLeft + width + 10, y(stage) + 14, "start", "waits " + shareText(facts.timeline.bubble(stage)));
    label(kLeft + width + 10, y(stage) + 28, "start", bytesText(facts.stages[stage].memory.bytes()) + " a rank", " fill=\"#555555\"");
    out << "</g>\n";
  }

  void drawRun(size_t stage, const TimelineRun &run) {
    const StageProgramFact &program = facts.stages[stage].programs[run.program];
    if (run.receivePs > 0) {
      out << formatv("<rect class=\"receive\" x=\"{0:F2}\" y=\"{1:F1}\" width=\"{2:F2}\" height=\"{3:F1}\" fill=\"#9a9a9a\"/>\n",
                     x(run.beginPs - run.receivePs), y(stage) + 4, x(run.beginPs) - x(run.beginPs - run.receivePs), kRowHeight - 8);
    }
    double wide = x(run.endPs) - x(run.beginPs);
    out << formatv("<rect class=\"run\" x=\"{0:F2}\" y=\"{1:F1}\" width=\"{2:F2}\" height=\"{3:F1}\" fill=\"{4}\" stroke=\"#444444\" "
                   "stroke-width=\"0.5\"><title>stage {5}, {6} of micro-batch {7}: {8} to {9}</title></rect>\n",
                   x(run.beginPs), y(stage), wide, kRowHeight, colourOf(program.name), stage, escaped(program.name), run.microBatch,
                   timeText(run.beginPs), timeText(run.endPs));
    std::string number = std::to_string(run.microBatch);
    bool isOfMicroBatch = program.runs > 1 || facts.microBatches == 1;
    if (isOfMicroBatch && wide >= kDigitWidth * static_cast<double>(number.size()) + 3) {
      label(x(run.beginPs) + wide / 2, y(stage) + 21, "middle", number);
    }
  }

  void drawMessages() {
    if (facts.timeline.messages.size() > kMostMessages) {
      return;
    }
    for (const TimelineMessage &message : facts.timeline.messages) {
      const TimelineRun &from = facts.timeline.stages[message.from].runs[message.fromRun];
      const TimelineRun &to = facts.timeline.stages[message.to].runs[message.toRun];
      bool isDown = message.to > message.from;
      out << formatv("<line class=\"message\" x1=\"{0:F2}\" y1=\"{1:F1}\" x2=\"{2:F2}\" y2=\"{3:F1}\" stroke=\"#666666\" "
                     "stroke-width=\"0.8\"/>\n",
                     x(from.endPs), y(message.from) + (isDown ? kRowHeight : 0), x(to.beginPs), y(message.to) + (isDown ? 0 : kRowHeight));
    }
  }

  // Marks at round times, about one every 150 pixels.
  void drawAxis() {
    const auto stepPs = static_cast<double>(facts.timeline.timePs);
    const double line = kTop + height, least = stepPs * 150 / width;
    double step = least > 0 ? std::pow(10, std::floor(std::log10(least))) : 1;
    step *= step * 2 >= least ? 2 : step * 5 >= least ? 5 : 10;
    for (double time = 0; time <= stepPs; time += step) {
      double at = x(static_cast<int64_t>(time));
      out << formatv("<line x1=\"{0:F1}\" y1=\"{1:F1}\" x2=\"{0:F1}\" y2=\"{2:F1}\" stroke=\"#888888\"/>\n", at, line, line + 6);
      label(at, line + 20, "middle", timeText(static_cast<int64_t>(time)));
    }
  }

  void drawLegend() {
    double at = kLeft;
    const double row = kTop + height + kAxisHeight;
    auto entry = [&](llvm::StringRef colour, llvm::StringRef name) {
      out << formatv("<rect x=\"{0:F1}\" y=\"{1:F1}\" width=\"16\" height=\"14\" fill=\"{2}\" stroke=\"#444444\" stroke-width=\"0.5\"/>\n",
                     at, row, colour);
      label(at + 22, row + 12, "start", name);
      at += 22 + kDigitWidth * static_cast<double>(name.size()) + 24;
    };
    out << "<g class=\"legend\">\n";
    for (const std::string &program : programs) {
      entry(colourOf(program), program);
    }
    entry("#9a9a9a", "receives");
    entry("#f2f2f2", "waits");
    out << "</g>\n";
  }

  const PipelineFacts &facts;
  llvm::StringRef model;
  std::vector<std::string> programs; // of all stages, in the order in which they run first
  double width = 0, height = 0;      // of the rows
  std::string text;
  llvm::raw_string_ostream out{text};
};

} // namespace

std::string timelineSvg(const PipelineFacts &facts, llvm::StringRef model) {
  return Picture(facts, model).draw();
}

} // namespace ashlar::report
