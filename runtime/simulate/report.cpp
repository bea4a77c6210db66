// SPDX-License-Identifier: Apache-2.0
//
// Sums of a simulation -> text. Shares are of the step; the part of a step that a rank neither computes nor communicates in, it waits.

#include "runtime/simulate/report.h"

#include "runtime/base/json.h"
#include "runtime/comm/view.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace ashlar::rt {
namespace {

constexpr double kPsPerSecond = 1e12;
constexpr size_t kMostCauses = 8, kMostWaits = 8; // lines of a text

// The parameters, states and the rest of a rank's arena.
struct MemoryParts {
  uint64_t parameters = 0, states = 0, slots = 0, others = 0;
};

MemoryParts memoryOf(const ashlar_rt_variant &variant) {
  MemoryParts parts;
  for (uint32_t i = 0; i < variant.num_tensors; ++i) {
    const ashlar_rt_tensor &tensor = variant.tensors[i];
    (tensor.role == ASHLAR_RT_VARIABLE ? parts.parameters : parts.states) +=
        tensor.role == ASHLAR_RT_VARIABLE || tensor.role == ASHLAR_RT_STATE ? tensor.buffer.bytes : 0;
  }
  parts.slots = slotsOf(variant) * variant.slot_bytes;
  const uint64_t known = parts.parameters + parts.states + parts.slots;
  parts.others = variant.arena_bytes - std::min(variant.arena_bytes, known);
  return parts;
}

std::string bytesText(uint64_t bytes) {
  static constexpr const char *kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) {
    value /= 1000;
  }
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

// One collective of the programs of a stage.
struct Cause {
  uint64_t ps = 0, membersPs = 0; // of all ranks that have it, added up
  uint64_t ranks = 0, times = 0;
};

class Reporter {
public:
  explicit Reporter(const SimulationReport &report)
      : report(report), simulation(*report.simulation), stages(report.tables->stages), stepPs(std::max<uint64_t>(simulation.endPs, 1)) {}

  std::string text() const {
    std::string lines = fmt::format("model        {}; target {}; {}\n", report.image->model_name, report.image->target, ranksText());
    for (const std::string &note : report.notes) {
      lines += note + "\n";
    }
    lines +=
        fmt::format("step         {}{}; a rank computes {} of it and waits for others {} on average\n", simulatedTimeText(simulation.endPs),
                    report.plannedPs ? fmt::format(", {:+.1f} % against {}", 100 * (ratio(simulation.endPs, *report.plannedPs) - 1),
                                                   simulatedTimeText(*report.plannedPs))
                                     : "",
                    percent(average(&SimulatedClass::computePs)), percent(waitingShare(simulation)));
    return lines + table() + causes() + (report.lost ? lostText(*report.lost) : "");
  }

  std::string json() const {
    std::string out = fmt::format("{{\n\"model\": {}, \"target\": {}, \"ranks\": {}, \"stages\": {}, \"classes\": {},\n\"step_ns\": {}",
                                  jsonString(report.image->model_name), jsonString(report.image->target), simulation.ranks.ofRank.size(),
                                  stages.size(), simulation.classes.size(), nsText(simulation.endPs));
    if (report.plannedPs) {
      out += fmt::format(", \"step_without_faults_ns\": {}", nsText(*report.plannedPs));
    }
    out += fmt::format(", \"waiting\": {:.6f},\n\"lines\": [", waitingShare(simulation));
    const char *separator = "\n";
    for (const Line &line : lines()) {
      out += separator + jsonLine(line);
      separator = ",\n";
    }
    return out + "]" + (report.lost ? ",\n\"lost_rank\": " + lostJson(*report.lost) : "") + "\n}\n";
  }

private:
  // A class, or one of its ranks.
  struct Line {
    uint32_t rank, ofClass;
    uint64_t ranks;
  };

  static double ratio(uint64_t a, uint64_t b) { return b == 0 ? 1 : static_cast<double>(a) / static_cast<double>(b); }
  static std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
  static std::string nsText(uint64_t ps) { return fmt::format("{}.{:03}", ps / 1000, ps % 1000); }

  std::string ranksText() const {
    const size_t ranks = simulation.ranks.ofRank.size(), classes = simulation.classes.size();
    const std::string inStages = stages.size() == 1 ? "" : fmt::format(" in {} stages", stages.size());
    return fmt::format("{} rank{}{}, {} differ", ranks, ranks == 1 ? "" : "s", inStages, classes);
  }

  double average(uint64_t SimulatedClass::*number) const {
    double sum = 0;
    for (size_t i = 0; i < simulation.classes.size(); ++i) {
      sum += static_cast<double>(simulation.classes[i].*number) * simulation.ranks.classes[i].ranks;
    }
    return sum / static_cast<double>(stepPs) / static_cast<double>(simulation.ranks.ofRank.size());
  }

  std::vector<Line> lines() const {
    std::vector<Line> found;
    for (uint32_t rank : report.ranks) {
      found.push_back({rank, simulation.ranks.ofRank[rank], 1});
    }
    for (uint32_t i = 0; i < simulation.classes.size() && report.ranks.empty(); ++i) {
      found.push_back({simulation.ranks.classes[i].first, i, simulation.ranks.classes[i].ranks});
    }
    return found;
  }

  uint64_t waitingPs(const SimulatedClass &each) const {
    return simulation.endPs - std::min(simulation.endPs, each.computePs + each.exposedPs() + each.receivePs + each.batchPs);
  }

  std::string table() const {
    std::vector<std::vector<std::string>> rows = {
        {"rank", "like it", "stage", "compute", "collectives", "receiving", "data", "waiting", "arena"}};
    for (const Line &line : lines()) {
      const SimulatedClass &each = simulation.classes[line.ofClass];
      const uint32_t stage = simulation.ranks.classes[line.ofClass].stage;
      auto share = [&](uint64_t ps) { return percent(ratio(ps, stepPs)); };
      rows.push_back({std::to_string(line.rank), std::to_string(line.ranks), std::to_string(stage), share(each.computePs),
                      share(each.exposedPs()), share(each.receivePs), share(each.batchPs), share(waitingPs(each)),
                      bytesText(stages[stage].arena_bytes)});
    }
    std::vector<size_t> widths(rows[0].size());
    for (const auto &row : rows) {
      for (size_t i = 0; i < row.size(); ++i) {
        widths[i] = std::max(widths[i], row[i].size());
      }
    }
    std::string out;
    for (const auto &row : rows) {
      std::string line = " ";
      for (size_t i = 0; i < row.size(); ++i) {
        line += fmt::format(" {:<{}} ", row[i], widths[i]);
      }
      out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return out;
  }

  // The collectives that ranks stand still for, by kind and axes, the longest first.
  std::string causes() const {
    std::map<std::string, Cause> sums;
    for (size_t i = 0; i < simulation.classes.size(); ++i) {
      std::set<std::string> seen;
      for (const auto &[place, time] : simulation.classes[i].exposed) {
        const std::string name = groupText(simulation.ranks.classes[i].stage, place);
        Cause &sum = sums[name];
        const uint64_t ranks = simulation.ranks.classes[i].ranks;
        sum.ps += time.ps * ranks;
        sum.membersPs += time.membersPs * ranks;
        sum.times += time.times;
        sum.ranks += seen.insert(name).second ? ranks : 0;
      }
    }
    std::vector<std::pair<std::string, Cause>> sorted(sums.begin(), sums.end());
    std::sort(sorted.begin(), sorted.end(),
              [](const auto &a, const auto &b) { return a.second.ps != b.second.ps ? a.second.ps > b.second.ps : a.first < b.first; });
    std::string out;
    for (size_t i = 0; i < std::min(sorted.size(), kMostCauses); ++i) {
      const Cause &cause = sorted[i].second;
      const double step = static_cast<double>(stepPs) * static_cast<double>(simulation.ranks.ofRank.size());
      out += fmt::format("exposed      {}: {} of the step of all ranks, of it {} until its last member comes\n", sorted[i].first,
                         percent(static_cast<double>(cause.ps) / step), percent(static_cast<double>(cause.membersPs) / step));
    }
    return out;
  }

  const ashlar_rt_instr &instrOf(uint32_t stage, const std::pair<uint32_t, uint32_t> &place) const {
    return stages[stage].programs[place.first].instrs[place.second];
  }

  // "all_reduce over dp, tp".
  std::string groupText(uint32_t stage, const std::pair<uint32_t, uint32_t> &place) const {
    const ashlar_rt_collective_desc &desc = collectiveOf(instrOf(stage, place));
    std::string out = collectiveKindName(desc.kind);
    for (uint32_t i = 0; i < desc.num_axes; ++i) {
      out += fmt::format("{}{}", i == 0 ? " over " : ", ", stages[stage].axes[desc.axes[i]].name);
    }
    return out;
  }

  std::string jsonLine(const Line &line) const {
    const SimulatedClass &each = simulation.classes[line.ofClass];
    const uint32_t stage = simulation.ranks.classes[line.ofClass].stage;
    const MemoryParts memory = memoryOf(stages[stage]);
    std::string out = fmt::format(
        "  {{\"rank\": {}, \"ranks_like_it\": {}, \"stage\": {}, \"compute_ns\": {}, \"collectives_ns\": {}, \"receiving_ns\": {}, "
        "\"message_wait_ns\": {}, \"slot_wait_ns\": {}, \"data_wait_ns\": {}, \"waiting_ns\": {}, \"end_ns\": {},\n   \"memory\": "
        "{{\"arena\": {}, \"parameters\": {}, \"states\": {}, \"slots\": {}, \"others\": {}, \"constants\": {}}},\n   \"exposed\": [",
        line.rank, line.ranks, stage, nsText(each.computePs), nsText(each.exposedPs()), nsText(each.receivePs), nsText(each.messagePs),
        nsText(each.slotPs), nsText(each.batchPs), nsText(waitingPs(each)), nsText(each.endPs), stages[stage].arena_bytes,
        memory.parameters, memory.states, memory.slots, memory.others, report.image->constants_bytes);
    const char *separator = "\n";
    for (const auto &[place, time] : each.exposed) {
      out +=
          fmt::format("{}    {{\"collective\": {}, \"cause\": {}, \"program\": {}, \"times\": {}, \"exposed_ns\": {}, \"members_ns\": {}}}",
                      separator, jsonString(groupText(stage, place)), jsonString(collectiveOf(instrOf(stage, place)).cause),
                      jsonString(stages[stage].programs[place.first].name), time.times, nsText(time.ps), nsText(time.membersPs));
      separator = ",\n";
    }
    return out + "]}";
  }

  // Seconds that the loss costs: the steps since the last checkpoint run again, and the restart.
  double lostSeconds(const LostRank &lost) const {
    return static_cast<double>((lost.step - 1) % lost.checkpointEvery) * stepSeconds() + lost.model.restartSeconds;
  }
  double stepSeconds() const { return static_cast<double>(simulation.endPs) / kPsPerSecond; }
  double intervalSeconds(const LostRank &lost) const { return static_cast<double>(lost.checkpointEvery) * stepSeconds(); }

  static uint64_t stopPs(const SimulatedClass &each) { return each.runs.empty() ? 0 : each.runs.back().end; }

  // The classes that stand still: those that wait for the lost rank first, then by time.
  static std::vector<size_t> standingStill(const LostRank &lost) {
    std::vector<size_t> order;
    for (size_t i = 0; i < lost.standstill.classes.size(); ++i) {
      if (!lost.standstill.classes[i].standsStill.empty()) {
        order.push_back(i);
      }
    }
    auto key = [&](size_t i) {
      const SimulatedClass &each = lost.standstill.classes[i];
      return std::tuple(awaitedRank(lost, each) != lost.rank, stopPs(each), i);
    };
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
    return order;
  }

  std::string lostText(const LostRank &lost) const {
    std::string out = fmt::format("lost         rank {} in step {}: {} steps again and a restart of {:.0f} s, {:.1f} s in all\n", lost.rank,
                                  lost.step, (lost.step - 1) % lost.checkpointEvery, lost.model.restartSeconds, lostSeconds(lost));
    const std::vector<size_t> order = standingStill(lost);
    for (size_t i = 0; i < std::min(order.size(), kMostWaits); ++i) {
      const SimulatedClass &each = lost.standstill.classes[order[i]];
      const RankClasses::Class &ranks = lost.standstill.ranks.classes[order[i]];
      out += fmt::format("             rank {}{} stops after {}: {}, waits for rank {}\n", ranks.first,
                         ranks.ranks > 1 ? fmt::format(" and {} like it", ranks.ranks - 1) : "", simulatedTimeText(stopPs(each)),
                         each.standsStill, awaitedRank(lost, each));
    }
    out += order.size() > kMostWaits ? fmt::format("             and ranks of {} other classes\n", order.size() - kMostWaits) : "";
    if (lost.model.failuresPerDay == 0) {
      return out;
    }
    return out + fmt::format("goodput      {} with {} failures a day and a checkpoint every {} steps ({:.0f} s)\n"
                             "             best: every {:.0f} s by Young, {:.0f} s by Daly, {} steps: goodput {}\n",
                             percent(goodput(lost.model, intervalSeconds(lost))), lost.model.failuresPerDay, lost.checkpointEvery,
                             intervalSeconds(lost), youngInterval(lost.model), dalyInterval(lost.model), bestSteps(lost),
                             percent(goodput(lost.model, static_cast<double>(bestSteps(lost)) * stepSeconds())));
  }

  uint64_t bestSteps(const LostRank &lost) const {
    return static_cast<uint64_t>(std::max(1.0, dalyInterval(lost.model) / stepSeconds() + 0.5));
  }

  // The lost rank where it is among the ranks that are awaited, else the first of them.
  static uint32_t awaitedRank(const LostRank &lost, const SimulatedClass &each) {
    const RankClasses &ranks = lost.standstill.ranks;
    for (uint32_t awaited : each.standstill.awaits) {
      if (awaited == ranks.ofRank[lost.rank]) {
        return lost.rank;
      }
    }
    return ranks.classes[each.standstill.awaits.front()].first;
  }

  std::string lostJson(const LostRank &lost) const {
    std::string out = fmt::format("{{\"rank\": {}, \"step\": {}, \"steps_again\": {}, \"seconds\": {:.3f}, \"stand_still\": [", lost.rank,
                                  lost.step, (lost.step - 1) % lost.checkpointEvery, lostSeconds(lost));
    const char *separator = "\n";
    for (size_t i : standingStill(lost)) {
      const SimulatedClass &each = lost.standstill.classes[i];
      out += fmt::format("{}  {{\"rank\": {}, \"ranks_like_it\": {}, \"after_ns\": {}, \"at\": {}, \"waits_for\": {}}}", separator,
                         lost.standstill.ranks.classes[i].first, lost.standstill.ranks.classes[i].ranks, nsText(stopPs(each)),
                         jsonString(each.standsStill), awaitedRank(lost, each));
      separator = ",\n";
    }
    out += "]";
    if (lost.model.failuresPerDay != 0) {
      out += fmt::format(
          ", \"goodput\": {:.6f}, \"young_seconds\": {:.3f}, \"daly_seconds\": {:.3f}, \"best_steps\": {}, \"best_goodput\": {:.6f}",
          goodput(lost.model, intervalSeconds(lost)), youngInterval(lost.model), dalyInterval(lost.model), bestSteps(lost),
          goodput(lost.model, static_cast<double>(bestSteps(lost)) * stepSeconds()));
    }
    return out + "}";
  }

  const SimulationReport &report;
  const Simulation &simulation;
  const Stages &stages;
  const uint64_t stepPs;
};

} // namespace

std::string simulatedTimeText(uint64_t ps) {
  static constexpr const char *kUnits[] = {"ns", "us", "ms", "s"};
  double value = static_cast<double>(ps) / 1000;
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) {
    value /= 1000;
  }
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

double waitingShare(const Simulation &simulation) {
  double sum = 0;
  for (size_t i = 0; i < simulation.classes.size(); ++i) {
    const SimulatedClass &each = simulation.classes[i];
    const uint64_t busy = each.computePs + each.exposedPs() + each.receivePs + each.batchPs;
    sum += static_cast<double>(simulation.endPs - std::min(simulation.endPs, busy)) * simulation.ranks.classes[i].ranks;
  }
  return simulation.endPs == 0 ? 0 : sum / static_cast<double>(simulation.endPs) / static_cast<double>(simulation.ranks.ofRank.size());
}

std::string simulationText(const SimulationReport &report) {
  return Reporter(report).text();
}

std::string simulationJson(const SimulationReport &report) {
  return Reporter(report).json();
}

} // namespace ashlar::rt
