// SPDX-License-Identifier: Apache-2.0
//
// Events of Chrome's trace-event format -> tracks.

#include "compiler/report/page/measured_run.h"

#include "compiler/report/page/page_json.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace ashlar::report {
namespace {

using llvm::StringRef;
using llvm::json::Object;

// A track of a process, and its slices in the order of the file.
struct Track {
  std::string process, label, name;
  std::vector<int64_t> category, title, step, microBatch, beginPs, endPs;
};

int64_t picoseconds(double microseconds) {
  constexpr double kPsPerUs = 1e6;
  return std::llround(microseconds * kPsPerUs);
}

class RunReader {
public:
  // Returns false at an event without the fields of its phase.
  bool add(const Object &event) {
    const std::optional<StringRef> phase = event.getString("ph"), name = event.getString("name");
    const std::optional<int64_t> process = event.getInteger("pid"), thread = event.getInteger("tid");
    if (!phase || !name || !process || !thread) {
      return false;
    }
    const Object *args = event.getObject("args");
    if (*phase == "M") {
      return addName(*name, *process, *thread, args);
    }
    const std::optional<double> begin = event.getNumber("ts"), duration = event.getNumber("dur");
    if (*phase != "X") {
      return true; // arrows
    }
    if (!begin || !duration) {
      return false;
    }
    Track &track = tracks[{*process, *thread}];
    track.category.push_back(names.add(event.getString("cat").value_or("")));
    track.title.push_back(names.add(*name));
    track.step.push_back(args ? args->getInteger("step").value_or(-1) : -1);
    track.microBatch.push_back(args ? args->getInteger("micro_batch").value_or(-1) : -1);
    track.beginPs.push_back(picoseconds(*begin));
    track.endPs.push_back(picoseconds(*begin + *duration));
    if (names.texts()[track.category.back()] == "step") {
      stepSumPs += track.endPs.back() - track.beginPs.back();
      ++steps;
    }
    return true;
  }

  std::string write(const Object &facts) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvm::json::OStream out(stream);
    out.object([&] {
      out.attribute("first_step", facts.getInteger("first_step").value_or(1));
      out.attribute("steps", facts.getInteger("steps").value_or(0));
      out.attribute("ranks", facts.getArray("ranks") ? static_cast<int64_t>(facts.getArray("ranks")->size()) : 0);
      if (steps > 0) {
        constexpr double kPsPerNs = 1000;
        out.attribute("step_ns", static_cast<double>(stepSumPs / steps) / kPsPerNs);
      }
      writeTextColumn(out, "names", names.texts());
      out.attributeArray("tracks", [&] {
        for (const auto &each : tracks) {
          if (!each.second.beginPs.empty()) {
            out.object([&] { writeTrack(out, each.first.first, each.second); });
          }
        }
      });
    });
    return text;
  }

private:
  bool addName(StringRef kind, int64_t process, int64_t thread, const Object *args) {
    const auto text = args ? args->getString(kind == "process_labels" ? "labels" : "name") : std::nullopt;
    if (kind == "process_name" || kind == "process_labels") {
      (kind == "process_name" ? processes : labels)[process] = text.value_or("").str();
    } else if (kind == "thread_name") {
      tracks[{process, thread}].name = text.value_or("").str();
    }
    return true;
  }

  void writeTrack(llvm::json::OStream &out, int64_t process, const Track &track) {
    out.attribute("process", llvm::json::fixUTF8(processes[process]));
    out.attribute("label", llvm::json::fixUTF8(labels[process]));
    out.attribute("name", llvm::json::fixUTF8(track.name));
    writeColumn(out, "category", track.category);
    writeColumn(out, "title", track.title);
    writeColumn(out, "step", track.step);
    writeColumn(out, "micro_batch", track.microBatch);
    writeTimes(out, "begin_ns", track.beginPs);
    writeTimes(out, "end_ns", track.endPs);
  }

  std::map<std::pair<int64_t, int64_t>, Track> tracks; // by process and thread: in the order of the picture
  std::map<int64_t, std::string> processes, labels;
  TextTable names;
  int64_t stepSumPs = 0, steps = 0;
};

// The lines of a plan that describe the default variant itself: predicted times also depend on constants of the machine.
llvm::SmallVector<StringRef> linesOf(StringRef plan) {
  llvm::SmallVector<StringRef> all, lines;
  plan.split(all, '\n');
  StringRef subject;
  for (StringRef line : all) {
    const bool begins = !line.starts_with(" ");
    subject = begins ? line.split(' ').first : subject;
    if (subject == "pipeline" ? begins : !llvm::is_contained({"determinism", "overlap", "timeline"}, subject)) {
      lines.push_back(subject == "pipeline" ? line.split(';').first : line);
    }
  }
  return lines;
}

// "mesh dp=4, 4 devices; 4 ranks", of a line of a plan, whose texts stand below each other.
std::string quoted(StringRef line) {
  const auto [subject, fact] = line.split(' ');
  return ("\"" + subject + (subject.empty() ? "" : " ") + fact.trim() + "\"").str();
}

} // namespace

llvm::Expected<std::string> measuredRun(StringRef text, StringRef path, StringRef plan) {
  auto refuse = [&](const llvm::Twine &fact) {
    return llvm::createStringError("--trace " + path + ": " + fact + "; name a file that --trace of the executable wrote");
  };
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
  if (!parsed) {
    return refuse(llvm::toString(parsed.takeError()));
  }
  const Object *trace = parsed->getAsObject();
  const llvm::json::Array *events = trace ? trace->getArray("traceEvents") : nullptr;
  const Object *facts = trace ? trace->getObject("otherData") : nullptr;
  if (!events || !facts || !facts->getString("plan")) {
    return refuse("it has no traceEvents, or no otherData with a plan");
  }
  llvm::SmallVector<StringRef> run = linesOf(*facts->getString("plan")), mine = linesOf(plan);
  run.resize(std::max(run.size(), mine.size()));
  mine.resize(run.size());
  for (auto [theirs, own] : llvm::zip_equal(run, mine)) {
    if (theirs != own) {
      return refuse("it is a run of another plan, with " + quoted(theirs) + ", and this plan has " + quoted(own));
    }
  }
  RunReader reader;
  for (auto [number, event] : llvm::enumerate(*events)) {
    if (!event.getAsObject() || !reader.add(*event.getAsObject())) {
      return refuse("event " + llvm::Twine(number) + " has no phase, name, process, thread or time");
    }
  }
  return reader.write(*facts);
}

} // namespace ashlar::report
