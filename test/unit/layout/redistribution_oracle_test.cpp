// SPDX-License-Identifier: Apache-2.0
//
// The planner against an exhaustive search that knows nothing of layouts: it moves what devices hold. A state is, for each device, the list
// of global indices it holds in each dim (-1: padding) and the terms of the sum it has; a step is done on these lists. Layouts only say
// which states there are. What is shared with the planner is the cost of one collective.

#include "passes/analysis/planner/redistribution.h"

#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/IR/BuiltinTypes.h"

#include <catch2/catch.hpp>
#include <map>
#include <queue>
#include <set>

namespace ashlar::test::redistribution_oracle_test {

using namespace mlir;

namespace {

using analysis::Link;
using dist::Layout;
using Axes = std::vector<int>; // by number, major to minor

constexpr int64_t kElementBytes = 4;

// What one device holds. Terms are bits: device t of the mesh contributed term t.
struct Content {
  std::vector<std::vector<int>> dims;
  uint32_t terms;

  auto key() const { return std::tie(dims, terms); }
  bool operator<(const Content &other) const { return key() < other.key(); }
  bool operator==(const Content &other) const { return key() == other.key(); }
};

using State = std::vector<Content>; // one a device

int64_t bytesOf(const Content &content) {
  int64_t bytes = kElementBytes;
  for (const std::vector<int> &indices : content.dims) {
    bytes *= static_cast<int64_t>(indices.size());
  }
  return bytes;
}

// A mesh by the sizes of its axes, the last one minor.
struct Grid {
  std::vector<int> sizes;

  int devices() const {
    int count = 1;
    for (int size : sizes) {
      count *= size;
    }
    return count;
  }
  int groupSize(const Axes &axes) const {
    int count = 1;
    for (int axis : axes) {
      count *= sizes[axis];
    }
    return count;
  }
  std::vector<int> coordinates(int device) const {
    std::vector<int> at(sizes.size());
    for (size_t axis = sizes.size(); axis-- > 0; device /= sizes[axis]) {
      at[axis] = device % sizes[axis];
    }
    return at;
  }
  int deviceAt(const std::vector<int> &at) const {
    int device = 0;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      device = device * sizes[axis] + at[axis];
    }
    return device;
  }
  // Returns the number of a device in its group, and the members of that group in order.
  std::pair<int, std::vector<int>> groupOf(int device, const Axes &axes) const {
    std::vector<int> members;
    std::vector<int> at = coordinates(device);
    for (int number = 0; number < groupSize(axes); ++number) {
      int rest = number;
      for (size_t i = axes.size(); i-- > 0; rest /= sizes[axes[i]]) {
        at[axes[i]] = rest % sizes[axes[i]];
      }
      members.push_back(deviceAt(at));
    }
    int own = static_cast<int>(std::find(members.begin(), members.end(), device) - members.begin());
    return {own, members};
  }
};

// The n-th of `count` equal pieces of a list, padded.
std::vector<int> chunkOf(const std::vector<int> &list, int n, int count) {
  size_t size = (list.size() + count - 1) / count;
  std::vector<int> piece(size, -1);
  for (size_t i = 0; i < size && n * size + i < list.size(); ++i) {
    piece[i] = list[n * size + i];
  }
  return piece;
}

// Each of these returns the state after a step, or nothing when it would lose or repeat something.

std::optional<State> slice(const Grid &grid, const State &state, const Axes &axes, size_t dim) {
  State next = state;
  for (size_t device = 0; device < state.size(); ++device) {
    auto [own, members] = grid.groupOf(device, axes);
    if (!llvm::all_of(members, [&, &members = members](int member) { return state[member] == state[members[0]]; })) {
      return std::nullopt;
    }
    next[device].dims[dim] = chunkOf(state[device].dims[dim], own, static_cast<int>(members.size()));
  }
  return next;
}

std::optional<State> gather(const Grid &grid, const State &state, const Axes &axes, size_t dim) {
  State next = state;
  size_t longest = 0;
  for (size_t device = 0; device < state.size(); ++device) {
    std::vector<int> &joined = next[device].dims[dim];
    joined.clear();
    for (int member : grid.groupOf(device, axes).second) {
      Content other = state[member];
      other.dims[dim] = state[device].dims[dim];
      if (!(other == state[device])) {
        return std::nullopt;
      }
      joined.insert(joined.end(), state[member].dims[dim].begin(), state[member].dims[dim].end());
    }
    size_t length = joined.size();
    while (length > 0 && joined[length - 1] == -1) {
      --length;
    }
    longest = std::max(longest, length);
  }
  for (Content &content : next) { // padding at the end of all goes
    content.dims[dim].resize(longest);
  }
  return next;
}

std::optional<State> reduce(const Grid &grid, const State &state, const Axes &axes) {
  State next = state;
  for (size_t device = 0; device < state.size(); ++device) {
    uint32_t terms = 0;
    for (int member : grid.groupOf(device, axes).second) {
      if (state[member].dims != state[device].dims || (terms & state[member].terms) != 0) {
        return std::nullopt;
      }
      terms |= state[member].terms;
    }
    next[device].terms = terms;
  }
  return next;
}

std::optional<State> allToAll(const Grid &grid, const State &state, const Axes &axes, size_t splitDim, size_t concatDim) {
  std::optional<State> joined = gather(grid, state, axes, concatDim);
  return joined ? slice(grid, *joined, axes, splitDim) : std::nullopt;
}

std::optional<State> reduceScatter(const Grid &grid, const State &state, const Axes &axes, size_t dim) {
  std::optional<State> reduced = reduce(grid, state, axes);
  return reduced ? slice(grid, *reduced, axes, dim) : std::nullopt;
}

// Returns whether devices of each group over the axes can exchange what they hold so that `from` becomes `to`.
bool canPermute(const Grid &grid, const State &from, const State &to, const Axes &axes) {
  for (size_t device = 0; device < from.size(); ++device) {
    std::multiset<Content> before, after;
    for (int member : grid.groupOf(device, axes).second) {
      before.insert(from[member]);
      after.insert(to[member]);
    }
    if (before != after) {
      return false;
    }
  }
  return true;
}

// A layout on axes by number, and the state it stands for.
struct Place {
  std::vector<Axes> dims;
  uint32_t partial = 0, used = 0; // bits of axes
  uint32_t uneven = 0;            // bits of dims
  int64_t bytes = 0;
  Layout layout;
};

struct Edge {
  int to;
  CollectiveKind kind;
  bool isFree; // a slice
  Axes axes;
};

// All states of a tensor on a mesh, and all steps between them.
class StateGraph {
public:
  StateGraph(std::vector<int> sizes, std::vector<int64_t> shape) : grid{std::move(sizes)}, shape(std::move(shape)) {
    Place place;
    place.dims.resize(this->shape.size());
    addPlaces(place);
    edges.resize(places.size());
    forEachList(Axes(), [&](const Axes &axes) { lists.push_back(axes); });
    for (size_t i = 0; i < places.size(); ++i) {
      addEdges(i);
    }
  }

  dist::MeshAttr mesh() const {
    std::vector<std::pair<StringRef, int64_t>> axes;
    for (size_t axis = 0; axis < grid.sizes.size(); ++axis) {
      axes.push_back({kNames[axis], grid.sizes[axis]});
    }
    return meshOf(context(), axes);
  }

  Grid grid;
  std::vector<int64_t> shape;
  std::vector<Place> places;
  std::vector<std::vector<Edge>> edges;

private:
  static constexpr const char *kNames[] = {"a", "b", "c"};
  static StringAttr nameOf(size_t axis) { return StringAttr::get(&context(), kNames[axis]); }

  // Adds the layouts that extend `place`, each once: the axis put in is any for a dim, but for partial none comes after a greater one.
  void addPlaces(const Place &place) {
    if (!addPlace(place)) {
      return;
    }
    for (size_t axis = 0; axis < grid.sizes.size(); ++axis) {
      if (place.used >> axis & 1) {
        continue;
      }
      Place next = place;
      next.used |= 1u << axis;
      next.partial |= 1u << axis;
      addPlaces(next);
      next.partial = place.partial;
      for (size_t d = 0; d < shape.size(); ++d) {
        next.dims = place.dims;
        next.dims[d].push_back(static_cast<int>(axis));
        addPlaces(next);
      }
    }
  }

  // Returns false when the layout is there already.
  bool addPlace(Place place) {
    State state = stateOf(place);
    place.layout = Layout::replicated(shape.size());
    for (size_t d = 0; d < shape.size(); ++d) {
      for (int axis : place.dims[d]) {
        place.layout.dims[d].push_back(nameOf(axis));
      }
      place.uneven |= shape[d] % grid.groupSize(place.dims[d]) != 0 ? 1u << d : 0;
    }
    for (size_t axis = 0; axis < grid.sizes.size(); ++axis) {
      if (place.partial >> axis & 1) {
        place.layout.partial.push_back(nameOf(axis));
      }
    }
    place.bytes = bytesOf(state[0]);
    auto [entry, isNew] = numberOf.try_emplace(state, places.size());
    if (!isNew) {
      REQUIRE(places[entry->second].layout == place.layout); // or the oracle would know ways that the planner cannot
      return false;
    }
    states.push_back(state);
    places.push_back(place);
    return true;
  }

  State stateOf(const Place &place) const {
    State state;
    for (int device = 0; device < grid.devices(); ++device) {
      std::vector<int> at = grid.coordinates(device);
      Content content;
      for (size_t d = 0; d < shape.size(); ++d) {
        std::vector<int> indices;
        for (int i = 0; i < shape[d]; ++i) {
          indices.push_back(i);
        }
        for (int axis : place.dims[d]) {
          indices = chunkOf(indices, at[axis], grid.sizes[axis]);
        }
        content.dims.push_back(indices);
      }
      content.terms = 0;
      for (int term = 0; term < grid.devices(); ++term) {
        bool has = true;
        for (size_t axis = 0; axis < grid.sizes.size(); ++axis) {
          has &= !(place.partial >> axis & 1) || grid.coordinates(term)[axis] == at[axis];
        }
        content.terms |= has ? 1u << term : 0;
      }
      state.push_back(content);
    }
    return state;
  }

  void forEachList(const Axes &begin, llvm::function_ref<void(const Axes &)> body) const {
    for (size_t axis = 0; axis < grid.sizes.size(); ++axis) {
      if (!llvm::is_contained(begin, static_cast<int>(axis))) {
        Axes axes = begin;
        axes.push_back(static_cast<int>(axis));
        body(axes);
        forEachList(axes, body);
      }
    }
  }

  void addEdge(int from, const std::optional<State> &state, CollectiveKind kind, bool isFree, const Axes &axes) {
    auto found = state ? numberOf.find(*state) : numberOf.end();
    if (found != numberOf.end() && found->second != from) {
      edges[from].push_back({found->second, kind, isFree, axes});
    }
  }

  void addEdges(int from) {
    const State &state = states[from];
    for (const Axes &axes : lists) {
      if (llvm::is_sorted(axes)) {
        addEdge(from, reduce(grid, state, axes), CollectiveKind::AllReduce, false, axes);
      }
      for (size_t d = 0; d < shape.size(); ++d) {
        addEdge(from, slice(grid, state, axes, d), CollectiveKind::AllGather, /*isFree=*/true, axes);
        addEdge(from, gather(grid, state, axes, d), CollectiveKind::AllGather, false, axes);
        addEdge(from, reduceScatter(grid, state, axes, d), CollectiveKind::ReduceScatter, false, axes);
        for (size_t e = 0; e < shape.size(); ++e) {
          if (e != d) {
            addEdge(from, allToAll(grid, state, axes, e, d), CollectiveKind::AllToAll, false, axes);
          }
        }
      }
    }
    for (size_t to = 0; to < states.size(); ++to) {
      if (static_cast<int>(to) == from || places[to].bytes != places[from].bytes || places[to].partial != places[from].partial) {
        continue;
      }
      for (const Axes &axes : lists) {
        if (llvm::is_sorted(axes) && canPermute(grid, state, states[to], axes)) {
          edges[from].push_back({static_cast<int>(to), CollectiveKind::Permute, false, axes});
        }
      }
    }
  }

  std::vector<Axes> lists;
  std::vector<State> states;
  std::map<State, int> numberOf;
};

// Which states a way may pass.
struct Limits {
  uint32_t axes, permuted, uneven; // bits of axes that may be used, of those that permutes may move, of dims that may be split unevenly
  int64_t bytes;

  auto key() const { return std::tie(axes, permuted, uneven, bytes); }
  bool operator<(const Limits &other) const { return key() < other.key(); }
  bool allows(const Place &place) const { return !(place.used & ~axes) && !(place.uneven & ~uneven) && place.bytes <= bytes; }
};

constexpr int64_t kUnreachable = std::numeric_limits<int64_t>::max();

// The steps of a graph with their times.
class TimedGraph {
public:
  TimedGraph(const StateGraph &graph, ArrayRef<Link> links) : graph(graph) {
    for (size_t from = 0; from < graph.places.size(); ++from) {
      std::map<std::pair<int, uint32_t>, int64_t> shortest;
      for (const Edge &edge : graph.edges[from]) {
        uint32_t moved = 0;
        for (int axis : edge.axes) {
          moved |= edge.kind == CollectiveKind::Permute ? 1u << axis : 0;
        }
        int64_t time = timeOf(edge, graph.places[from].bytes, links);
        auto [entry, isNew] = shortest.try_emplace({edge.to, moved}, time);
        entry->second = std::min(entry->second, time);
      }
      edges.emplace_back(shortest.begin(), shortest.end());
    }
  }

  // Returns the shortest times from a state to all.
  std::vector<int64_t> search(int from, const Limits &limits) const {
    std::vector<int64_t> times(graph.places.size(), kUnreachable);
    std::queue<int> open;
    std::vector<bool> isOpen(times.size());
    times[from] = 0;
    open.push(from);
    while (!open.empty()) {
      int at = open.front();
      open.pop();
      isOpen[at] = false;
      for (const auto &[end, time] : edges[at]) {
        auto [to, moved] = end;
        if (times[at] + time < times[to] && !(moved & ~limits.permuted) && limits.allows(graph.places[to])) {
          times[to] = times[at] + time;
          if (!isOpen[to]) {
            open.push(to);
            isOpen[to] = true;
          }
        }
      }
    }
    return times;
  }

private:
  int64_t timeOf(const Edge &edge, int64_t bytes, ArrayRef<Link> links) const {
    if (edge.isFree) {
      return 0;
    }
    Link link = links[edge.axes.front()];
    for (int axis : edge.axes) {
      link = link.worse(links[axis]);
    }
    return analysis::collectiveTimePs(edge.kind, bytes, graph.grid.groupSize(edge.axes), link);
  }

  const StateGraph &graph;
  // From each state: to which, the axes that a permute moves, and the time.
  std::vector<std::vector<std::pair<std::pair<int, uint32_t>, int64_t>>> edges;
};

// Returns the axes that may serve between two places: those in use, and idle ones that are faster than one of them.
uint32_t servingAxes(const Place &from, const Place &to, ArrayRef<Link> links) {
  uint32_t used = from.used | to.used, serving = used;
  for (size_t idle = 0; idle < links.size(); ++idle) {
    for (size_t axis = 0; axis < links.size(); ++axis) {
      serving |= (used >> axis & 1) && links[idle].isFasterThan(links[axis]) ? 1u << idle : 0;
    }
  }
  return serving;
}

// Compares the planner with the search for all pairs of layouts; returns how many there were.
int64_t compareAll(const StateGraph &graph, ArrayRef<Link> links) {
  analysis::Planner planner(graph.mesh(), analysis::costsOf(&context(), links));
  auto type = RankedTensorType::get(graph.shape, Float32Type::get(&context()));
  TimedGraph timed(graph, links);
  int64_t pairs = 0;
  for (size_t from = 0; from < graph.places.size(); ++from) {
    std::map<Limits, std::vector<int64_t>> searched;
    auto timesWithin = [&](const Limits &limits) -> const std::vector<int64_t> & {
      auto [entry, isNew] = searched.try_emplace(limits);
      return isNew ? entry->second = timed.search(from, limits) : entry->second;
    };
    const Place &source = graph.places[from];
    for (size_t to = 0; to < graph.places.size(); ++to) {
      const Place &target = graph.places[to];
      if (target.partial & ~source.partial) {
        continue;
      }
      ++pairs;
      Limits limits{servingAxes(source, target, links), source.used | target.used, source.uneven | target.uneven,
                    std::max(source.bytes, target.bytes)};
      const analysis::Plan &plan = planner.plan(type, source.layout, target.layout);
      int64_t expected = timesWithin(limits)[to];
      bool isCapped = expected != kUnreachable;
      if (!isCapped) {
        expected = timesWithin({limits.axes, limits.permuted, limits.uneven, kUnreachable})[to];
      }
      bool isRight = plan.timePs == expected && (!isCapped || plan.peakBytes <= limits.bytes);
      Layout layout = source.layout;
      for (const analysis::Step &step : plan.steps) {
        layout = analysis::applyStep(layout, step);
      }
      if (!isRight || layout != target.layout) {
        FAIL_CHECK(source.layout.toString() << " to " << target.layout.toString() << ": " << plan.timePs << " ps, " << plan.peakBytes
                                            << " bytes at most; the search says " << expected << " ps within " << limits.bytes
                                            << " bytes, and the plan ends in " << layout.toString());
      }
    }
  }
  return pairs;
}

// Returns costs that differ from axis to axis, and the same for all.
std::vector<std::vector<Link>> costsFor(size_t axes) {
  std::vector<Link> equal(axes), latency(axes, Link{200, 1000}), slowMajor(axes, Link{20, 20000}), slowMinor(axes, Link{500, 4000});
  slowMajor.front() = {2000, 500};
  slowMinor.back() = {100, 300}; // fewer nanoseconds a message, but a slower rate: neither link is the faster one
  std::vector<Link> kinds = latency, fastMinor = slowMajor; // kinds that are not as fast as others, over all links and over some
  for (Link &link : kinds) {
    link.set(CollectiveKind::AllGather, {800, 150});
    link.set(CollectiveKind::AllReduce, {30, 2500});
  }
  fastMinor.back().set(CollectiveKind::AllToAll, {20, 90000});
  fastMinor.front().set(CollectiveKind::Permute, {9000, 400});
  return {equal, latency, slowMajor, slowMinor, kinds, fastMinor};
}

} // namespace

TEST_CASE("redistribution: every plan is as fast as the fastest of all ways", "[redistribution][oracle][slow]") {
  int64_t pairs = 0;
  for (const std::vector<int> &sizes : std::vector<std::vector<int>>{{2}, {4}, {2, 2}, {3, 2}, {2, 2, 2}}) {
    int64_t devices = Grid{sizes}.devices();
    std::vector<int64_t> even = {devices, 2 * devices, 3 * devices}, uneven = {7, 5, 2 * devices};
    for (size_t rank = 0; rank <= 3; ++rank) {
      for (const std::vector<int64_t> &shape : {even, uneven}) {
        StateGraph graph(sizes, std::vector<int64_t>(shape.begin(), shape.begin() + rank));
        std::vector<std::vector<Link>> costs = costsFor(sizes.size());
        if (rank == 3 && shape == uneven) {
          costs.resize(1); // for the time it takes
        }
        for (const std::vector<Link> &links : costs) {
          CAPTURE(sizes, rank, shape, links.front().latencyNs);
          pairs += compareAll(graph, links);
        }
      }
    }
  }
  CHECK(pairs > 100000); // all were there
}

} // namespace ashlar::test::redistribution_oracle_test
