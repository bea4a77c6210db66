// SPDX-License-Identifier: Apache-2.0
//
// Programs of one device, or of the stages of a pipeline -> costs -> a step.

#include "compiler/planning/forecast.h"

#include "compiler/cost/machine.h"
#include "compiler/job/job.h"
#include "compiler/report/step_programs.h"
#include "dialects/dist/owners.h"
#include "dialects/dist/recompute_rules.h"
#include "dialects/dist/stages.h"
#include "dialects/exec/target_traits.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"
#include "dialects/support/element_type.h"
#include "dialects/support/op_interfaces.h"
#include "passes/analysis/schedule/timeline.h"
#include "passes/analysis/step_runs.h"
#include "passes/layout/redistribute/estimate.h"
#include "passes/lower/calls/library_attention.h"
#include "passes/lower/calls/library_convolution.h"
#include "passes/lower/calls/library_product.h"
#include "passes/lower/passes.h"
#include "runtime/abi/memory_sizes.h"

#include "llvm/Support/MathExtras.h"

#include <map>
#include <set>

using namespace mlir;

namespace ashlar::planning {
namespace {

// A program of a device, and how often a step runs it.
struct StepProgram {
  func::FuncOp function;
  layout::ProgramEstimate estimate;
  int64_t runs = 0;
};

// Counts the memory of a device that runs the programs of a module on local shapes.
class MemoryCount {
public:
  MemoryCount(ModuleOp module, ArrayRef<StepProgram> programs, const pipelines::Variant &variant)
      : module(module), programs(programs), variant(variant), traits(exec::traitsOf(variant.target)) {}

  lower::MemoryUse count() {
    auto stage = module->getAttrOfType<dist::StageAttr>(dist::kStageAttr);
    slots = stage ? stage.getSlots() : 1;
    countVariables();
    llvm::for_each(programs, [&](const StepProgram &program) { countPorts(program.function); });
    int64_t peak = 0;
    llvm::for_each(programs, [&](const StepProgram &program) { peak = std::max(peak, program.estimate.peakBytes); });
    add("parameters", parameters);
    add("state", state);
    add("inputs and outputs", ports);
    add("passed on", passed);
    add("temporaries", peak);
    add("constants", constantBytes());
    addBatches();
    addWorkspace();
    if (traits.meetsInSharedMemory) {
      add("synchronization buffers", syncBufferBytes(stage ? stage.getCount() : 1));
    }
    return std::move(use);
  }

private:
  void add(StringRef name, uint64_t bytes) {
    if (bytes != 0) {
      use.parts.push_back({name.str(), bytes});
    }
  }

  void countVariables() {
    std::map<int64_t, uint64_t> owned; // state that one device keeps alone
    uint64_t largest = 0;
    for (auto op : module.getOps<nn::VariableOp>()) {
      std::optional<int64_t> owner = dist::getOwner(op);
      uint64_t &bytes = owner ? owned[*owner] : op.getInternal() || op.getStateOf() ? state : parameters;
      bytes += byteSize(op.getTensorType());
      largest = std::max(largest, owner ? bytes : 0);
    }
    state += largest;
  }

  // What programs take and give; tensors of one name are one.
  void countPorts(func::FuncOp function) {
    auto count = [&](DictionaryAttr attributes, Type type, StringRef kind) {
      auto name = attributes ? attributes.getAs<StringAttr>(nn::kNameAttr) : StringAttr();
      if (name && !counted.insert((kind + ":" + name.getValue()).str()).second) {
        return;
      }
      const uint64_t bytes = byteSize(cast<RankedTensorType>(type));
      ports += bytes * (attributes && attributes.contains(dist::kSlotAttr) ? slots : 1);
      batch += kind == "input" && !nn::isEvaluation(function) ? rt::roundUp(bytes, ASHLAR_RT_ALIGNMENT) : 0;
    };
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
      count(function.getArgAttrDict(i), type, "input");
    }
    for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
      count(function.getResultAttrDict(i), type, "output");
    }
    for (auto op : function.front().getOps<dist::SlotOpInterface>()) {
      const bool isNew = counted.insert(("slot:" + op.getSlot()).str()).second;
      passed += isNew ? byteSize(op.getSlotValue().getType()) * slots : 0;
    }
  }

  // Returns the bytes of the constants that are not one number; equal ones are there once.
  uint64_t constantBytes() {
    llvm::DenseSet<Attribute> seen;
    uint64_t bytes = 0;
    module.walk([&](nn::ConstantOp op) {
      auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
      bool counts = !(dense && dense.isSplat()) && seen.insert(op.getValue()).second;
      bytes += counts ? rt::roundUp(byteSize(cast<RankedTensorType>(op.getType())), ASHLAR_RT_ALIGNMENT) : 0;
    });
    return bytes;
  }

  bool isForward() { return nn::findProgram(module, nn::ProgramRole::Run) || nn::findProgram(module, nn::ProgramRole::Decode); }

  // Batches wait in stages, those of --eval in stages of their own; a model gets its inputs at once.
  void addBatches() {
    if (isForward() && !module->hasAttr(dist::kStageAttr)) {
      return;
    }
    if (traits.hasDeviceMemory) {
      return add("batches", rt::kFeeds * batch);
    }
    add("batches", rt::stagedBytes(batch));
    if (llvm::any_of(programs, [](const StepProgram &each) { return nn::isEvaluation(StepProgram(each).function); })) {
      add("batches of --eval", rt::stagedBytes(batch));
    }
  }

  // What library calls run in. Where it is not of a fixed size, that of a convolution follows from the call; here it is the panels that
  // most take.
  void addWorkspace() {
    auto ofProduct = [&](nn::MatMulOp op) { return traits.fixedWorkspace ? rt::kMatmulWorkspaceBytes : lower::productWorkspace(op); };
    auto ofConvolution = [&](ContractionOpInterface op) {
      auto isNarrow = [](Type type) { return isNarrowFloat(mlir::cast<RankedTensorType>(type).getElementType()); };
      const uint64_t pixels = rt::kConvBlockPixels * rt::kConvCopiedPixel * sizeof(float);
      const uint64_t sums = rt::kConvBlockPixels * (rt::kConvSumCols + rt::kConvSumPadding) * sizeof(float);
      const uint64_t ofNarrow =
          (isNarrow(op->getOperandTypes().front()) ? pixels : 0) + (isNarrow(op->getResultTypes().front()) ? sums : 0);
      return traits.fixedWorkspace ? rt::kConvolutionWorkspaceBytes : rt::kConvPanelBytes + rt::kConvTableBytes + ofNarrow;
    };
    const int64_t leastFlops = 2 * lower::ExpandOpsPassOptions().gemmFlops; // each multiply-add is two
    uint64_t most = 0;
    module.walk([&](ContractionOpInterface op) {
      auto typesOf = [](TypeRange range) { return llvm::map_to_vector(range, [](Type type) { return cast<RankedTensorType>(type); }); };
      const bool isLarge = analysis::workOf(op, typesOf(op->getOperandTypes()), typesOf(op->getResultTypes())).flops >= leastFlops;
      auto product = dyn_cast<nn::MatMulOp>(op.getOperation());
      const bool isProduct = product && (traits.fixedWorkspace || isLarge);
      const bool isConvolution = lower::isLibraryConvolution(op, variant.target);
      most = std::max({most, isProduct ? ofProduct(product) : 0, isConvolution ? ofConvolution(op) : 0});
    });
    module.walk([&](Operation *op) { most = std::max(most, lower::attentionWorkspace(op, variant.target)); });
    add("matrix products", most);
  }

  // The pages in which ranks meet, those of one of them.
  uint64_t syncBufferBytes(int64_t stages) {
    std::set<std::set<std::string>> sets;
    module.walk([&](dist::CollectiveOpInterface op) {
      std::set<std::string> axes;
      llvm::for_each(dist::toAxisList(op.getAxes()), [&](StringAttr axis) { axes.insert(axis.str()); });
      sets.insert(std::move(axes));
    });
    uint64_t sends = 0;
    for (const StepProgram &program : programs) {
      for (auto op : func::FuncOp(program.function).front().getOps<dist::SendOp>()) {
        sends += op.getTo().size();
      }
    }
    dist::MeshOp mesh = dist::findMesh(module);
    const uint64_t devices = mesh ? mesh.getMesh().numDevices() : 1;
    const uint64_t ranks = std::min<uint64_t>(stages * devices, variant.ranksPerHost);
    return llvm::divideCeil(rt::controlBytes(ranks, 1 + sets.size(), ranks * sends), ranks);
  }

  ModuleOp module;
  ArrayRef<StepProgram> programs;
  const pipelines::Variant &variant;
  const exec::TargetTraits &traits;
  std::set<std::string> counted; // names of inputs, outputs and passed values
  int64_t slots = 1;
  uint64_t parameters = 0, state = 0, ports = 0, passed = 0, batch = 0;
  lower::MemoryUse use;
};

// Estimates the programs of a module, or of a stage, with the runs that a step has.
std::vector<StepProgram> estimateAll(ModuleOp module, const pipelines::Variant &variant) {
  const analysis::DeviceRates rates = analysis::findDeviceRates(module);
  llvm::StringMap<int64_t> runs = analysis::runsOfStep(module);
  std::vector<StepProgram> programs;
  for (auto function : module.getOps<func::FuncOp>()) {
    layout::LocalProgram local = layout::localProgram(function);
    for (layout::LocalOp &op : local.ops) {
      op.movesBeside &= variant.overlaps;
    }
    programs.push_back(
        {function, layout::estimateProgram(local, rates, exec::traitsOf(variant.target).handOverPs), runs.lookup(function.getSymName())});
  }
  return programs;
}

// Returns the sum over the runs of a step, but what a pipeline adds.
Forecast sumRuns(ArrayRef<StepProgram> programs) {
  Forecast sum;
  auto add = [](int64_t &total, __int128 more) { // a slow device may take longer than a number says
    total = static_cast<int64_t>(std::min<__int128>(total + more, INT64_MAX / 4));
  };
  for (const StepProgram &program : programs) {
    add(sum.computePs, __int128(program.runs) * program.estimate.computePs);
    add(sum.sendPs, __int128(program.runs) * program.estimate.sendPs);
    add(sum.exposedPs, __int128(program.runs) * program.estimate.exposedPs);
    add(sum.bytesSent, __int128(program.runs) * program.estimate.bytesSent);
  }
  sum.stepPs = sum.computePs + sum.exposedPs;
  return sum;
}

// The work of a stage for the clock; what goes to other stages is added to `bytesSent`.
analysis::StageWork workOf(ModuleOp stage, std::vector<StepProgram> &programs, dist::HostsAttr hosts, int64_t devices, int64_t &bytesSent) {
  auto info = stage->getAttrOfType<dist::StageAttr>(dist::kStageAttr);
  analysis::StageWork work;
  work.slots = info.getSlots();
  llvm::StringMap<unsigned> numbers;
  for (StepProgram &program : programs) {
    func::FuncOp function = program.function;
    analysis::TimedProgram timed{function.getSymName().str(), program.estimate.timePs()};
    for (auto op : function.front().getOps<dist::TransferOpInterface>()) {
      for (dist::PeerAttr peer : program.runs > 0 ? op.getPeers() : SmallVector<dist::PeerAttr>()) {
        if (op.isSource()) {
          const analysis::Link link = analysis::stageLink(hosts, devices, peer.getStage(), info.getIndex());
          timed.receives.push_back({peer.getStage(), peer.getChannel(), analysis::stageMessagePs(op.getBytes(), link)});
        } else {
          timed.sends.push_back({peer.getStage(), peer.getChannel()});
          bytesSent += program.runs * op.getBytes();
        }
      }
    }
    numbers[timed.name] = work.programs.size();
    work.programs.push_back(std::move(timed));
  }
  for (auto part : stage->getAttrOfType<ArrayAttr>(dist::kOrderAttr).getAsRange<dist::RepeatAttr>()) {
    for (int64_t round = 0; round < part.getCount(); ++round) {
      for (auto run : part.getRuns().getAsRange<dist::RunAttr>()) {
        work.order.push_back({numbers.lookup(run.getProgram()), run.getMicroBatch() + round * part.getStride()});
      }
    }
  }
  return work;
}

} // namespace

FailureOr<Forecast> forecast(ModuleOp module, const pipelines::Variant &variant, const job::Job &job) {
  PassManager passes(module.getContext());
  passes.enableVerifier(false); // of many forecasts one is compiled, and verified then
  pipelines::addOptimizerParallelPasses(passes, variant);
  pipelines::addDistPasses(passes, variant, /*verifies=*/false);
  if (failed(passes.run(module))) {
    return failure();
  }
  dist::HostsAttr hosts = cost::hostsOf(module.getContext(), cost::machineOf(job, variant.target), /*devicesPerRank=*/1);
  std::vector<analysis::StageWork> works;
  Forecast whole;
  const auto moves = module->getAttrOfType<IntegerAttr>(dist::kRecomputeMovesAttr);
  for (ModuleOp each : report::programsOf(module)) {
    std::vector<StepProgram> programs = estimateAll(each, variant);
    Forecast part = sumRuns(programs);
    lower::MemoryUse memory = MemoryCount(each, programs, variant).count();
    if (variant.pipeline) {
      dist::MeshOp mesh = dist::findMesh(each);
      works.push_back(workOf(each, programs, hosts, mesh ? mesh.getMesh().numDevices() : 1, part.bytesSent));
    }
    memory = memory.bytes() < whole.memory.bytes() ? whole.memory : memory;
    const int64_t bytesSent = std::max(part.bytesSent, whole.bytesSent);
    whole = part.stepPs < whole.stepPs ? whole : part; // the busiest stage
    whole.memory = memory;
    whole.bytesSent = bytesSent;
  }
  if (variant.pipeline) {
    analysis::Timeline timeline = analysis::playStages(works);
    whole.stepPs = timeline.timePs;
    whole.bubble = timeline.bubble();
  }
  whole.recomputeMoves = moves ? moves.getInt() : 0;
  return whole;
}

} // namespace ashlar::planning
