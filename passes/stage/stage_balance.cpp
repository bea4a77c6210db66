// SPDX-License-Identifier: Apache-2.0
//
// From left to right, the cheapest cuts ahead of each place where one may stand.

#include "passes/stage/stage_balance.h"

#include <algorithm>
#include <limits>

namespace ashlar::stage {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class Balance {
public:
  explicit Balance(const CutProblem &problem) : problem(problem), before(problem.timePs.size() + 1, 0) {
    places.push_back(0);
    for (size_t op = 0; op < problem.timePs.size(); ++op) {
      before[op + 1] = before[op] + static_cast<double>(problem.timePs[op]);
      if (op > 0 && !problem.isForbidden[op]) {
        places.push_back(op);
      }
    }
  }

  std::vector<int64_t> run() const {
    const size_t cuts = problem.stages - 1, count = places.size();
    // By number of cuts and the place of the last one.
    std::vector<std::vector<double>> costs(cuts + 1, std::vector<double>(count, kNever));
    std::vector<std::vector<size_t>> previous(cuts + 1, std::vector<size_t>(count, 0));
    costs[0][0] = 0;
    for (size_t cut = 1; cut <= cuts; ++cut) {
      for (size_t at = cut; at < count; ++at) {
        bool mayStand = places[at] >= problem.least[cut - 1] && places[at] <= problem.most[cut - 1];
        for (size_t last = cut - 1; mayStand && last < at; ++last) {
          double cost = costs[cut - 1][last] + costOf(places[last], places[at]) + static_cast<double>(problem.crossingPs[places[at]]);
          if (cost < costs[cut][at]) {
            costs[cut][at] = cost;
            previous[cut][at] = last;
          }
        }
      }
    }
    size_t best = 0;
    double least = kNever;
    for (size_t at = 0; at < count; ++at) {
      double cost = costs[cuts][at] + costOf(places[at], problem.timePs.size());
      if (cost < least) {
        least = cost;
        best = at;
      }
    }
    std::vector<int64_t> result;
    for (size_t cut = cuts; cut > 0 && least < kNever; --cut) {
      result.insert(result.begin(), places[best]);
      best = previous[cut][best];
    }
    return result;
  }

private:
  double costOf(int64_t begin, int64_t end) const {
    double time = before[end] - before[begin], share = before.back() / static_cast<double>(problem.stages);
    return share > 0 ? time * time / share : 0;
  }

  const CutProblem &problem;
  std::vector<double> before;  // by place: the time of all ops ahead of it
  std::vector<int64_t> places; // 0, and where a cut may stand
};

} // namespace

std::vector<int64_t> balanceStages(const CutProblem &problem) {
  return Balance(problem).run();
}

} // namespace ashlar::stage
