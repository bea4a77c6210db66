// SPDX-License-Identifier: Apache-2.0
//
// exec ops -> tables. One function a struct of the ABI, in the order of the header, bottom up.

#include "compiler/target/image_emitter.h"

#include "compiler/report/sentences.h"
#include "compiler/target/abi_numbers.h"
#include "compiler/target/components.h"
#include "compiler/target/host_code.h"
#include "compiler/target/table_writer.h"
#include "dialects/dist/dist.h"
#include "dialects/exec/exec.h"
#include "dialects/nn/programs.h"
#include "dialects/support/element_type.h"
#include "passes/lower/calls/library_attention.h"
#include "passes/lower/calls/library_convolution.h"
#include "passes/lower/calls/library_product.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/xxhash.h"

namespace ashlar::target {
namespace {

using llvm::Constant;
using llvm::SmallVector;

// The owner of a tensor or an instruction, as the ABI has it.
uint32_t ownerOf(mlir::Operation *op) {
  std::optional<int64_t> owner = exec::getOwner(op);
  return owner ? static_cast<uint32_t>(*owner) + 1 : 0;
}

// Returns the number that stands on an op; 0 where there is none.
uint64_t numberOf(mlir::Operation *op, llvm::StringRef attribute) {
  auto number = op->getAttrOfType<mlir::IntegerAttr>(attribute);
  return number ? static_cast<uint64_t>(number.getInt()) : 0;
}

class ImageEmitter {
public:
  ImageEmitter(llvm::Module &module, llvm::ArrayRef<DeviceCode> deviceCodes) : module(module), table(module), deviceCodes(deviceCodes) {}

  llvm::Error emit(mlir::ModuleOp program, const ImageInfo &info, const IncludedFile &constants) {
    SmallVector<Constant *> variants;
    for (auto op : program.getOps<exec::VariantOp>()) {
      variants.push_back(variant(op, info));
    }
    if (!programWithoutRole.empty()) {
      return llvm::createStringError("program %s has no role; give it nn.program, as #nn.program<train_step>", programWithoutRole.c_str());
    }
    if (!missingKernel.empty()) {
      return llvm::createStringError("kernel %s is called by a program but was not generated", missingKernel.c_str());
    }
    Constant *variantTable = table.array(variants);
    Constant *trainingTable = info.training ? table.global(training(*info.training)) : table.null();
    Constant *constantBytes = include(constants, "ashlar_constants");
    Constant *exportTable = info.training ? table.global(exportedModel(info.exported)) : table.null();
    Constant *generation = info.context ? table.global(table.record<ashlar_rt_generation>({table.u64(*info.context)})) : table.null();
    // Kernels that are code of a device leave nothing that is made for this CPU.
    Constant *cpuFeatures = deviceCodes.empty() ? table.optionalString(hostCpuFeatures()) : table.null();
    Constant *deviceTable = table.array(llvm::map_to_vector(deviceCodes, [&](const DeviceCode &code) { return deviceCode(code); }));
    Constant *modelName = table.string(info.modelName), *targetName = table.string(info.target);
    Constant *refusal = table.optionalString(info.deterministicRefusal), *plan = table.string(info.plan);
    Constant *image = table.global(table.record<ashlar_rt_image>({table.u32(ASHLAR_RT_ABI_VERSION),
                                                                  modelName,
                                                                  targetName,
                                                                  table.u64(hash(info, constants)),
                                                                  constantBytes,
                                                                  table.u64(constants.bytes),
                                                                  table.u64(info.seed),
                                                                  table.optionalString(info.seedTensor),
                                                                  table.optionalString(info.stepTensor),
                                                                  table.u32(variants.size()),
                                                                  variantTable,
                                                                  trainingTable,
                                                                  generation,
                                                                  refusal,
                                                                  plan,
                                                                  cpuFeatures,
                                                                  table.u32(deviceCodes.size()),
                                                                  deviceTable,
                                                                  table.u64(info.memoryLimit),
                                                                  exportTable}));
    referToComponents(program, info, module);
    addMain(image);
    addNote(llvm::cast<llvm::GlobalVariable>(image));
    return llvm::Error::success();
  }

private:
  Constant *buffer(exec::BufferAttr buffer) {
    mlir::MemRefType type = buffer.getType();
    return table.record<ashlar_rt_buffer>({table.u32(spaceOf(buffer.getSpace())), table.u32(dtypeOf(type.getElementType())),
                                           table.u64(buffer.getOffset()), table.u64(byteSize(type)), table.u32(buffer.getStrides().size()),
                                           table.i64Array(buffer.getStrides())});
  }

  Constant *tensor(exec::TensorOp op) {
    SmallVector<Constant *> splits;
    for (auto axes : op.getSplits().getAsRange<mlir::DenseI64ArrayAttr>()) {
      splits.push_back(table.record<ashlar_rt_dim_split>({table.u32(axes.size()), table.u32Array(axes.asArrayRef())}));
    }
    llvm::ArrayRef<int64_t> shape = op.getBuffer().getType().getShape();
    return table.record<ashlar_rt_tensor>({table.string(op.getOutsideName().value_or(op.getSymName())), table.u32(roleOf(op.getRole())),
                                           table.u32(shape.size()), table.i64Array(shape), table.i64Array(op.getGlobalShape()),
                                           table.array(splits), buffer(op.getBuffer()), table.u32(op.getPersistent()),
                                           table.optionalString(op.getStateOf().value_or("")), table.u32(ownerOf(op)),
                                           counts(op.getCountsAttr())});
  }

  // The names of the outputs that have the sizes of a tensor's dims.
  Constant *counts(mlir::ArrayAttr names) {
    if (!names) {
      return table.null();
    }
    SmallVector<Constant *> pointers;
    for (auto name : names.getAsRange<mlir::StringAttr>()) {
      pointers.push_back(table.optionalString(name.getValue()));
    }
    return table.array(pointers);
  }

  Constant *instruction(exec::KernelOp op) {
    Constant *function = table.null(), *entry = table.null();
    if (!deviceCodes.empty()) {
      entry = table.string(op.getCallee());
    } else if (llvm::GlobalValue *found = module.getNamedValue(op.getCallee())) { // a function, or another name of one
      function = found;
    } else {
      missingKernel = op.getCallee().str();
      return nullptr;
    }
    Constant *desc = table.record<ashlar_rt_kernel_desc>({function, entry, table.u64(op.getExtent()), table.u64(op.getGrain())});
    return instruction(op, ASHLAR_RT_KERNEL, op.getCallee(), desc);
  }

  Constant *instruction(exec::GemmOp op) { return instruction(op, ASHLAR_RT_GEMM, "gemm", table.numbers(lower::describeProduct(op))); }

  Constant *instruction(exec::ConvOp op) {
    llvm::StringRef name = op.getKind() == exec::ConvKind::Forward ? "conv"
                           : op.getKind() == exec::ConvKind::Data  ? "conv_data"
                                                                   : "conv_weights";
    return instruction(op, ASHLAR_RT_CONV, name, table.numbers(lower::describeConvolution(op)));
  }

  Constant *instruction(exec::AttentionOp op) {
    const ashlar_rt_attention_desc desc = lower::describeAttention(op);
    auto strides = llvm::map_to_vector(desc.mask_strides, [&](int64_t stride) { return table.u64(stride); });
    Constant *record = table.record<ashlar_rt_attention_desc>({table.u32(desc.kind),
                                                               table.u32(desc.dtype),
                                                               table.u64(desc.batch),
                                                               table.u64(desc.heads),
                                                               table.u64(desc.key_heads),
                                                               table.u64(desc.rows),
                                                               table.u64(desc.keys),
                                                               table.u64(desc.width),
                                                               table.u64(desc.value_width),
                                                               table.u64(desc.diagonal),
                                                               table.u64(desc.window),
                                                               table.u32(desc.causal),
                                                               table.u32(desc.mask),
                                                               table.u64(desc.positions),
                                                               table.u64(desc.heads_inside),
                                                               strides[0],
                                                               strides[1],
                                                               strides[2],
                                                               strides[3],
                                                               table.f32(desc.scale),
                                                               table.f32(desc.softcap),
                                                               table.f32(desc.dropout),
                                                               table.f32(desc.kept)});
    return instruction(op, ASHLAR_RT_ATTENTION, op.getBackward() ? "attention_gradients" : "attention", record);
  }

  Constant *instruction(exec::InsertOp op) {
    Constant *record = table.record<ashlar_rt_insert_desc>(
        {table.u64(op.getOuter()), table.u64(op.getRows()), table.u64(op.getPlaces()), table.u64(op.getRowBytes())});
    return instruction(op, ASHLAR_RT_INSERT, "insert", record);
  }

  Constant *instruction(exec::CollectiveOp op) {
    SmallVector<Constant *> tensors;
    for (auto [source, split, concat] :
         llvm::zip_equal(op.getSources().getAsRange<exec::BufferAttr>(), op.getSplitDims(), op.getConcatDims())) {
      llvm::ArrayRef<int64_t> shape = source.getType().getShape();
      tensors.push_back(
          table.record<ashlar_rt_collective_tensor>({table.u32(shape.size()), table.i64Array(shape), table.u32(split), table.u32(concat)}));
    }
    mlir::Type element = mlir::cast<exec::BufferAttr>(op.getSources()[0]).getType().getElementType();
    llvm::ArrayRef<int64_t> pairs = op.getPairs().value_or(llvm::ArrayRef<int64_t>());
    exec::OverlapAttr overlap = op.getOverlapAttr();
    Constant *desc = table.record<ashlar_rt_collective_desc>(
        {table.u32(kindOf(op.getKind())), table.u32(dtypeOf(element)), table.u32(reductionOf(op.getReduction())),
         table.u32(op.getAxes().size()), table.u32Array(op.getAxes()), table.u32(tensors.size()), table.array(tensors),
         table.u32(op.getRoot()), table.u32(pairs.size() / 2), table.u32Array(pairs), table.string(report::causeText(op)),
         table.u32(op.getToken().value_or(0)), table.u64(overlap ? overlap.getDurationNs() : 0),
         table.u64(overlap ? overlap.getHiddenNs() : 0), halo(op), table.u64(numberOf(op, exec::kMessagesAttr)),
         table.u64(numberOf(op, exec::kSentAttr))});
    return instruction(op, ASHLAR_RT_COLLECTIVE, stringifyCollectiveKind(op.getKind()), desc);
  }

  // What a halo moves along its dim; null for another collective.
  Constant *halo(exec::CollectiveOp op) {
    if (!op.getSegments()) {
      return table.null();
    }
    llvm::ArrayRef<int64_t> meshSizes = op->getParentOfType<exec::VariantOp>().getAxisSizes(), numbers = *op.getSegments();
    auto sizes = llvm::map_to_vector(op.getAxes(), [&](int64_t axis) { return meshSizes[axis]; });
    auto segments = [&](size_t i) {
      return table.record<ashlar_rt_segments>(llvm::map_to_vector(numbers.slice(i, 4), [&](int64_t n) { return table.u64(n); }));
    };
    return table.global(table.record<ashlar_rt_halo>({table.u64(numbers[0]), segments(1), segments(5), table.u32Array(sizes)}));
  }

  Constant *instruction(exec::WaitOp op) {
    return instruction(op, ASHLAR_RT_WAIT, "wait", table.record<ashlar_rt_wait_desc>({table.u32(op.getToken())}));
  }

  Constant *instruction(exec::CopyOp op) { return instruction(op, ASHLAR_RT_COPY, "copy", nullptr); }

  // A repeat names the number of the instructions behind it.
  Constant *instruction(exec::RepeatOp op) {
    uint64_t inside = 0;
    op.getBody().walk([&](mlir::Operation *) { ++inside; });
    return instruction(op, op.getUses(), ASHLAR_RT_REPEAT, "repeat",
                       table.record<ashlar_rt_repeat_desc>({table.u64(op.getCount()), table.u32(inside)}));
  }

  Constant *instruction(exec::InstrOpInterface op, ashlar_rt_instr_kind kind, llvm::StringRef what, Constant *desc) {
    return instruction(op, op.getUses(), kind, what, desc);
  }

  // An instruction; `desc` is null for a copy. Its name is what it is and where in the model it comes from: "gemm fc1/Gemm".
  Constant *instruction(mlir::Operation *op, llvm::ArrayRef<exec::BufferUse> uses, ashlar_rt_instr_kind kind, llvm::StringRef what,
                        Constant *desc) {
    SmallVector<Constant *> buffers;
    SmallVector<uint32_t> accesses;
    for (const exec::BufferUse &use : uses) {
      buffers.push_back(buffer(use.buffer));
      accesses.push_back((use.isRead ? ASHLAR_RT_READ : 0) | (use.isWritten ? ASHLAR_RT_WRITE : 0));
    }
    llvm::StringRef path = nn::getPath(op->getLoc());
    std::string name = path.empty() ? what.str() : (what + " " + path).str();
    return table.record<ashlar_rt_instr>({table.u32(kind), table.string(name), table.u32(buffers.size()), table.array(buffers),
                                          table.u32Array(accesses), desc ? table.global(desc) : table.null(), table.u32(ownerOf(op)),
                                          table.u64(numberOf(op, exec::kTimeAttr))});
  }

  Constant *program(exec::ProgramOp op, const llvm::StringMap<uint32_t> &tensorIndex) {
    SmallVector<Constant *> instructions;
    op.getBody().walk<mlir::WalkOrder::PreOrder>([&](mlir::Operation *instr) {
      Constant *record = llvm::TypeSwitch<mlir::Operation *, Constant *>(instr)
                             .Case<exec::KernelOp, exec::GemmOp, exec::ConvOp, exec::AttentionOp, exec::InsertOp, exec::CollectiveOp,
                                   exec::WaitOp, exec::CopyOp, exec::RepeatOp>([&](auto typed) { return instruction(typed); });
      if (record) {
        instructions.push_back(record);
      }
    });
    auto indices = [&](mlir::ArrayAttr symbols) {
      return llvm::map_to_vector(symbols.getAsRange<mlir::FlatSymbolRefAttr>(),
                                 [&](mlir::FlatSymbolRefAttr symbol) { return tensorIndex.lookup(symbol.getValue()); });
    };
    SmallVector<uint32_t> inputs = indices(op.getInputs()), outputs = indices(op.getOutputs());
    return table.record<ashlar_rt_program>(
        {table.string(op.getSymName()), programId(op), table.u32(instructions.size()), table.array(instructions), table.u32(inputs.size()),
         table.u32Array(inputs), table.u32(outputs.size()), table.u32Array(outputs), table.u32(countOf(op.getReceivesAttr())),
         transfers(op.getReceivesAttr(), tensorIndex), table.u32(countOf(op.getSendsAttr())), transfers(op.getSendsAttr(), tensorIndex),
         table.u64(op.getPredictedNs().value_or(0)), table.u64(numberOf(op, exec::kOtherTimeAttr))});
  }

  Constant *programId(exec::ProgramOp op) {
    nn::ProgramAttr role = nn::programOf(op);
    if (!role) {
      programWithoutRole = op.getSymName().str();
      return table.record<ashlar_rt_program_id>({table.u32(0), table.u32(0), table.u32(0), table.u32(0)});
    }
    const uint32_t joined = (role.getPrepares() ? ASHLAR_RT_PREPARES : 0) | (role.getUpdates() ? ASHLAR_RT_UPDATES : 0);
    return table.record<ashlar_rt_program_id>(
        {table.u32(roleOf(role.getRole())), table.u32(role.getChunk()), table.u32(role.getRound()), table.u32(joined)});
  }

  static size_t countOf(mlir::ArrayAttr list) { return list ? list.size() : 0; }

  Constant *transfers(mlir::ArrayAttr list, const llvm::StringMap<uint32_t> &tensorIndex) {
    SmallVector<Constant *> records;
    for (mlir::Attribute each : list ? list.getValue() : llvm::ArrayRef<mlir::Attribute>()) {
      auto transfer = mlir::cast<exec::TransferAttr>(each);
      records.push_back(table.record<ashlar_rt_transfer>({table.u32(tensorIndex.lookup(transfer.getTensor().getValue())),
                                                          table.u32(transfer.getStage()), table.u32(transfer.getChannel())}));
    }
    return table.array(records);
  }

  // The order of a step; of one micro-batch it is one run.
  Constant *order(exec::VariantOp op, const ImageInfo &info, const llvm::StringMap<uint32_t> &programIndex) {
    SmallVector<Constant *> runs, repeats;
    auto addRun = [&](llvm::StringRef program, int64_t microBatch, bool takesBatch) {
      runs.push_back(table.record<ashlar_rt_run>({table.u32(programIndex.lookup(program)), table.u32(microBatch), table.u32(takesBatch)}));
    };
    auto addRepeat = [&](size_t begin, int64_t count, int64_t stride) {
      repeats.push_back(table.record<ashlar_rt_repeat>({table.u32(begin), table.u32(runs.size()), table.u32(count), table.u32(stride)}));
    };
    if (mlir::ArrayAttr parts = op.getOrderAttr()) {
      for (auto part : parts.getAsRange<exec::RepeatAttr>()) {
        size_t begin = runs.size();
        for (auto run : part.getRuns().getAsRange<exec::RunAttr>()) {
          addRun(run.getProgram().getValue(), run.getMicroBatch(), run.getTakesBatch());
        }
        addRepeat(begin, part.getCount(), part.getStride());
      }
    } else if (info.training) {
      for (auto program : op.getBody().getOps<exec::ProgramOp>()) {
        if (nn::hasRole(program, nn::ProgramRole::TrainStep)) {
          addRun(program.getSymName(), 0, /*takesBatch=*/true);
        }
      }
      addRepeat(0, 1, 0);
    }
    return table.record<ashlar_rt_order>({table.u32(runs.size()), table.array(runs), table.u32(repeats.size()), table.array(repeats)});
  }

  Constant *variant(exec::VariantOp op, const ImageInfo &info) {
    SmallVector<Constant *> axes, tensors, programs;
    for (auto [name, size] : llvm::zip_equal(op.getAxisNames().getAsRange<mlir::StringAttr>(), op.getAxisSizes())) {
      axes.push_back(table.record<ashlar_rt_axis>({table.string(name.getValue()), table.u32(size)}));
    }
    llvm::StringMap<uint32_t> tensorIndex;
    for (auto tensorOp : op.getBody().getOps<exec::TensorOp>()) {
      tensorIndex[tensorOp.getSymName()] = tensors.size();
      tensors.push_back(tensor(tensorOp));
    }
    llvm::StringMap<uint32_t> programIndex;
    for (auto programOp : op.getBody().getOps<exec::ProgramOp>()) {
      programIndex[programOp.getSymName()] = programs.size();
      programs.push_back(program(programOp, tensorIndex));
    }
    return table.record<ashlar_rt_variant>({table.string(op.getOutsideName().value_or(op.getSymName())), table.u32(axes.size()),
                                            table.array(axes), table.u32(op.getDevicesPerProcess()), table.u64(op.getArenaBytes()),
                                            table.u64(op.getCoordinatesOffset()), table.u32(tensors.size()), table.array(tensors),
                                            table.u32(programs.size()), table.array(programs),
                                            table.u32Array(op.getDeviceIds().value_or(llvm::ArrayRef<int64_t>())), table.u32(op.getStage()),
                                            table.u32(op.getNumStages()), table.u64(op.getSlotsOffset()), table.u64(op.getSlotBytes()),
                                            table.u32(op.getNumSlots()), order(op, info, programIndex), links(op)});
  }

  // Links, one an axis or a stage.
  Constant *linkTable(dist::CostsAttr costs) {
    auto messageCost = [&](int64_t latencyNs, int64_t bytesPerUs) {
      return table.record<ashlar_rt_message_cost>({table.u64(latencyNs), table.u64(bytesPerUs)});
    };
    SmallVector<Constant *> links;
    for (auto [index, latencyNs, bytesPerUs] : llvm::enumerate(costs.getLatencyNs(), costs.getBytesPerUs())) {
      SmallVector<Constant *> kinds(ASHLAR_RT_HALO + 1, messageCost(latencyNs, bytesPerUs));
      for (dist::KindCostsAttr kind : costs.getKinds()) {
        kinds[kindOf(kind.getKind())] = messageCost(kind.getLatencyNs()[index], kind.getBytesPerUs()[index]);
      }
      Constant *byKind = llvm::ConstantArray::get(llvm::ArrayType::get(kinds[0]->getType(), kinds.size()), kinds);
      links.push_back(table.record<ashlar_rt_link>({byKind, table.u32(llvm::is_contained(costs.getBeside(), index))}));
    }
    return table.array(links);
  }

  // The links for which the times of a variant were predicted; null where nothing is known of them.
  Constant *links(exec::VariantOp op) {
    auto hosts = op->getAttrOfType<dist::HostsAttr>(exec::kHostsAttr);
    if (!hosts) {
      return table.null();
    }
    auto rateOf = [&](size_t link) { // of messages
      ArrayRef<dist::KindCostsAttr> kinds = hosts.getLinks().getKinds();
      const auto *own = llvm::find_if(kinds, [](dist::KindCostsAttr kind) { return kind.getKind() == CollectiveKind::Permute; });
      return (own == kinds.end() ? hosts.getLinks().getBytesPerUs() : own->getBytesPerUs())[link];
    };
    return table.global(table.record<ashlar_rt_links>(
        {table.u64(hosts.getRanksPerHost()), table.u64(hosts.getAdapters()), table.u32(hosts.getRails()), table.u64(hosts.getHostsPerPod()),
         table.u64(hosts.getUplinks()), table.u64(rateOf(1)), table.u64(hosts.getHostsPerPod() == 0 ? 0 : rateOf(2)),
         table.u64(numberOf(op, exec::kHandOverAttr)), linkTable(op->getAttrOfType<dist::CostsAttr>(exec::kLinksAttr)),
         linkTable(op->getAttrOfType<dist::CostsAttr>(exec::kStageLinksAttr))}));
  }

  Constant *feature(const FeatureInfo &info) {
    auto transforms = llvm::map_to_vector(info.transforms, [&](const TransformInfo &transform) {
      return table.record<ashlar_rt_transform>(
          {table.u32(transform.kind), table.u32(transform.numbers.size()), table.f64Array(transform.numbers)});
    });
    return table.record<ashlar_rt_feature>({table.string(info.column), table.string(info.tensor), table.u32(transforms.size()),
                                            table.array(transforms), table.u64(info.classes), table.u64(info.ignoredLabel.value_or(0)),
                                            table.u64(info.tableRows)});
  }

  Constant *dataset(const DatasetInfo &info) {
    auto features = llvm::map_to_vector(info.features, [&](const FeatureInfo &item) { return feature(item); });
    Constant *params = llvm::ConstantDataArray::get(table.context(), llvm::ArrayRef<double>(info.params));
    return table.record<ashlar_rt_dataset>({table.string(info.format), table.optionalString(info.directoryFormat),
                                            table.optionalString(info.trainFiles), table.optionalString(info.evalFiles),
                                            table.optionalString(info.categories), table.u64(info.trainSamples),
                                            table.u64(info.evalSamples), params, table.u32(info.shuffle), table.u32(info.dropRemainder),
                                            table.u64(info.repeat), table.u32(features.size()), table.array(features)});
  }

  Constant *training(const TrainingInfo &info) {
    llvm::SmallVector<Constant *> fields;
    fields.append({dataset(info.dataset), table.u64(info.globalBatch), table.u64(info.epochs), table.u64(info.logEvery)});
    fields.append({table.string(info.lossTensor), table.optionalString(info.correctTensor), table.optionalString(info.rowsTensor)});
    fields.append({table.optionalString(info.samplesTensor), table.optionalString(info.weightTensor), table.f64(info.leastWeight)});
    fields.append({table.u64(info.accumulate), table.string(info.checkpointPrefix), table.u64(info.checkpointEvery)});
    fields.append({table.u64(info.checkpointKeep), table.u32(info.savesCheckpoints), table.u32(info.savesOnSignal)});
    fields.append(
        {table.u32(info.stopsOnNonfinite), table.optionalString(info.badNormsTensor), table.optionalString(info.skippedStepsTensor)});
    fields.append({table.optionalString(info.learningRateTensor), table.optionalString(info.gradientNormTensor)});
    fields.append({table.f64(info.learningRate), table.u64(info.peakFlopsPerUs), table.u64(info.narrowPeakFlopsPerUs)});
    return table.record<ashlar_rt_training>(fields);
  }

  Constant *exportedModel(const ExportInfo &info) {
    auto holes = llvm::map_to_vector(info.holes, [&](const ExportHoleInfo &hole) {
      return table.record<ashlar_rt_export_hole>({table.u64(hole.offset), table.string(hole.variable), table.u32(dtypeOf(hole.type)),
                                                  table.u32(hole.isTransposed), table.u64(hole.bytes)});
    });
    return table.record<ashlar_rt_export>({include(info.file, "ashlar_export"), table.u64(info.file.bytes), table.u32(holes.size()),
                                           table.array(holes), table.optionalString(info.dataFile), table.optionalString(info.refusal)});
  }

  Constant *deviceCode(const DeviceCode &code) {
    Constant *bytes = include(code.file, "ashlar_code_" + code.arch);
    return table.record<ashlar_rt_device_code>({table.string(code.arch), bytes, table.u64(code.file.bytes)});
  }

  // Has the assembler take in the bytes of the file under a hidden symbol. The section is a large one: only the image's pointer refers to
  // it, so it may be of any size.
  Constant *include(const IncludedFile &file, const std::string &symbol) {
    if (file.bytes == 0) {
      return table.null();
    }
    std::string path;
    llvm::raw_string_ostream(path).write_escaped(file.path); // the assembler reads the same escapes
    module.appendModuleInlineAsm(".section .lrodata." + symbol + ",\"al\",@progbits\n.balign 64\n.globl " + symbol + "\n.hidden " + symbol +
                                 "\n" + symbol + ":\n.incbin \"" + path + "\"\n.text");
    auto *variable = new llvm::GlobalVariable(module, llvm::ArrayType::get(llvm::Type::getInt8Ty(table.context()), file.bytes),
                                              /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage, nullptr, symbol);
    variable->setVisibility(llvm::GlobalValue::HiddenVisibility);
    return variable;
  }

  // Returns a number that differs, all but surely, when any table, kernel or constant differs.
  uint64_t hash(const ImageInfo &info, const IncludedFile &constants) {
    std::string asmText = module.getModuleInlineAsm(), text;
    module.setModuleInlineAsm(""); // holds the name of a temporary file
    llvm::raw_string_ostream out(text);
    module.print(out, nullptr);
    out << constants.hash << " " << info.exported.file.hash << " " << info.seed;
    for (const DeviceCode &code : deviceCodes) {
      out << " " << code.file.hash;
    }
    module.setModuleInlineAsm(asmText);
    return llvm::xxh3_64bits(text);
  }

  void addMain(Constant *image) {
    llvm::LLVMContext &context = table.context();
    auto *i32 = llvm::Type::getInt32Ty(context);
    auto *pointer = llvm::PointerType::get(context, 0);
    llvm::FunctionCallee runtime = module.getOrInsertFunction("ashlar_rt_main", i32, pointer, i32, pointer);
    auto *mainType = llvm::FunctionType::get(i32, {i32, pointer}, /*isVarArg=*/false);
    auto *mainFunction = llvm::Function::Create(mainType, llvm::GlobalValue::ExternalLinkage, "main", module);
    llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "", mainFunction));
    builder.CreateRet(builder.CreateCall(runtime, {image, mainFunction->getArg(0), mainFunction->getArg(1)}));
  }

  // Puts a note into the executable, for tools that read it: version and the distance to the image. It stays without symbols.
  void addNote(llvm::GlobalVariable *image) {
    image->setName(ASHLAR_RT_NOTE_NAME "_image");
    image->setLinkage(llvm::GlobalValue::ExternalLinkage);
    image->setVisibility(llvm::GlobalValue::HiddenVisibility);
    const size_t nameBytes = sizeof(ASHLAR_RT_NOTE_NAME);
    std::string text;
    llvm::raw_string_ostream(text) << ".section .note.ashlar,\"a\",@note\n.balign 4\n.long " << nameBytes << ", 16, " << ASHLAR_RT_NOTE_TYPE
                                   << "\n.asciz \"" << ASHLAR_RT_NOTE_NAME << "\"\n.balign 4\n.quad " << ASHLAR_RT_ABI_VERSION << "\n.quad "
                                   << image->getName() << " - .\n.text";
    module.appendModuleInlineAsm(text);
  }

  llvm::Module &module;
  TableWriter table;
  llvm::ArrayRef<DeviceCode> deviceCodes;
  std::string programWithoutRole;
  std::string missingKernel;
};

} // namespace

llvm::Error emitImage(mlir::ModuleOp program, const ImageInfo &info, const IncludedFile &constants, llvm::Module &host,
                      llvm::ArrayRef<DeviceCode> deviceCodes) {
  return ImageEmitter(host, deviceCodes).emit(program, info, constants);
}

} // namespace ashlar::target
