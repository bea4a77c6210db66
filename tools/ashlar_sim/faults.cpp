// SPDX-License-Identifier: Apache-2.0
//
// Texts of the command line -> faults and ranks.

#include "tools/ashlar_sim/faults.h"

#include "runtime/comm/mesh.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace ashlar::sim {
namespace {

constexpr double kLeastFactor = 0.001, kMostFactor = 1000;
constexpr std::string_view kIntraHost = "intra_host", kInterHost = "inter_host", kInterPod = "inter_pod";

template <typename Number> bool read(std::string_view text, Number &number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

rt::Status noSuchRank(std::string_view where, uint32_t rank, uint32_t ranks) {
  return rt::invalid("{}: the program has no rank {}; its {} ranks are 0 to {}", where, rank, ranks, ranks - 1);
}

// Splits "KEY<separator>REST" at the last separator.
bool split(std::string_view text, char separator, std::string_view &key, std::string_view &rest) {
  const size_t at = text.rfind(separator);
  if (at == std::string_view::npos) {
    return false;
  }
  key = text.substr(0, at), rest = text.substr(at + 1);
  return true;
}

class FaultReader {
public:
  FaultReader(const rt::Stages &stages, const rt::SimulatedMachine &machine, uint32_t ranks, rt::SimulatedFaults &faults,
              std::optional<LostRank> &lost)
      : stages(stages), machine(machine), ranks(ranks), faults(faults), lost(lost) {}

  rt::Status read(const std::string &text) {
    const std::string where = "--fault " + text;
    const size_t at = text.find('=');
    const std::string name = text.substr(0, at), value = at == std::string::npos ? "" : text.substr(at + 1);
    std::string_view key, rest;
    if (name == "lost-rank") {
      LostRank found = {};
      if (!split(value, '@', key, rest) || !sim::read(key, found.rank) || !sim::read(rest, found.step) || found.step == 0) {
        return rt::invalid("{}: is not RANK@STEP with a step from 1 on, such as lost-rank=17@120", where);
      }
      if (lost) {
        return rt::invalid("{}: rank {} is lost already; give one lost-rank", where, lost->rank);
      }
      lost = found;
      return found.rank < ranks ? rt::Status() : noSuchRank(where, found.rank, ranks);
    }
    if (name != "slow-rank" && name != "slow-link") {
      return rt::invalid("{}: there are slow-rank=RANK:FACTOR, slow-link=AXIS_OR_CLASS:FACTOR and lost-rank=RANK@STEP", where);
    }
    double factor = 0;
    if (!split(value, ':', key, rest) || !sim::read(rest, factor) || !(factor >= kLeastFactor && factor <= kMostFactor)) {
      return rt::invalid("{}: has no factor of the time from {} to {}; write {}={}:1.5", where, kLeastFactor, kMostFactor, name,
                         name == "slow-rank" ? "17" : "dp");
    }
    return name == "slow-rank" ? slowRank(where, key, factor) : slowLink(where, std::string(key), factor);
  }

private:
  rt::Status slowRank(const std::string &where, std::string_view key, double factor) {
    uint32_t rank = 0;
    if (!sim::read(key, rank)) {
      return rt::invalid("{}: \"{}\" is no rank; write slow-rank=17:1.5", where, key);
    }
    faults.slowRanks[rank] = factor;
    return rank < ranks ? rt::Status() : noSuchRank(where, rank, ranks);
  }

  // The class of the link between two ranks.
  std::string_view linkBetween(uint64_t one, uint64_t other) const {
    return machine.hostOf(one) == machine.hostOf(other) ? kIntraHost : machine.podOf(one) == machine.podOf(other) ? kInterHost : kInterPod;
  }

  // Returns the class of links that groups along an axis go by: the farthest between two ranks of one, in any stage.
  std::string_view linkOfAxis(uint32_t axis) const {
    std::string_view farthest = kIntraHost;
    for (const ashlar_rt_variant &stage : stages) {
      const rt::Mesh mesh(stage);
      for (const rt::Group &group : mesh.groups(&axis, 1)) {
        for (int device : group) {
          farthest = farther(
              farthest, linkBetween(static_cast<uint64_t>(mesh.processOf(group.front())), static_cast<uint64_t>(mesh.processOf(device))));
        }
      }
    }
    return farthest;
  }

  // Returns the class of links that messages to the next stage go by.
  std::string_view linkOfStages() const {
    const uint32_t perStage = ranks / stages.size();
    std::string_view farthest = kIntraHost;
    for (uint32_t rank = 0; rank + perStage < ranks; ++rank) {
      farthest = farther(farthest, linkBetween(rank, rank + perStage));
    }
    return farthest;
  }

  static std::string_view farther(std::string_view one, std::string_view other) {
    return one == kInterPod || other == kInterPod ? kInterPod : one == kInterHost ? one : other;
  }

  rt::Status slowLink(const std::string &where, const std::string &key, double factor) {
    const ashlar_rt_variant &first = stages[0];
    faults.slowAxes.resize(first.num_axes, 1);
    bool isUsed = false;
    std::string names;
    for (uint32_t axis = 0; axis < first.num_axes; ++axis) {
      names += fmt::format("\"{}\", ", first.axes[axis].name);
      if (key == first.axes[axis].name || key == linkOfAxis(axis)) {
        faults.slowAxes[axis] = factor;
        isUsed = true;
      }
    }
    if (stages.size() > 1 && (key == "stages" || key == linkOfStages())) {
      faults.slowMessages = factor;
      isUsed = true;
    }
    if (!isUsed) {
      return rt::invalid("{}: nothing goes over links of \"{}\"; there are {}{}\"{}\"{}", where, key, names,
                         stages.size() > 1 ? "\"stages\", " : "", kIntraHost,
                         machine.hostsPerPod == 0 ? " and \"inter_host\"" : ", \"inter_host\" and \"inter_pod\"");
    }
    return rt::Status();
  }

  const rt::Stages &stages;
  const rt::SimulatedMachine &machine;
  const uint32_t ranks;
  rt::SimulatedFaults &faults;
  std::optional<LostRank> &lost;
};

} // namespace

rt::Status readFaults(const std::vector<std::string> &texts, const rt::Stages &stages, const rt::SimulatedMachine &machine, uint32_t ranks,
                      rt::SimulatedFaults &faults, std::optional<LostRank> &lost) {
  FaultReader reader(stages, machine, ranks, faults, lost);
  for (const std::string &text : texts) {
    ASHLAR_RETURN_IF_ERROR(reader.read(text));
  }
  return rt::Status();
}

rt::Status readRanks(const std::string &text, uint32_t ranks, std::vector<uint32_t> &found) {
  const std::string_view list = text == "all" ? std::string_view() : std::string_view(text);
  for (uint32_t rank = 0; rank < ranks && list.empty(); ++rank) {
    found.push_back(rank);
  }
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string_view part = list.substr(at, end - at);
    std::string_view from = part, to = part;
    split(part, '-', from, to);
    uint32_t first = 0, last = 0;
    if (!read(from, first) || !read(to, last) || last < first) {
      return rt::invalid("--ranks {}: \"{}\" is no rank and no range of ranks; write all, or such as 0,8-15", text, part);
    }
    if (last >= ranks) {
      return noSuchRank("--ranks " + text, last, ranks);
    }
    for (uint32_t rank = first; rank <= last; ++rank) {
      found.push_back(rank);
    }
    at = end + 1;
  }
  return rt::Status();
}

} // namespace ashlar::sim
