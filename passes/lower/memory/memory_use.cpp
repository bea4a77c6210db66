// SPDX-License-Identifier: Apache-2.0
//
// The count follows the runtime: runtime/execute/cuda/cuda_context.cpp allocates the block of a GPU, and the cpu executor, the pipelines
// and the communicator the memory of a process on the cpu. Where the runtime's choice depends on facts that only it has, the larger one
// counts.

#include "passes/lower/memory/memory_use.h"

#include "dialects/dist/dist.h"
#include "dialects/exec/target_traits.h"
#include "dialects/nn/programs.h"
#include "dialects/support/element_type.h"
#include "passes/analysis/costs.h"
#include "passes/lower/calls/library_attention.h"
#include "passes/lower/calls/library_convolution.h"
#include "passes/lower/calls/library_product.h"
#include "runtime/abi/memory_sizes.h"

#include "llvm/ADT/SetVector.h"

#include <map>
#include <numeric>
#include <set>
#include <tuple>

using namespace mlir;

namespace ashlar::lower {
namespace {

class Counter {
public:
  Counter(exec::VariantOp variant, const MemoryFacts &facts) : variant(variant), facts(facts), traits(exec::traitsOf(facts.target)) {
    perProcess = variant.getDevicesPerProcess();
    devices = std::accumulate(variant.getAxisSizes().begin(), variant.getAxisSizes().end(), int64_t(1), std::multiplies<>());
  }

  MemoryUse count() {
    addTensors();
    add("constants", traits.hasDeviceMemory ? rt::roundUp(facts.constantBytes, rt::kDeviceAlignment) : facts.constantBytes);
    addBatches();
    const uint64_t workspace = callWorkspace(/*hasOrdered=*/true), ordered = orderedBytes();
    add("matrix products", workspace);
    use.threadBytes = traits.fixedWorkspace ? 0 : workspace;
    use.spareBytes = ordered - std::min(ordered, callWorkspace(/*hasOrdered=*/false) - workspace);
    add("ordered weights", ordered);
    if (traits.meetsInSharedMemory) {
      add("synchronization buffers", syncBufferBytes());
      add("messages between hosts", stagingBytes());
    } else {
      add("messages", receivedBytes());
      add("collectives", collectiveWorkspace());
    }
    return std::move(use);
  }

private:
  void add(StringRef name, uint64_t bytes) {
    if (bytes != 0) {
      use.parts.push_back({name.str(), bytes});
    }
  }

  // The arenas, by their content.
  void addTensors() {
    std::map<exec::Role, uint64_t> bytesOf;
    std::map<int64_t, uint64_t> owned; // state of one device alone: states of different ones share a place
    uint64_t largest = 0;
    for (auto tensor : variant.getBody().getOps<exec::TensorOp>()) {
      std::optional<int64_t> owner = exec::getOwner(tensor);
      uint64_t &bytes = owner ? owned[*owner] : bytesOf[tensor.getRole()];
      bool isInSlot = tensor.getBuffer().getSpace() == exec::Space::Slot;
      bytes += byteSize(tensor.getBuffer().getType()) * perProcess * (isInSlot ? variant.getNumSlots() : 1);
      largest = std::max(largest, owner ? bytes : 0);
    }
    bytesOf[exec::Role::State] += largest;
    uint64_t arena = rt::roundUp(variant.getArenaBytes(), traits.hasDeviceMemory ? rt::kDeviceAlignment : rt::kPageBytes) * perProcess;
    uint64_t ports = bytesOf[exec::Role::Input] + bytesOf[exec::Role::Output];
    add("parameters", bytesOf[exec::Role::Variable]);
    add("state", bytesOf[exec::Role::State]);
    add("inputs and outputs", ports);
    add("passed on", bytesOf[exec::Role::Passed]); // from one program of a micro-batch to another
    add("temporaries", arena - bytesOf[exec::Role::Variable] - bytesOf[exec::Role::State] - ports - bytesOf[exec::Role::Passed]);
  }

  // The batches that training takes: the inputs of its programs.
  llvm::SetVector<Attribute> trainingInputs() {
    llvm::SetVector<Attribute> inputs;
    for (auto program : variant.getBody().getOps<exec::ProgramOp>()) {
      bool trains = nn::hasRole(program, nn::ProgramRole::TrainStep) || variant.getOrderAttr();
      for (auto symbol : program.getInputs().getAsRange<FlatSymbolRefAttr>()) {
        auto tensor = cast<exec::TensorOp>(SymbolTable::lookupSymbolIn(variant, symbol.getAttr()));
        if (trains && !nn::isEvaluation(program) && tensor.getRole() == exec::Role::Input) {
          inputs.insert(symbol);
        }
      }
    }
    return inputs;
  }

  // The bytes of one batch of a training step in this process. Devices with the same piece share it.
  uint64_t batchBytes() {
    uint64_t bytes = 0;
    for (Attribute symbol : trainingInputs()) {
      auto tensor = cast<exec::TensorOp>(SymbolTable::lookupSymbolIn(variant, cast<FlatSymbolRefAttr>(symbol).getAttr()));
      bool isSplit = llvm::any_of(tensor.getSplits().getAsRange<DenseI64ArrayAttr>(), [](DenseI64ArrayAttr axes) { return !axes.empty(); });
      bytes += rt::roundUp(byteSize(tensor.getBuffer().getType()), ASHLAR_RT_ALIGNMENT) * (isSplit ? perProcess : 1);
    }
    return bytes;
  }

  void addBatches() {
    const uint64_t batch = batchBytes();
    if (batch == 0) {
      return; // a model gets its inputs at once
    }
    if (traits.hasDeviceMemory) {
      uint64_t bytes = 0;
      for (auto tensor : variant.getBody().getOps<exec::TensorOp>()) {
        bool isInput = tensor.getRole() == exec::Role::Input;
        bytes += isInput ? rt::roundUp(byteSize(tensor.getBuffer().getType()), rt::kDeviceAlignment) : 0;
      }
      return add("batches", rt::kFeeds * bytes);
    }
    add("batches", rt::stagedBytes(batch));
    if (llvm::any_of(variant.getBody().getOps<exec::ProgramOp>(), [](exec::ProgramOp op) { return nn::isEvaluation(op); })) {
      add("batches of --eval", rt::stagedBytes(batch));
    }
  }

  // The workspace of library calls, one after the other; where its size is not fixed, for each thread. `hasOrdered`: weights that the plan
  // orders once are; else each call orders them itself.
  uint64_t callWorkspace(bool hasOrdered) {
    uint64_t most = 0;
    auto ordering = [&](auto desc) {
      desc.fixed_weights = hasOrdered ? desc.fixed_weights : 0;
      return desc;
    };
    variant.getBody().walk([&](exec::GemmOp product) {
      most =
          std::max(most, traits.fixedWorkspace ? rt::kMatmulWorkspaceBytes : rt::productWorkspaceBytes(ordering(describeProduct(product))));
    });
    variant.getBody().walk([&](exec::ConvOp conv) {
      most = std::max(most,
                      traits.fixedWorkspace ? rt::kConvolutionWorkspaceBytes : rt::convWorkspaceBytes(ordering(describeConvolution(conv))));
    });
    variant.getBody().walk([&](exec::AttentionOp op) { most = std::max(most, attentionWorkspace(describeAttention(op), facts.target)); });
    return most;
  }

  // Orders of weights, by the repeat that keeps them, if one does, and their place, with its strides.
  template <typename Desc> using Ordered = std::multimap<std::tuple<Operation *, exec::Space, uint64_t, std::vector<int64_t>>, Desc>;

  // The calls' copies of fixed and kept weights, for each device: once for all calls of the programs, or of a repeat, that read them in one
  // order.
  uint64_t orderedBytes() {
    uint64_t bytes = 0;
    Ordered<ashlar_rt_conv_desc> convolutions;
    Ordered<ashlar_rt_gemm_desc> products;
    variant.getBody().walk([&](exec::ConvOp call) { bytes += addOrdered(call, describeConvolution(call), convolutions); });
    variant.getBody().walk([&](exec::GemmOp call) { bytes += addOrdered(call, describeProduct(call), products); });
    return bytes * perProcess;
  }

  // Returns the bytes that the call adds to the orders that are `known`, by the place of the weights.
  template <typename Desc> static uint64_t addOrdered(exec::FixedWeightsOpInterface call, const Desc &desc, Ordered<Desc> &known) {
    if (!call.getFixedWeights() && !call.getKeptWeights()) {
      return 0;
    }
    Operation *keeper = call.getKeptWeights() ? call->getParentOp() : nullptr; // each repeat keeps its own
    SmallVector<int64_t> strides(call.getWeights().getStrides());
    while (!strides.empty() && strides.back() == 0) {
      strides.pop_back();
    }
    std::tuple place(keeper, call.getWeights().getSpace(), static_cast<uint64_t>(call.getWeights().getOffset()),
                     std::vector<int64_t>(strides.begin(), strides.end()));
    auto [begin, end] = known.equal_range(place);
    if (std::any_of(begin, end, [&](const auto &other) { return rt::ordersAlike(other.second, desc); })) {
      return 0;
    }
    known.insert({place, desc});
    return rt::orderedWeightBytes(desc);
  }

  // This process' share of a host's buffers for waiting.
  uint64_t syncBufferBytes() {
    std::set<std::vector<int64_t>> sets;
    variant.getBody().walk([&](exec::CollectiveOp op) {
      std::vector<int64_t> axes(op.getAxes().begin(), op.getAxes().end());
      llvm::sort(axes);
      sets.insert(std::move(axes));
    });
    uint64_t sends = 0; // of each rank: other stages have about as many
    for (auto program : variant.getBody().getOps<exec::ProgramOp>()) {
      sends += program.getSends() ? program.getSends()->size() : 0;
    }
    uint64_t ranks = std::min<int64_t>(variant.getNumStages() * devices / perProcess, facts.ranksPerHost);
    return llvm::divideCeil(rt::controlBytes(ranks, 1 + sets.size(), ranks * sends), ranks);
  }

  // The most bytes that one process stages for a collective of one group: one collective runs at a time.
  uint64_t stagingBytes() {
    uint64_t most = 0;
    variant.getBody().walk([&](exec::CollectiveOp op) { most = std::max(most, stagingBytes(op)); });
    return most;
  }

  uint64_t stagingBytes(exec::CollectiveOp op) {
    const analysis::GroupsOnHosts groups = analysis::groupsOnHosts(facts.ranksPerHost, perProcess, variant.getAxisSizes(),
                                                                   variant.getDeviceIds().value_or(ArrayRef<int64_t>()), op.getAxes(),
                                                                   /*firstRank=*/variant.getStage() * devices / perProcess);
    uint64_t bytes = 0;
    for (auto source : op.getSources().getAsRange<exec::BufferAttr>()) {
      bytes += rt::roundUp(byteSize(source.getType()), ASHLAR_RT_ALIGNMENT); // adjacent ones are one run
    }
    return groups.hosts == 1 || op.getKind() == CollectiveKind::Slice ? 0 : rt::hostsStaging(groups.members, bytes);
  }

  // Without shared memory a message of each channel that the stage receives on may come before its place is free.
  uint64_t receivedBytes() {
    uint64_t bytes = 0;
    for (auto program : variant.getBody().getOps<exec::ProgramOp>()) {
      for (Attribute each : program.getReceivesAttr() ? program.getReceivesAttr() : ArrayAttr::get(program.getContext(), {})) {
        auto tensor = cast<exec::TensorOp>(SymbolTable::lookupSymbolIn(variant, cast<exec::TransferAttr>(each).getTensor().getAttr()));
        bytes += rt::roundUp(byteSize(tensor.getBuffer().getType()), rt::kDeviceAlignment);
      }
    }
    return bytes;
  }

  // Without shared memory: packed pieces that are not dense, or not in the order of the communicator. Collectives in a row may run
  // together. Devices that send to each other have a word with their progress.
  uint64_t collectiveWorkspace() {
    uint64_t most = 0;
    bool talks = variant.getNumStages() > 1;
    for (auto program : variant.getBody().getOps<exec::ProgramOp>()) {
      uint64_t together = 0;
      program.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
        auto collective = dyn_cast<exec::CollectiveOp>(op);
        together = collective ? together + packedBytes(collective) : 0;
        most = std::max(most, together);
        talks = talks || (collective && collective.getKind() != CollectiveKind::Slice && membersOf(collective) > 1);
      });
    }
    return most + (talks ? rt::kDeviceAlignment : 0);
  }

  uint64_t membersOf(exec::CollectiveOp op) {
    uint64_t members = 1;
    for (int64_t axis : op.getAxes()) {
      members *= variant.getAxisSizes()[axis];
    }
    return members;
  }

  SmallVector<int64_t> sizesOf(ArrayRef<int64_t> axes) {
    return llvm::map_to_vector(axes, [&](int64_t axis) { return variant.getAxisSizes()[axis]; });
  }

  uint64_t packedBytes(exec::CollectiveOp op) {
    const uint64_t members = membersOf(op);
    uint64_t bytes = 0;
    auto aligned = [](exec::BufferAttr buffer) { return rt::roundUp(byteSize(buffer.getType()), rt::kDeviceAlignment); };
    bool inOrder = !variant.getDeviceIds() && llvm::is_sorted(op.getAxes());
    for (auto [source, target, split, concat] :
         llvm::zip_equal(op.getSources().getAsRange<exec::BufferAttr>(), op.getTargets().getAsRange<exec::BufferAttr>(), op.getSplitDims(),
                         op.getConcatDims())) {
      // The pieces along a dim lie one after the other when no dim before it has several places.
      auto isDense = [&](exec::BufferAttr whole, int64_t dim) {
        return inOrder && llvm::all_of(whole.getType().getShape().take_front(dim), [](int64_t size) { return size == 1; });
      };
      if (op.getKind() == CollectiveKind::AllGather) {
        bytes += isDense(target, concat) ? 0 : aligned(target);
      } else if (op.getKind() == CollectiveKind::ReduceScatter) {
        bytes += isDense(source, split) ? 0 : aligned(source);
      } else if (op.getKind() == CollectiveKind::AllToAll) { // sent and received bytes; a piece begins on a boundary of its own
        bytes += aligned(source) + aligned(target) + 2 * members * rt::kDeviceAlignment;
      } else if (op.getKind() == CollectiveKind::Halo && !isDense(source, split)) {
        dist::HaloTraffic traffic = dist::haloTraffic(sizesOf(op.getAxes()), dist::haloOf(*op.getSegments()));
        uint64_t element = byteSize(source.getType()) / source.getType().getDimSize(split);
        bytes += (traffic.mostSent + traffic.mostReceived) * element + 2 * traffic.mostMessages * rt::kDeviceAlignment;
      }
    }
    return members == 1 ? 0 : bytes;
  }

  exec::VariantOp variant;
  const MemoryFacts &facts;
  const exec::TargetTraits &traits;
  int64_t perProcess = 1, devices = 1;
  MemoryUse use;
};

} // namespace

uint64_t MemoryUse::bytes() const {
  return std::accumulate(parts.begin(), parts.end(), uint64_t(0), [](uint64_t sum, const MemoryPart &part) { return sum + part.bytes; });
}

MemoryUse memoryUse(exec::VariantOp variant, const MemoryFacts &facts) {
  return Counter(variant, facts).count();
}

} // namespace ashlar::lower
