// SPDX-License-Identifier: Apache-2.0
//
// Each convolution is a graph of one operation. The library's dims are batch, channels, spatial; that the channels are last, the strides
// say.

#include "runtime/kernels/cuda/convolution_plan.h"

#include "runtime/abi/memory_sizes.h"
#include "runtime/base/dtype.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>

namespace ashlar::rt {
namespace {

// Of every buffer, as far as engines ask.
constexpr int64_t kOperandAlignment = 16;

// The tensors in the order of the buffers, by kind.
constexpr ConvolutionTensor kOrder[3][3] = {{kX, kWeights, kY}, {kY, kWeights, kX}, {kX, kY, kWeights}};

// An operation, its name in the library, and its attributes.
struct Operation {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, weights, y, convolution, alpha, beta;
};

constexpr Operation kForward = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr Operation kData = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr Operation kFilter = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

const Operation &operationOf(const ashlar_rt_conv_desc &desc) {
  return desc.kind == ASHLAR_RT_CONV_FORWARD ? kForward : desc.kind == ASHLAR_RT_CONV_DATA ? kData : kFilter;
}

bool toCudnnType(uint32_t dtype, cudnnDataType_t &type) {
  switch (dtype) {
  case ASHLAR_RT_F32:
    type = CUDNN_DATA_FLOAT;
    return true;
  case ASHLAR_RT_F16:
    type = CUDNN_DATA_HALF;
    return true;
  case ASHLAR_RT_BF16:
    type = CUDNN_DATA_BFLOAT16;
    return true;
  default:
    return false;
  }
}

// One number of each spatial dim, of which the library wants at least two.
using DimNumber = int64_t ashlar_rt_conv_dim::*;
std::vector<int64_t> spatial(const ashlar_rt_conv_desc &desc, DimNumber number) {
  std::vector<int64_t> numbers;
  for (size_t i = desc.spatial_dims < 3 ? 1 : 0; i < std::size(desc.dims); ++i) {
    numbers.push_back(desc.dims[i].*number);
  }
  return numbers;
}

// The shapes of the tensors: batch or outputs, channels, spatial dims.
std::vector<int64_t> shape(const ashlar_rt_conv_desc &desc, ConvolutionTensor id) {
  std::vector<int64_t> dims = spatial(desc, id == kX   ? &ashlar_rt_conv_dim::in
                                            : id == kY ? &ashlar_rt_conv_dim::out
                                                       : &ashlar_rt_conv_dim::kernel);
  int64_t channelsIn = desc.groups * desc.channels_in, channelsOut = desc.groups * desc.channels_out;
  dims.insert(dims.begin(), {id == kWeights ? channelsOut : desc.batch, id == kWeights ? desc.channels_in
                                                                        : id == kX     ? channelsIn
                                                                                       : channelsOut});
  return dims;
}

Status describe(CudnnDescriptor &tensor, const ashlar_rt_conv_desc &desc, ConvolutionTensor id, cudnnDataType_t type) {
  std::vector<int64_t> dims = shape(desc, id), strides(dims.size());
  int64_t stride = dims[1];
  for (size_t i = dims.size(); i-- > 2;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  strides[0] = stride;
  strides[1] = 1;
  ASHLAR_RETURN_IF_ERROR(tensor.create(CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  ASHLAR_RETURN_IF_ERROR(tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, static_cast<int64_t>(id)));
  ASHLAR_RETURN_IF_ERROR(tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type));
  ASHLAR_RETURN_IF_ERROR(tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kOperandAlignment));
  ASHLAR_RETURN_IF_ERROR(tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims));
  return tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
}

Status describe(CudnnDescriptor &convolution, const ashlar_rt_conv_desc &desc) {
  std::vector<int64_t> padding = spatial(desc, &ashlar_rt_conv_dim::low);
  ASHLAR_RETURN_IF_ERROR(convolution.create(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
  ASHLAR_RETURN_IF_ERROR(convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT));
  ASHLAR_RETURN_IF_ERROR(convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION));
  ASHLAR_RETURN_IF_ERROR(convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, static_cast<int64_t>(padding.size())));
  ASHLAR_RETURN_IF_ERROR(convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, padding));
  ASHLAR_RETURN_IF_ERROR(convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, padding));
  ASHLAR_RETURN_IF_ERROR(convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, spatial(desc, &ashlar_rt_conv_dim::dilation)));
  return convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, spatial(desc, &ashlar_rt_conv_dim::stride));
}

// A relaxation and its word in ASHLAR_CUDNN_RELAX.
struct RelaxationWord {
  Relaxation relaxation;
  const char *word;
};

// In the order in which promises are waived: what costs memory alone first, what changes bits from run to run last.
constexpr RelaxationWord kWords[] = {
    {kMoreWorkspace, "workspace"}, {kTf32, "tf32"}, {kTransforms, "winograd"}, {kNondeterministic, "nondeterministic"}};

const char *nameOf(cudnnBackendNumericalNote_t note) {
  switch (note) {
  case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
    return "TENSOR_CORE";
  case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    return "DOWN_CONVERT_INPUTS";
  case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    return "REDUCED_PRECISION_REDUCTION";
  case CUDNN_NUMERICAL_NOTE_FFT:
    return "FFT";
  case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    return "NONDETERMINISTIC";
  case CUDNN_NUMERICAL_NOTE_WINOGRAD:
    return "WINOGRAD";
  case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
    return "WINOGRAD_TILE_4x4";
  case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    return "WINOGRAD_TILE_6x6";
  case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
    return "WINOGRAD_TILE_13x13";
  case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
    return "STRICT_NAN_PROP";
  default:
    return "a note that is not known";
  }
}

} // namespace

const ConvolutionTensor (&tensorsOf(const ashlar_rt_conv_desc &desc))[3] {
  return kOrder[desc.kind - ASHLAR_RT_CONV_FORWARD];
}

int64_t elementsOf(const ashlar_rt_conv_desc &desc, ConvolutionTensor tensor) {
  const std::vector<int64_t> dims = shape(desc, tensor);
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

Status readRelaxations(const char *text, uint32_t &relaxations) {
  relaxations = 0;
  for (std::string_view rest = text != nullptr ? text : ""; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const auto *known = std::find_if(std::begin(kWords), std::end(kWords), [&](const RelaxationWord &each) { return word == each.word; });
    if (known == std::end(kWords)) {
      return invalid("ASHLAR_CUDNN_RELAX={}: \"{}\" is not one of {}; give some of these, with commas between", text, word,
                     relaxationWords(~0U));
    }
    relaxations |= known->relaxation;
  }
  return Status();
}

std::string relaxationWords(uint32_t relaxations) {
  std::string text;
  for (const RelaxationWord &each : kWords) {
    if ((relaxations & each.relaxation) != 0) {
      text += (text.empty() ? "" : ",") + std::string(each.word);
    }
  }
  return text;
}

std::string EngineTrial::text() const {
  std::string plan = !isPlanned ? "not planned" : runs ? fmt::format("{}, {} bytes of workspace", status, workspaceBytes) : status;
  std::string broken = relaxationWords(needs);
  broken = broken.empty() ? "" : "; needs " + broken;
  return fmt::format("engine {}: {}; {}{}{}", number, notes, plan, broken, (needs & kNever) != 0 ? "; never exact" : "");
}

bool ConvolutionPlan::isOf(const ashlar_rt_conv_desc &other, uint32_t otherDtype) const {
  return dtype == otherDtype && std::memcmp(&desc, &other, sizeof(desc)) == 0;
}

// Describes everything but the engine.
Status ConvolutionPlan::layOut(cudnnHandle_t owner, const char *name) {
  handle = owner;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  if (!toCudnnType(dtype, type)) {
    return internal("{}: a convolution of {} on cuda", name, dtypeName(dtype));
  }
  auto finalize = [this](CudnnDescriptor &descriptor) { return dnn.check(descriptor.finalize(), "cannot describe a convolution"); };
  const Operation &kind = operationOf(desc);
  const std::pair<ConvolutionTensor, cudnnBackendAttributeName_t> parts[] = {{kX, kind.x}, {kWeights, kind.weights}, {kY, kind.y}};
  ASHLAR_RETURN_IF_ERROR(describe(convolution, desc));
  ASHLAR_RETURN_IF_ERROR(finalize(convolution));
  ASHLAR_RETURN_IF_ERROR(operation.create(kind.type));
  for (size_t i = 0; i < std::size(parts); ++i) {
    ASHLAR_RETURN_IF_ERROR(describe(tensors[i], desc, parts[i].first, type));
    ASHLAR_RETURN_IF_ERROR(finalize(tensors[i]));
    ASHLAR_RETURN_IF_ERROR(operation.set(parts[i].second, tensors[i]));
  }
  ASHLAR_RETURN_IF_ERROR(operation.set(kind.convolution, convolution));
  ASHLAR_RETURN_IF_ERROR(operation.set(kind.alpha, CUDNN_TYPE_FLOAT, 1.0f));
  ASHLAR_RETURN_IF_ERROR(operation.set(kind.beta, CUDNN_TYPE_FLOAT, 0.0f));
  ASHLAR_RETURN_IF_ERROR(finalize(operation));
  ASHLAR_RETURN_IF_ERROR(graph.create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  ASHLAR_RETURN_IF_ERROR(graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle));
  ASHLAR_RETURN_IF_ERROR(graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation));
  return finalize(graph);
}

// Lists the engines that the library proposes, its best first.
Status ConvolutionPlan::propose(cudnnBackendHeurMode_t mode, std::vector<CudnnDescriptor> &configurations) const {
  CudnnDescriptor heuristic(dnn);
  ASHLAR_RETURN_IF_ERROR(heuristic.create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
  ASHLAR_RETURN_IF_ERROR(heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph));
  ASHLAR_RETURN_IF_ERROR(heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode));
  int64_t count = 0;
  if (heuristic.finalize() != CUDNN_STATUS_SUCCESS ||
      dnn.cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr) !=
          CUDNN_STATUS_SUCCESS) {
    return Status(); // it knows none
  }
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int64_t i = 0; i < count; ++i) {
    configurations.emplace_back(dnn);
    ASHLAR_RETURN_IF_ERROR(configurations.back().create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    handles.push_back(configurations.back().get());
  }
  ASHLAR_RETURN_IF_ERROR(dnn.check(dnn.cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                                CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, handles.data()),
                                   "cannot list the engines of a convolution"));
  configurations.erase(configurations.begin() + count, configurations.end());
  return Status();
}

// Returns the promise that an engine with the note breaks: to give the same bits each time, to sum in f32 the products of the operands as
// they are, and to pass on what is not finite to those elements alone whose windows hold it.
uint32_t ConvolutionPlan::waivedBy(cudnnBackendNumericalNote_t note) const {
  switch (note) {
  case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: // of f32: in tf32
    return dtype == ASHLAR_RT_F32 && desc.allow_tf32 == 0 ? kTf32 : 0;
  case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
    return 0;
  case CUDNN_NUMERICAL_NOTE_FFT:
  case CUDNN_NUMERICAL_NOTE_WINOGRAD:
  case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
  case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
  case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
    return kTransforms;
  case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    return kNondeterministic;
  default:
    return kNever;
  }
}

Status ConvolutionPlan::readNotes(EngineTrial &trial) const {
  CudnnDescriptor engine(dnn);
  ASHLAR_RETURN_IF_ERROR(engine.create(CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  cudnnBackendDescriptor_t owned = engine.get();
  int64_t count = 0;
  ASHLAR_RETURN_IF_ERROR(dnn.check(dnn.cudnnBackendGetAttribute(trial.configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                                                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &owned),
                                   "cannot ask for the engine of a convolution"));
  (void)dnn.cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count,
                                     &trial.number); // for messages only
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  ASHLAR_RETURN_IF_ERROR(dnn.check(dnn.cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                                                CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes),
                                   "cannot ask for the notes of an engine"));
  for (int64_t i = 0; i < count; ++i) {
    trial.notes += (i == 0 ? "" : " ") + std::string(nameOf(notes[i]));
    trial.needs |= waivedBy(notes[i]);
  }
  trial.notes = count == 0 ? "no notes" : trial.notes;
  return Status();
}

Status ConvolutionPlan::proposeAll() {
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    std::vector<CudnnDescriptor> configurations;
    ASHLAR_RETURN_IF_ERROR(propose(mode, configurations));
    for (CudnnDescriptor &configuration : configurations) {
      EngineTrial &trial = trials.emplace_back(dnn);
      trial.configuration = std::move(configuration);
      ASHLAR_RETURN_IF_ERROR(readNotes(trial));
    }
  }
  return Status();
}

// Finalizes the plan of an engine, once: it may compile kernels.
Status ConvolutionPlan::plan(EngineTrial &trial) const {
  if (trial.isPlanned) {
    return Status();
  }
  trial.isPlanned = true;
  ASHLAR_RETURN_IF_ERROR(trial.execution.create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
  ASHLAR_RETURN_IF_ERROR(trial.execution.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle));
  ASHLAR_RETURN_IF_ERROR(trial.execution.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, trial.configuration));
  const cudnnStatus_t result = trial.execution.finalize();
  trial.status = dnn.cudnnGetErrorString(result);
  trial.runs = result == CUDNN_STATUS_SUCCESS;
  if (!trial.runs) {
    return Status();
  }
  int64_t count = 0;
  ASHLAR_RETURN_IF_ERROR(dnn.check(dnn.cudnnBackendGetAttribute(trial.execution.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                                CUDNN_TYPE_INT64, 1, &count, &trial.workspaceBytes),
                                   "cannot ask for the workspace of a convolution"));
  trial.needs |= trial.workspaceBytes > static_cast<int64_t>(kConvolutionWorkspaceBytes) ? kMoreWorkspace : 0;
  return Status();
}

Status ConvolutionPlan::planAll() {
  for (EngineTrial &trial : trials) {
    ASHLAR_RETURN_IF_ERROR(plan(trial));
  }
  return Status();
}

Status ConvolutionPlan::choose(uint32_t relaxations, uint64_t mostBytes, const char *name) {
  ASHLAR_RETURN_IF_ERROR(proposeAll());
  uint32_t waived = 0;
  auto take = [&]() {
    for (EngineTrial &trial : trials) {
      if ((trial.needs & ~waived) != 0) {
        continue;
      }
      ASHLAR_RETURN_IF_ERROR(plan(trial));
      const bool fits = (trial.needs & ~waived) == 0 && static_cast<uint64_t>(trial.workspaceBytes) <= mostBytes;
      if (trial.runs && fits) {
        taken = static_cast<size_t>(&trial - trials.data());
        return Status();
      }
    }
    return Status();
  };
  ASHLAR_RETURN_IF_ERROR(take());
  for (const RelaxationWord &each : kWords) {
    if (chosen() == nullptr && (relaxations & each.relaxation) != 0) {
      waived |= each.relaxation;
      ASHLAR_RETURN_IF_ERROR(take());
    }
  }
  if (chosen() != nullptr) {
    return Status();
  }
  ASHLAR_RETURN_IF_ERROR(planAll());
  return unavailable("{}: cuDNN {} {}", name, dnn.cudnnGetVersion(), refusal(relaxations, mostBytes));
}

// Says why none of the engines would do, and what would let one.
std::string ConvolutionPlan::refusal(uint32_t relaxations, uint64_t mostBytes) const {
  uint32_t least = kNever;
  std::string engines;
  for (const EngineTrial &trial : trials) {
    engines += (engines.empty() ? "" : "; ") + fmt::format("({})", trial.text());
    least = trial.runs ? std::min(least, trial.needs) : least;
  }
  std::string remedy;
  if (least < kNever) {
    remedy = (least & ~relaxations) != 0
                 ? fmt::format("; ASHLAR_CUDNN_RELAX={} takes one all the same", relaxationWords(least | relaxations))
                 : fmt::format("; there are {} bytes for a workspace", mostBytes);
  }
  return fmt::format("has no engine for the {} of batch {}, {} groups, channels {} to {} of {}; {} proposed{}{}{}",
                     desc.kind == ASHLAR_RT_CONV_FORWARD ? "convolution"
                     : desc.kind == ASHLAR_RT_CONV_DATA  ? "data gradient"
                                                         : "weight gradient",
                     desc.batch, desc.groups, desc.channels_in, desc.channels_out, dtypeName(dtype), trials.size(),
                     trials.empty() ? "" : ": ", engines, remedy);
}

} // namespace ashlar::rt
