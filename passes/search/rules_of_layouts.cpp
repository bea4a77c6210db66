// SPDX-License-Identifier: Apache-2.0
//
// From one rule for every name down to the few that are needed; each list is tried by an inference.

#include "passes/search/rules_of_layouts.h"

#include "passes/layout/inference/copy_sources.h"
#include "passes/layout/inference/given_attributes.h"
#include "passes/layout/inference/inference.h"
#include "passes/layout/inference/named_tensors.h"
#include "passes/search/name_globs.h"

#include "dialects/support/element_type.h"

#include "llvm/ADT/MapVector.h"

#include <numeric>
#include <set>

using namespace mlir;

namespace ashlar::search {

namespace {

using layout::Layout;
using layout::LayoutProblem;

constexpr unsigned kNotThere = ~0u;

// The tensors of a problem by place: variables, values, and tensors that ops must take (results of functions, operands).
template <typename Visit> void visitTensors(const LayoutProblem &problem, const LayoutProblem &other, Visit visit) {
  for (auto [variable, same] : llvm::zip_equal(problem.variables, other.variables)) {
    visit(variable.second, same.second);
  }
  for (auto [value, same] : llvm::zip_equal(problem.values, other.values)) {
    visit(value.tensor, same.tensor);
  }
  for (auto [op, same] : llvm::zip_equal(problem.ops, other.ops)) {
    for (auto [taken, takenThere] : llvm::zip_equal(op.taken, same.taken)) {
      if (taken || takenThere) {
        visit(taken.value_or(kNotThere), takenThere.value_or(kNotThere));
      }
    }
  }
}

// A rule that may be taken.
struct Candidate {
  std::string match;
  SmallVector<unsigned> tensors; // of the problem
  Layout layout;
  int kind;         // rules for lower ones are what a person would write first
  int64_t bytes;    // of the tensors, whole
  int64_t priority; // of the rule

  // Returns the sort key of rules, the most useful first.
  auto key() const { return std::tuple(kind, -bytes, tensors.front(), StringRef(match)); }
};

// State: the problem, with its given layouts, the wanted layouts, and the candidate rules.
class RuleSearch {
public:
  // `storesLast`: rules for parameters and state have priority 1, all others 0, and propagate first: the storage of a parameter then does
  // not affect the computation with it where a rule, or its consequence, does.
  RuleSearch(LayoutProblem &problem, const layout::NamedTensors &named, const LayoutProblem &laidOut, bool storesLast)
      : problem(problem), named(named), storesLast(storesLast), wanted(problem.tensors.size()) {
    layout::Inference inference(laidOut);
    inference.run();
    visitTensors(problem, laidOut, [&](unsigned tensor, unsigned same) {
      if (tensor == kNotThere) {
        told += 1;
      } else {
        wanted[tensor] = inference.getLayout(same == kNotThere ? tensor : same);
      }
    });
    listCandidates();
    rules.resize(candidates.size());
    std::iota(rules.begin(), rules.end(), 0);
    mostWrong = countWrong(rules);
  }

  // Returns how many tensors with names, and how many of all, get other layouts than are wanted by all rules together.
  std::pair<size_t, size_t> leastWrong() const { return {mostWrong.named, mostWrong.all}; }

  RulesOfLayouts run() {
    RulesOfLayouts found;
    found.isMinimal = dropRules();
    found.isShortest = found.isMinimal && tryShorterLists();
    for (unsigned rule : rules) {
      const Candidate &candidate = candidates[rule];
      found.rules.push_back({candidate.match, dist::LayoutAttr::get(problem.mesh.getContext(), candidate.layout), candidate.priority});
    }
    found.numOthers = static_cast<int64_t>(countWrong(rules).all) + told;
    return found;
  }

private:
  // The budget, in ops that inferences visit.
  static constexpr size_t kMostOpsOfDrops = 3000000, kMostOpsOfLists = 800000;
  static constexpr size_t kMostNames = 10000000; // that globs for two rules are compared with

  using Rules = std::vector<unsigned>; // numbers of candidates

  // Tensors that get other layouts than are wanted.
  struct Wrong {
    size_t named = 0, all = 0;
  };

  std::optional<unsigned> tensorOf(const layout::TensorRef &ref) const {
    switch (ref.kind) {
    case layout::TensorRef::Variable:
      for (auto [variable, tensor] : problem.variables) {
        if (variable == ref.op) {
          return tensor;
        }
      }
      break;
    case layout::TensorRef::Argument:
      return problem.values[problem.find(cast<func::FuncOp>(ref.op).getArgument(ref.index))].tensor;
    case layout::TensorRef::FunctionResult:
      for (const layout::ProblemProgram &program : problem.programs) {
        if (program.function == ref.op) {
          return problem.resultTensor(program, ref.index);
        }
      }
      break;
    case layout::TensorRef::OpResult:
      return problem.values[problem.find(ref.op->getResult(ref.index))].tensor;
    case layout::TensorRef::Operand:
      break;
    }
    return std::nullopt;
  }

  enum Kind { Parameter, Input, Intermediate, Output, State };

  static Kind kindOf(const layout::TensorRef &ref) {
    auto variable = dyn_cast<nn::VariableOp>(ref.op);
    switch (ref.kind) {
    case layout::TensorRef::Variable:
      return variable.getTrainable() ? Parameter : State;
    case layout::TensorRef::Argument:
      return Input;
    case layout::TensorRef::FunctionResult:
      return Output;
    default:
      return Intermediate;
    }
  }

  int64_t priorityOf(Kind kind) const { return storesLast && (kind == Parameter || kind == State) ? 1 : 0; }

  // Returns the rule for all matches of a glob; nothing where they have several layouts, or one of them is given. With a layout, some may
  // have another one: the rule then has a lower precedence than rules that name them.
  std::optional<Candidate> makeCandidate(StringRef glob, const Layout *general = nullptr) const {
    Candidate made{glob.str(), {}, {}, 0, 0, 0};
    std::set<unsigned> seen;
    for (const layout::TensorRef &ref : named.findTensors(glob)) {
      std::optional<unsigned> tensor = tensorOf(ref);
      const Kind kind = kindOf(ref);
      const int64_t priority = priorityOf(kind) + (general ? 1 : 0);
      const bool isOther = !seen.empty() && tensor && ((!general && wanted[*tensor] != made.layout) || priority != made.priority);
      if (!tensor || problem.tensors[*tensor].given || isOther || (general && general->dims.size() != wanted[*tensor].dims.size())) {
        return std::nullopt;
      }
      if (seen.insert(*tensor).second) {
        made.layout = general ? *general : wanted[*tensor];
        made.priority = priority;
        made.kind = std::max<int>(made.kind, kind);
        made.tensors.push_back(*tensor);
        made.bytes += byteSize(problem.tensors[*tensor].type);
      }
    }
    const auto alike = llvm::count_if(made.tensors, [&](unsigned tensor) { return wanted[tensor] == made.layout; });
    return 2 * static_cast<size_t>(alike) > made.tensors.size() ? std::optional(made) : std::nullopt;
  }

  // Names that differ in their numbers only, and are laid out alike, are one rule; where a glob for them matches others too, one if they
  // are most of them, else several.
  void listCandidates() {
    MLIRContext *context = problem.mesh.getContext();
    llvm::MapVector<StringRef, Candidate> single;
    llvm::MapVector<std::pair<Attribute, Attribute>, SmallVector<StringRef>> alike;
    for (StringRef name : named.names().list({NameKind::Op, NameKind::Tensor})) {
      std::optional<Candidate> candidate = name.find_first_of("*?") == StringRef::npos ? makeCandidate(name) : std::nullopt;
      if (candidate && single.insert({name, *candidate}).second) {
        alike[{StringAttr::get(context, withoutNumbers(name)), dist::LayoutAttr::get(context, candidate->layout)}].push_back(name);
      }
    }
    std::set<SmallVector<unsigned>> general; // the tensors of each rule with exceptions
    for (auto &[key, names] : alike) {
      std::optional<Candidate> most;
      if (names.size() > 1 && !makeCandidate(joinNumbers(names))) {
        most = makeCandidate(joinNumbers(names), &single.find(names.front())->second.layout);
      }
      if (most && general.count(most->tensors) != 0) {
        continue; // the same tensors by the names of their nodes
      }
      auto overlaps = [&](const SmallVector<unsigned> &others) {
        return llvm::any_of(others, [&](unsigned tensor) { return llvm::is_contained(most->tensors, tensor); });
      };
      if (most && llvm::none_of(general, overlaps)) { // an exception has none
        general.insert(most->tensors);
        candidates.push_back(std::move(*most));
      } else {
        addCandidates(names, single);
      }
    }
    sortCandidates();
    joinCandidates();
    sortCandidates();
    isNamed.assign(problem.tensors.size(), false);
    for (const Candidate &candidate : candidates) {
      llvm::for_each(candidate.tensors, [&](unsigned tensor) { isNamed[tensor] = true; });
    }
  }

  // A node and its result are the same tensor: the first of equal ones stays.
  void sortCandidates() {
    llvm::sort(candidates, [](const Candidate &a, const Candidate &b) { return a.key() < b.key(); });
    std::set<SmallVector<unsigned>> known;
    llvm::erase_if(candidates, [&](const Candidate &candidate) { return !known.insert(candidate.tensors).second; });
  }

  // Joins two rules of one layout, where a glob for both matches nothing with another layout.
  void joinCandidates() {
    size_t left = kMostNames / std::max<size_t>(1, named.names().list({NameKind::Op, NameKind::Tensor}).size());
    for (size_t i = 0; i < candidates.size(); ++i) {
      for (size_t j = i + 1; j < candidates.size();) {
        const bool isAlike = candidates[i].layout == candidates[j].layout && candidates[i].priority == candidates[j].priority;
        std::string glob = isAlike ? joinGlobs(candidates[i].match, candidates[j].match) : "";
        std::optional<Candidate> joined = glob.empty() || left == 0 ? std::nullopt : makeCandidate(glob);
        left -= glob.empty() || left == 0 ? 0 : 1;
        if (joined) {
          candidates[i] = std::move(*joined);
          candidates.erase(candidates.begin() + j);
          j = i + 1; // others may join it
        } else {
          ++j;
        }
      }
    }
  }

  void addCandidates(ArrayRef<StringRef> names, const llvm::MapVector<StringRef, Candidate> &single) {
    if (names.size() == 1) {
      candidates.push_back(single.find(names.front())->second);
      return;
    }
    if (std::optional<Candidate> joined = makeCandidate(joinNumbers(names))) {
      candidates.push_back(*joined);
      return;
    }
    // By the last number that is not the same in all.
    SmallVector<StringRef> first = numbersIn(names.front());
    size_t place = first.size();
    for (StringRef name : names) {
      for (auto [index, number] : llvm::enumerate(numbersIn(name))) {
        place = number != first[index] && (place == first.size() || index > place) ? index : place;
      }
    }
    llvm::MapVector<StringRef, SmallVector<StringRef>> parts;
    for (StringRef name : names) {
      parts[numbersIn(name)[place]].push_back(name);
    }
    for (auto &[number, part] : parts) {
      addCandidates(part, single);
    }
  }

  // Infers with rules.
  Wrong countWrong(const Rules &list) const {
    for (unsigned rule : list) {
      const Candidate &candidate = candidates[rule];
      for (unsigned tensor : candidate.tensors) {
        std::optional<layout::GivenLayout> &given = problem.tensors[tensor].given;
        if (!given || candidate.priority < given->priority) { // the lower one holds
          given = layout::GivenLayout{candidate.layout, SmallVector<bool>(candidate.layout.dims.size(), false), candidate.priority, {}};
        }
      }
    }
    layout::Inference inference(problem);
    inference.run();
    for (unsigned rule : list) {
      for (unsigned tensor : candidates[rule].tensors) {
        problem.tensors[tensor].given.reset();
      }
    }
    Wrong wrong;
    for (unsigned tensor = 0; tensor < problem.tensors.size(); ++tensor) {
      const bool isWrong = inference.getLayout(tensor) != wanted[tensor];
      wrong.all += isWrong;
      wrong.named += isWrong && isNamed[tensor];
    }
    return wrong;
  }

  // Whether a list does as well as all rules together.
  bool isEnough(const Rules &list) {
    spent += problem.ops.size();
    const Wrong wrong = countWrong(list);
    return wrong.named <= mostWrong.named && wrong.all <= mostWrong.all;
  }

  // Drops rules without effect, the least useful first: many rules at once, where that is possible. Returns whether each of the others was
  // tried.
  bool dropRules() {
    for (bool isFewer = true; isFewer;) {
      const size_t before = rules.size();
      for (size_t end = rules.size(); end > 0;) { // kind by kind
        size_t begin = end;
        while (begin > 0 && candidates[rules[begin - 1]].kind == candidates[rules[end - 1]].kind) {
          --begin;
        }
        dropRange(begin, end);
        end = begin;
      }
      isFewer = rules.size() < before;
    }
    return spent < kMostOpsOfDrops;
  }

  // Drops rules without effect in [begin, end).
  void dropRange(size_t begin, size_t end) {
    if (begin == end || spent >= kMostOpsOfDrops) {
      return;
    }
    Rules fewer = rules;
    fewer.erase(fewer.begin() + begin, fewer.begin() + end);
    if (isEnough(fewer)) {
      rules = fewer;
    } else if (end - begin > 1) {
      const size_t middle = begin + (end - begin) / 2;
      dropRange(middle, end);
      dropRange(begin, middle);
    }
  }

  // Takes the first shorter list with the same effect, if there is one. Returns whether all lists shorter than the taken one were tried.
  bool tryShorterLists() {
    spent = 0;
    for (size_t length = 0; length < rules.size(); ++length) {
      Rules list(length);
      std::iota(list.begin(), list.end(), 0);
      for (bool isNext = true; isNext; isNext = advance(list)) {
        if (spent >= kMostOpsOfLists) {
          return false;
        }
        if (isEnough(list)) {
          rules = list;
          return true;
        }
      }
    }
    return true;
  }

  // Makes of a list of candidates the next one of this length. Returns whether there is one.
  bool advance(Rules &list) const {
    for (size_t place = list.size(); place-- > 0;) {
      if (list[place] + (list.size() - place) < candidates.size()) {
        std::iota(list.begin() + place, list.end(), list[place] + 1);
        return true;
      }
    }
    return false;
  }

  LayoutProblem &problem;
  const layout::NamedTensors &named;
  const bool storesLast;
  std::vector<Layout> wanted; // by tensor
  int64_t told = 0;           // operands with given layouts
  std::vector<Candidate> candidates;
  Rules rules;
  std::vector<bool> isNamed; // by tensor: a rule can name it
  Wrong mostWrong;           // with all rules
  size_t spent = 0;          // ops that inferences looked at
};

} // namespace

FailureOr<RulesOfLayouts> findRules(ModuleOp module, ModuleOp found) {
  OwningOpRef<ModuleOp> copy = module.clone(), laidOut = found.clone();
  for (ModuleOp each : {*copy, *laidOut}) {
    llvm::for_each(each.getOps<func::FuncOp>(), layout::copySources);
  }
  dist::MeshAttr mesh = dist::findMesh(module).getMesh();
  FailureOr<LayoutProblem> problem = LayoutProblem::create(*copy, mesh), solved = LayoutProblem::create(*laidOut, mesh);
  if (failed(problem) || failed(solved)) {
    return failure();
  }
  layout::NamedTensors named(*copy);
  RuleSearch search(*problem, named, *solved, /*storesLast=*/false), storesLast(*problem, named, *solved, /*storesLast=*/true);
  return storesLast.leastWrong() < search.leastWrong() ? storesLast.run() : search.run();
}

OwningOpRef<ModuleOp> giveRules(ModuleOp module, ArrayRef<LayoutRule> rules) {
  OwningOpRef<ModuleOp> copy = module.clone();
  Builder builder(module.getContext());
  layout::NamedTensors named(*copy);
  SmallVector<LayoutRule> order(rules);
  llvm::sort(order, [](const LayoutRule &a, const LayoutRule &b) { return a.priority > b.priority; }); // the last one holds
  for (const LayoutRule &rule : order) {
    for (const layout::TensorRef &tensor : named.findTensors(rule.match)) {
      layout::writeGiven(tensor, {rule.layout, builder.getDenseI64ArrayAttr({}), rule.priority, builder.getArrayAttr({})});
    }
  }
  return copy;
}

} // namespace ashlar::search
