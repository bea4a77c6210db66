// SPDX-License-Identifier: Apache-2.0
//
// The memory of a device at times of the step, as rows of a decision graph.

#ifndef ASHLAR_PASSES_SEARCH_MEMORY_ROWS_H
#define ASHLAR_PASSES_SEARCH_MEMORY_ROWS_H

#include "passes/search/layout_space.h"
#include "passes/search/solver/decision_graph.h"

#include <optional>

namespace ashlar::search {

// The nodes of a graph that decide on ops and held tensors, by class.
struct PartNodes {
  std::map<unsigned, unsigned> ops, tensors;
};

// Adds the rows. Each is of one time: variables, inputs, and the values alive then, by the choices of the nodes. The first times are the
// peaks of a device with replicated tensors.
class MemoryRows {
public:
  // `firstRows`: of each program. The space, the nodes and the graph outlive the rows.
  MemoryRows(const LayoutSpace &space, const PartNodes &nodes, DecisionGraph &graph, size_t firstRows)
      : space(space), nodes(nodes), graph(graph), firstRows(firstRows) {}

  // Adds the first rows. Assumes that the graph has its nodes.
  void addFirst();

  // Adds the row of the time at which a device holds most with these choices, where that is more than `limit` and the time has no row yet.
  // Returns whether it did.
  bool addPeak(const Choices &choices, int64_t limit);

  // Has the rows of each program count at least as many bytes for these choices as the program is known to take with them, at its peak
  // (`programBytes`: by program of the problem): what rows do not see, such as values in layouts on their way to others, becomes a
  // constant of the program's rows, the largest one seen. Returns whether a constant grew.
  //   rows of a program count at most 70 bytes, which takes 90: 20 more in each row of it
  bool cover(const Choices &choices, llvm::ArrayRef<int64_t> programBytes);

private:
  // A row under construction: nodes enter it once.
  struct OpenRow {
    Row row;
    std::map<unsigned, size_t> places; // of nodes in the row's terms

    void add(const Row::Term &term) {
      auto [place, isNew] = places.try_emplace(term.node, row.terms.size());
      if (isNew) {
        row.terms.push_back(term);
        return;
      }
      for (auto [amount, more] : llvm::zip_equal(row.terms[place->second].amounts, term.amounts)) {
        amount += more;
      }
    }
  };

  // A value that lies in memory from one op of a program to another.
  struct Life {
    unsigned begin, end;
    Row::Term term;
  };

  // The values in memory while a program runs, besides the ones that always are.
  struct ProgramLives {
    unsigned program, firstOp, endOp;
    std::vector<Life> lives;
    std::vector<int64_t> whole; // by op: the bytes of whole tensors
    int64_t unseen = 0;         // that rows do not count otherwise
    std::vector<size_t> rows;   // of the graph
  };

  // The time at which a program takes most.
  struct Peak {
    int64_t bytes;
    unsigned op;
  };

  std::optional<Row::Term> termOf(unsigned tensor, std::optional<unsigned> value) const;
  ProgramLives findLives(unsigned program, const std::vector<unsigned> &lastReads) const;
  void addFirstRows(ProgramLives &program);
  void addRow(ProgramLives &program, unsigned op);
  Peak peakOf(const ProgramLives &program, const Choices &choices) const;
  std::vector<unsigned> findLastReads() const;

  const LayoutSpace &space;
  const PartNodes &nodes;
  DecisionGraph &graph;
  const size_t firstRows; // of each program
  OpenRow always;         // variables and inputs
  std::vector<ProgramLives> programLives;
  llvm::DenseSet<unsigned> times; // the ops that have rows
};

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_MEMORY_ROWS_H
