// SPDX-License-Identifier: Apache-2.0
//
// The content of --explain and --report: the layout of every parameter, and the cause of each collective. Text and JSON are written from
// the same facts.

#ifndef ASHLAR_COMPILER_REPORT_LAYOUT_REPORT_H
#define ASHLAR_COMPILER_REPORT_LAYOUT_REPORT_H

#include "compiler/report/page/instructions.h"
#include "compiler/report/page/model_graph.h"
#include "compiler/report/pipeline_facts.h"

#include "dialects/dist/dist.h"
#include "passes/analysis/step_runs.h"
#include "passes/lower/memory/collective_order.h"
#include "passes/lower/memory/memory_use.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <vector>

namespace ashlar::report {

// A way from one layout to another.
struct PlanFact {
  std::string steps;   // "reduce_scatter dim 0 over dp, all_gather dim 0 over dp"
  int64_t bytes = 0;   // that a device sends
  int64_t timePs = 0;  // predicted, by the links of the mesh
  int64_t leastPs = 0; // no way takes less; timePs for the best of all
};

// Two ops that want one tensor in two layouts.
struct ReasonFact {
  std::string producer;               // "fc1 (nn.matmul)"
  std::vector<std::string> consumers; // the same
  std::vector<std::string> origins;   // of their layouts: the user's rules, and the ops along which they came
  std::vector<std::string> sources;   // the user's rules, each once
  std::string tensor, from, to;       // global type and the two layouts
  PlanFact plan;                      // that leads from the one to the other
  std::optional<PlanFact> runnerUp;   // the next best
};

// A collective of a program.
struct CollectiveFact {
  std::string kind;      // "all_reduce"
  std::string reduction; // "sum"; empty where nothing is combined
  std::vector<std::string> axes;
  int64_t groupSize = 1;
  std::string operand, result; // local types; of several, one after the other
  int64_t tensors = 1;         // it is a collective of so many
  std::string fusion;          // "id 2", "bucket 1, full at 304.0 KB"; empty: it is alone
  int64_t fusionId = 0;        // that the user gave its parameters
  std::string type;            // of the elements that travel: "bf16"
  int64_t runs = 1;            // how often a run of the program runs it: in a repeat as often as that has iterations
  int64_t bytes = 0;           // that a device sends in one
  int64_t timePs = 0;
  int64_t f32Bytes = 0, f32Ps = 0; // the same if narrower floats travelled as f32; 0 for other types
  bool runsBeside = false;         // it is started, and waited for later
  int64_t hiddenPs = 0;            // the part of timePs predicted to be hidden by computation
  std::string cause;
  std::vector<std::string> causes; // the same, one each
  std::vector<ReasonFact> reasons; // several when equal collectives became one; none when the model itself asks for it
  std::vector<std::string> keys;   // of the reasons (reasonKey)
  std::vector<unsigned> modules;   // the makers of the tensor, then its takers; each once
};

// What a program sends to another stage.
struct TransferFact {
  std::string type; // local
  std::vector<int64_t> to;
  int64_t bytes = 0; // of the message of a device
  std::string cause; // "fc1, for fc2"
};

// The numbers of a lowered program, from its tables.
struct LoweredFact {
  int64_t temporaryBytes = 0;               // of its values without a name
  std::optional<int64_t> computePs, timePs; // predicted, of a run: without collectives, and with them; nothing: rates are not known
};

// A function of the module. Collectives are listed for main programs only; for others the counts are enough.
struct ProgramFact {
  std::string name;
  std::string role;             // of nn.program; "" for none
  int64_t chunk = 0, round = 0; // the same
  bool isJoined = false;        // with what a step does once
  std::optional<int64_t> stage; // of a pipeline that runs it
  analysis::CollectiveSum sum;  // of its collectives
  int64_t transposes = 0;       // between orders of dims in memory that the compiler chose
  int64_t transposedBytes = 0;
  std::optional<LoweredFact> lowered; // nothing: it does not fit
  std::vector<CollectiveFact> collectives;
  std::vector<TransferFact> sends;                 // of main programs
  std::optional<ProgramInstructions> instructions; // of main programs; nothing: it does not fit
};

// A variable: a parameter, or the optimizer's state.
struct VariableFact {
  std::string name;
  std::optional<int64_t> stage; // of a pipeline that has it
  bool isTrainable = false;
  std::string global, layout, local; // type, layout, type
  int64_t fusionId = 0;              // 0: its gradient is never fused with others
  int64_t bytes = 0;                 // on a device
  unsigned module = 0;               // of its name
  std::string origin;                // the rule that split it; empty when none did
  std::string replicated;            // why optimizer parallelism leaves it replicated; empty when it does not
  std::optional<int64_t> owner;      // the one device that keeps it; nothing: all do
};

// A device that keeps state alone, by parameter ownership.
struct OwnerFact {
  int64_t device = 0, bytes = 0;       // of its own variables
  std::vector<std::string> parameters; // whose state that is
};

// A strategy that a search looked at, or the search itself.
struct StrategyFact {
  std::string name;
  int64_t stepPs = 0;    // predicted
  int64_t bytes = 0;     // of a device, predicted
  bool isLowered = true; // of its programs; else these are estimates from its layouts
};

// A rule that leads to layouts: "fc1.weight", "[{tp}, {}]".
struct RuleFact {
  std::string match, layout;
  int64_t priority = 0;

  // Returns it as a job has it.
  std::string text() const;
};

// The best strategy in which a block of the model is split otherwise.
struct RunnerUpFact {
  std::string block, differs;
  int64_t morePs, moreBytes; // than what was taken, by estimates
};

// The result of mode AUTO.
struct SearchFact {
  std::vector<StrategyFact> strategies;
  size_t taken = 0;                           // the number of one of them
  bool hasSearched = false;                   // whether the search itself found one of them
  int64_t costPs = 0, boundPs = 0;            // of the choices of the search, op by op; no choices cost less than the bound
  std::optional<double> stoppedSeconds;       // after which the clock ended it; nothing: its work did
  std::vector<RuleFact> rules;                // that lead to what was taken
  std::optional<dist::RuleListKind> rulesAre; // nothing: none were looked for
  int64_t others = 0;                         // tensors to which they do not lead
  std::optional<int64_t> rulesMorePs;         // of a step with the rules alone, by estimates
  std::vector<RunnerUpFact> runnersUp;        // in the order of the model
};

// The result of a search for the mesh.
struct MeshSearchFact {
  std::vector<StrategyFact> meshes;     // that fit, the fastest first, which is taken
  size_t count = 0;                     // of candidates
  size_t left = 0;                      // that were not looked at
  size_t estimated = 0;                 // of which the candidates are the best; 0: none
  std::optional<double> stoppedSeconds; // after which the clock ended it; nothing: its work did
};

// A rule of the job, as it is in the file.
struct JobRuleFact {
  std::string origin, text; // "mlp.txtpb:11", "match: \"fc1.weight\" layout: \"[{tp}, {}]\""
};

// A run of a program in a step without a pipeline.
struct StepRunFact {
  std::string program;
  int64_t microBatch = 0, beginPs = 0, endPs = 0;
};

// When the gradients of micro-batches are reduced, where the compiler chose (job: gradient_sync: AUTO, docs/optimizer_parallel.md).
struct GradientSyncFact {
  std::vector<StrategyFact> strategies; // once a step, and in each micro-batch
  size_t taken = 0;                     // the number of one of them
};

struct LayoutReport {
  std::string model;
  std::vector<std::pair<std::string, int64_t>> mesh; // empty: one device
  std::vector<int64_t> deviceIds;                    // the rank of each point of the mesh; empty: in turn
  std::vector<JobRuleFact> jobRules;
  ModelGraph graph;
  std::optional<SearchFact> search;             // nothing: layouts were not searched
  std::optional<MeshSearchFact> meshSearch;     // nothing: the job has the mesh
  std::optional<GradientSyncFact> gradientSync; // nothing: the job, or memory alone, decided
  bool hasCosts = false;                        // whether times are based on known links; else a byte takes a nanosecond
  bool hasRates = false;                        // whether the rates of a device are known
  std::vector<ProgramFact> mains;               // the training step, or the model; of a pipeline the programs of a step, by stage
  std::vector<ProgramFact> others;
  std::vector<VariableFact> variables;
  std::string plan;        // the lines of --plan; empty: it does not fit
  lower::MemoryUse memory; // of a rank; no parts: not known
  lower::CollectiveOrder order;
  std::vector<OwnerFact> owners;                  // in the order of their numbers
  std::vector<std::vector<std::string>> stageOps; // by stage of a pipeline: the module paths of its ops, in its order
  std::optional<PipelineFacts> pipeline;          // nothing: there is none, or it was not lowered
  std::vector<StepRunFact> stepRuns;              // without a pipeline, one after the other; empty: not lowered, or times are unknown
};

// Collects the facts of one device's programs, as addDistPasses leaves them: one module, or, of a pipeline, one a stage. Assumes that they
// have a @train_step or a @forward, or an order of a step. `graph`: of the same programs before partitioning.
LayoutReport makeLayoutReport(mlir::ModuleOp module, llvm::StringRef model, ModelGraph graph = {});

// Enters how much of each collective is hidden: numberCollectives() of a copy of the module, addFusionPasses on it, then addOverlap().
void numberCollectives(mlir::ModuleOp module);
void addOverlap(LayoutReport &report, mlir::ModuleOp scheduled);

// Enters the predicted costs and the instructions of the programs of a variant, or of all stages, and the runs of a step.
void addPredictions(LayoutReport &report, llvm::ArrayRef<exec::VariantOp> variants);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_LAYOUT_REPORT_H
