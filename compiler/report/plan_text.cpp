// SPDX-License-Identifier: Apache-2.0
//
// Counts what the tables hold and writes one line for each subject.

#include "compiler/report/plan_text.h"

#include "compiler/report/sentences.h"
#include "compiler/report/timeline_text.h"
#include "compiler/report/units.h"
#include "dialects/dist/dist.h"
#include "dialects/nn/programs.h"
#include "dialects/support/element_type.h"
#include "passes/analysis/costs.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>
#include <numeric>

using llvm::formatv;

namespace ashlar::report {
namespace {

std::string flopText(double flop) {
  static const char *const kUnits[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  unsigned unit = 0;
  for (; flop >= 1000 && unit + 1 < std::size(kUnits); ++unit) {
    flop /= 1000;
  }
  return formatv("{0:F1} {1}", flop, kUnits[unit]);
}

bool isSplit(exec::TensorOp op) {
  return llvm::any_of(op.getSplits().getAsRange<mlir::DenseI64ArrayAttr>(), [](mlir::DenseI64ArrayAttr axes) { return !axes.empty(); });
}

// "x[dp, -]": the axes that split each dim, - for none.
std::string layoutText(exec::TensorOp op, mlir::ArrayAttr axisNames) {
  std::vector<std::string> dims;
  for (auto axes : op.getSplits().getAsRange<mlir::DenseI64ArrayAttr>()) {
    std::vector<std::string> names;
    for (int64_t axis : axes.asArrayRef()) {
      names.push_back(mlir::cast<mlir::StringAttr>(axisNames[axis]).str());
    }
    dims.push_back(names.empty() ? "-" : llvm::join(names, "+"));
  }
  return (op.getOutsideName().value_or(op.getSymName()) + "[" + llvm::join(dims, ", ") + "]").str();
}

class PlanWriter {
public:
  PlanWriter(exec::VariantOp variant, const PlanFacts &facts) : variant(variant), facts(facts) {}

  std::string write() {
    const bool isFirst = variant.getStage() == 0; // which tells of all stages
    if (isFirst) {
      writeMesh();
      writePipeline();
    }
    writeStage();
    writeTensors();
    if (isFirst) {
      writeOptimizer();
    }
    writeOwners();
    writePrograms();
    if (facts.order.collectives > 0) {
      line("order", orderText(facts.order));
    }
    writeMemory();
    if (!facts.deterministicRefusal.empty() && isFirst) {
      line("determinism", facts.deterministicRefusal);
    }
    return text;
  }

private:
  void line(llvm::StringRef subject, const llvm::Twine &fact) { text += formatv("{0,-12} {1}\n", subject, fact.str()); }

  void writePrograms() {
    if (variant.getNumStages() > 1) {
      for (auto program : variant.getBody().getOps<exec::ProgramOp>()) {
        if (!nn::hasRole(program, nn::ProgramRole::Init) && !nn::isEvaluation(program)) {
          writeCollectives(program, ("a run of " + program.getSymName()).str());
          writeInstructions(program, program.getSymName());
        }
      }
      return;
    }
    for (auto program : variant.getBody().getOps<exec::ProgramOp>()) {
      if (auto [run, subject] = describeRun(program); !run.empty()) {
        writeCollectives(program, run);
        writeInstructions(program, subject);
      }
    }
  }

  // Returns what a run of a program is in a step without stages, as part of a sentence and as its subject; "" for programs of no step.
  std::pair<llvm::StringRef, llvm::StringRef> describeRun(exec::ProgramOp program) {
    nn::ProgramAttr role = nn::programOf(program);
    if (!role) {
      return {};
    }
    if (role.getUpdates()) {
      return {"the last micro-batch and the update", "last run"};
    }
    if (role.getPrepares()) {
      return {"the first micro-batch and before it", "first run"};
    }
    switch (role.getRole()) {
    case nn::ProgramRole::Prepare:
      return {"before a step", "preparation"};
    case nn::ProgramRole::Update:
      return {"an update", "update"};
    case nn::ProgramRole::TrainStep:
    case nn::ProgramRole::Run:
    case nn::ProgramRole::Decode:
      return variant.getOrderAttr() ? std::pair("a micro-batch", "micro-batch") : std::pair("a step", "step");
    default:
      return {};
    }
  }

  int64_t devices() {
    return std::accumulate(variant.getAxisSizes().begin(), variant.getAxisSizes().end(), int64_t(1), std::multiplies<>());
  }

  void writeMesh() {
    std::vector<std::string> axes;
    for (auto [name, size] : llvm::zip_equal(variant.getAxisNames().getAsRange<mlir::StringAttr>(), variant.getAxisSizes())) {
      axes.push_back(formatv("{0}={1}", name.getValue(), size));
    }
    std::string mesh = axes.empty() ? "one device" : formatv("{0}, {1}", llvm::join(axes, ", "), counted(devices(), "device")).str();
    line("model", facts.modelName + (facts.target.empty() ? "" : "; target " + facts.target));
    int64_t ranks = variant.getNumStages() * devices() / variant.getDevicesPerProcess();
    line("mesh", mesh + (variant.getNumStages() > 1 ? " a stage" : "") + "; " + counted(ranks, "rank") +
                     (variant.getDevicesPerProcess() > 1 ? formatv(" of {0} devices each", variant.getDevicesPerProcess()).str() : ""));
    if (facts.globalBatch > 0) {
      std::string parts = facts.accumulate == 1 ? "" : formatv(" in {0} micro-batches of {1}", facts.accumulate, programBatch()).str();
      line("batch", formatv("{0} samples{1}, {2} a device", facts.globalBatch, parts, samplesOfDevice()).str());
    }
  }

  void writeOptimizer() {
    if (!facts.optimizer.empty()) {
      line("optimizer", facts.optimizer);
    }
    if (!facts.optimizerParallel.empty()) {
      line("split", facts.optimizerParallel);
    }
  }

  void writePipeline() {
    if (facts.pipeline) {
      line("pipeline", stepText(*facts.pipeline));
      for (const std::string &drawn : timelineLines(*facts.pipeline)) {
        line("", drawn);
      }
    }
  }

  // Which stage of a pipeline it is, what goes from it to others for a micro-batch, and what it does during a step.
  void writeStage() {
    if (variant.getNumStages() == 1) {
      return;
    }
    std::map<int64_t, uint64_t> sent; // bytes, by the other stage
    for (auto program : variant.getBody().getOps<exec::ProgramOp>()) {
      mlir::ArrayAttr sends = program.getSendsAttr();
      for (mlir::Attribute each : sends ? sends.getValue() : llvm::ArrayRef<mlir::Attribute>()) {
        auto transfer = mlir::cast<exec::TransferAttr>(each);
        auto tensor = mlir::cast<exec::TensorOp>(mlir::SymbolTable::lookupSymbolIn(variant, transfer.getTensor().getAttr()));
        if (!nn::isEvaluation(program) && !nn::isOncePerStep(program)) {
          sent[transfer.getStage()] += byteSize(tensor.getBuffer().getType());
        }
      }
    }
    std::string text = formatv("{0} of {1}, {2}", variant.getStage(), variant.getNumStages(), counted(variant.getNumSlots(), "slot"));
    for (auto [stage, bytes] : sent) {
      text += formatv("; sends {0} to stage {1} a micro-batch", bytesText(bytes), stage);
    }
    line("stage", text);
    if (facts.pipeline) {
      line("timeline", sharesText(*facts.pipeline, variant.getStage()));
    }
  }

  // Returns the samples that the programs are for.
  int64_t programBatch() const { return facts.globalBatch / facts.accumulate; }

  // Returns the samples of the batch that one device holds of the input that is split least.
  int64_t samplesOfDevice() {
    int64_t samples = 0;
    for (auto op : variant.getBody().getOps<exec::TensorOp>()) {
      bool holdsBatch = op.getRole() == exec::Role::Input && !op.getGlobalShape().empty() && op.getGlobalShape()[0] == programBatch();
      samples = holdsBatch ? std::max(samples, op.getBuffer().getType().getDimSize(0)) : samples;
    }
    return samples;
  }

  void writeTensors() {
    int64_t count = 0, elements = 0, split = 0;
    std::vector<std::string> inputs;
    for (auto op : variant.getBody().getOps<exec::TensorOp>()) {
      if (std::optional<int64_t> owner = exec::getOwner(op)) {
        owned[*owner] += byteSize(op.getBuffer().getType());
      } else {
        bool isInSlot = op.getBuffer().getSpace() == exec::Space::Slot;
        bytesOf[op.getRole()] += byteSize(op.getBuffer().getType()) * (isInSlot ? variant.getNumSlots() : 1);
      }
      if (op.getRole() == exec::Role::Variable) {
        ++count;
        split += isSplit(op);
        elements += mlir::ShapedType::getNumElements(op.getGlobalShape());
      } else if (op.getRole() == exec::Role::Input && !op.getInternal()) {
        inputs.push_back(layoutText(op, variant.getAxisNames()));
      }
    }
    bytesOf[exec::Role::State] += mostOwned();
    line("parameters",
         formatv("{0}, {1}, {2} a device", counted(count, "tensor"), counted(elements, "element"), bytesText(bytesOf[exec::Role::Variable]))
             .str());
    line("layouts", formatv("inputs {0}; parameters: {1} replicated, {2} sharded", inputs.empty() ? "none" : llvm::join(inputs, ", "),
                            count - split, split)
                        .str());
  }

  // Returns the bytes of the device that keeps most alone.
  uint64_t mostOwned() const {
    uint64_t most = 0;
    for (auto [owner, bytes] : owned) {
      most = std::max(most, bytes);
    }
    return most;
  }

  // How much each owner keeps alone: all of it, or from the least to the most of many.
  void writeOwners() {
    if (owned.empty()) {
      return;
    }
    line("grouping", "each parameter has an owner, which keeps its state and updates it");
    constexpr size_t kShown = 8;
    uint64_t least = mostOwned();
    std::vector<std::string> parts;
    for (auto [owner, bytes] : owned) {
      least = std::min(least, bytes);
      parts.push_back(formatv("device {0} {1}", owner, bytesText(bytes)));
    }
    line("owners", parts.size() <= kShown
                       ? llvm::join(parts, ", ")
                       : formatv("{0}, each {1} to {2}", counted(parts.size(), "device"), bytesText(least), bytesText(mostOwned())).str());
  }

  // Returns the bytes that a device sends of one tensor; of a halo the device that sends most.
  int64_t sentBytes(exec::CollectiveOp op, mlir::MemRefType source, int64_t group) {
    if (!op.getSegments()) {
      return dist::collectiveBytes(op.getKind(), byteSize(source), group);
    }
    auto sizes = llvm::map_to_vector(op.getAxes(), [&](int64_t axis) { return variant.getAxisSizes()[axis]; });
    auto type = mlir::RankedTensorType::get(source.getShape(), source.getElementType());
    return dist::haloBytes(type, op.getSplitDims().front(), dist::haloTraffic(sizes, dist::haloOf(*op.getSegments())).mostSent);
  }

  // One line a kind: how often a run of the program, how many bytes a rank sends, and what for.
  void writeCollectives(exec::ProgramOp step, llvm::StringRef run) {
    struct Sum {
      int64_t count = 0, tensors = 0, bytes = 0, hostBytes = 0;
      llvm::SmallVector<std::string> causes;
    };
    llvm::MapVector<CollectiveKind, Sum> sums;
    int64_t firstRank = variant.getStage();
    for (int64_t size : variant.getAxisSizes()) {
      firstRank *= size;
    }
    firstRank /= variant.getDevicesPerProcess();
    step.getBody().walk([&](exec::CollectiveOp op) {
      if (op.getKind() == CollectiveKind::Slice) {
        return; // moves nothing between devices
      }
      const int64_t times = exec::timesRun(op);
      int64_t group = 1;
      for (int64_t axis : op.getAxes()) {
        group *= variant.getAxisSizes()[axis];
      }
      Sum &sum = sums[op.getKind()];
      sum.count += times;
      const analysis::GroupsOnHosts hosts =
          analysis::groupsOnHosts(facts.ranksPerHost, variant.getDevicesPerProcess(), variant.getAxisSizes(),
                                  variant.getDeviceIds().value_or(llvm::ArrayRef<int64_t>()), op.getAxes(), firstRank);
      for (auto source : op.getSources().getAsRange<exec::BufferAttr>()) {
        const int64_t sent = sentBytes(op, source.getType(), group);
        sum.bytes += times * sent;
        sum.hostBytes += times * analysis::hostBytes(op.getKind(), op.getSegments() ? sent : byteSize(source.getType()), hosts);
      }
      sum.tensors += times * static_cast<int64_t>(op.getSources().size());
      for (std::string &cause : causeTexts(op)) {
        if (!llvm::is_contained(sum.causes, cause)) {
          sum.causes.push_back(std::move(cause));
        }
      }
    });
    for (auto &[kind, sum] : sums) {
      constexpr size_t kShown = 3;
      std::string causes = llvm::join(llvm::ArrayRef(sum.causes).take_front(kShown), ", ");
      if (sum.causes.size() > kShown) {
        causes += formatv(", ... ({0} causes)", sum.causes.size());
      }
      std::string tensors = sum.tensors > sum.count ? formatv(" of {0} tensors", sum.tensors).str() : "";
      std::string ofHost = sum.hostBytes == 0 ? "" : formatv(", {0} by each host", bytesText(sum.hostBytes)).str();
      line("collectives", formatv("{0} {1}{2} {3}, {4} sent by each device{5}: {6}", sum.count, stringifyCollectiveKind(kind), tensors, run,
                                  bytesText(sum.bytes), ofHost, causes)
                              .str());
    }
    writeOverlap(step);
    if (sums.empty() && !nn::hasRole(step, nn::ProgramRole::Prepare)) { // which has any only where parameters are sharded
      line("collectives", run == "a step" ? "none" : ("none " + run).str());
    }
  }

  void writeOverlap(exec::ProgramOp step) {
    constexpr int64_t kPsPerNs = 1000;
    int64_t count = 0, durationPs = 0, hiddenPs = 0;
    step.getBody().walk([&](exec::CollectiveOp op) {
      if (exec::OverlapAttr overlap = op.getOverlapAttr()) {
        const int64_t times = exec::timesRun(op);
        count += times;
        durationPs += times * overlap.getDurationNs() * kPsPerNs;
        hiddenPs += times * overlap.getHiddenNs() * kPsPerNs;
      }
    });
    if (count > 0) {
      line("overlap", formatv("{0} overlap computation: {1} of {2} predicted to be hidden", counted(count, "collective"),
                              timeText(hiddenPs), timeText(durationPs))
                          .str());
    }
  }

  // Two for each score and column of the query or value; backward of each score five products instead of two. Half of that where it is
  // causal.
  static double flopOf(exec::AttentionOp op) {
    const int64_t columns = op.getBackward() ? 3 * op.getWidth() + 2 * op.getColumns() : op.getWidth() + op.getColumns();
    return (op.getCausal() ? 1.0 : 2.0) * op.getBatch() * op.getHeads() * op.getRows() * op.getKeys() * columns;
  }

  // Two for each place of the window, channel of a group and element of y.
  static double flopOf(exec::ConvOp conv) {
    double products = 1.0 * conv.getBatch() * conv.getGroups() * conv.getChannelsIn() * conv.getChannelsOut();
    for (auto dim : conv.getDims().getAsRange<exec::ConvDimAttr>()) {
      products *= static_cast<double>(dim.getOut()) * dim.getKernel();
    }
    return 2 * products;
  }

  void writeInstructions(exec::ProgramOp step, llvm::StringRef subject) {
    int64_t kernels = 0, products = 0, convolutions = 0, attentions = 0, copies = 0, inserts = 0;
    double flop = 0;
    llvm::DenseSet<mlir::Attribute> distinct;
    step.getBody().walk([&](exec::InstrOpInterface op) {
      const int64_t times = exec::timesRun(op);
      if (auto kernel = mlir::dyn_cast<exec::KernelOp>(op.getOperation())) {
        kernels += times;
        distinct.insert(kernel.getCalleeAttr());
      } else if (auto gemm = mlir::dyn_cast<exec::GemmOp>(op.getOperation())) {
        products += times;
        flop += 2.0 * times * gemm.getBatch() * gemm.getM() * gemm.getN() * gemm.getK();
      } else if (auto conv = mlir::dyn_cast<exec::ConvOp>(op.getOperation())) {
        convolutions += times;
        flop += times * flopOf(conv);
      } else if (auto attention = mlir::dyn_cast<exec::AttentionOp>(op.getOperation())) {
        attentions += times;
        flop += times * flopOf(attention);
      }
      copies += mlir::isa<exec::CopyOp>(op) ? times : 0;
      inserts += mlir::isa<exec::InsertOp>(op) ? times : 0;
    });
    llvm::SmallVector<std::string> parts;
    for (auto [count, what] : {std::pair(products, "library product"), std::pair(convolutions, "library convolution"),
                               std::pair(attentions, "library attention")}) {
      if (count > 0) {
        parts.push_back(counted(count, what));
      }
    }
    const std::string calls = parts.empty() ? counted(0, "library product") : llvm::join(parts, " and ");
    line(subject, formatv("{0} ({1} a device), {2} ({3}), {4}{5}", calls, flopText(flop), counted(kernels, "kernel call"),
                          counted(distinct.size(), "kernel"), copies == 1 ? "1 copy" : formatv("{0} copies", copies).str(),
                          inserts == 0 ? "" : ", " + counted(inserts, "insert"))
                      .str());
  }

  void writeMemory() {
    uint64_t arena = variant.getArenaBytes(), bound = variant.getLowerBoundBytes();
    uint64_t named = 0;
    for (auto [role, bytes] : bytesOf) {
      named += bytes;
    }
    std::string passed = variant.getNumStages() == 1 ? "" : formatv("{0} passed on, ", bytesText(bytesOf[exec::Role::Passed])).str();
    line("memory", formatv("{0} a device: {1} parameters, {2} state, {3} inputs and outputs, {4}{5} temporaries", bytesText(arena),
                           bytesText(bytesOf[exec::Role::Variable]), bytesText(bytesOf[exec::Role::State]),
                           bytesText(bytesOf[exec::Role::Input] + bytesOf[exec::Role::Output]), passed, bytesText(arena - named))
                       .str());
    line("", formatv("no plan can be below {0}; this one is {1:F3} times that", bytesText(bound),
                     static_cast<double>(arena) / static_cast<double>(std::max<uint64_t>(bound, 1)))
                 .str());
    if (facts.pipeline) {
      line("", slotsText(facts.pipeline->stages[variant.getStage()]));
    }
    if (!facts.memory.parts.empty()) {
      line("", memoryText(facts.memory));
    }
  }

  exec::VariantOp variant;
  const PlanFacts &facts;
  std::string text;
  std::map<exec::Role, uint64_t> bytesOf; // per device
  std::map<int64_t, uint64_t> owned;      // state that one device keeps, by its number
};

} // namespace

std::string planText(exec::VariantOp variant, const PlanFacts &facts) {
  return PlanWriter(variant, facts).write();
}

} // namespace ashlar::report
