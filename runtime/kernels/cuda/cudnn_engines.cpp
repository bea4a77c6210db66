// SPDX-License-Identifier: Apache-2.0
//
// Proposals of the library, in its order, and the reasons to pass over them.

#include "runtime/kernels/cuda/cudnn_engines.h"

#include "runtime/abi/ashlar_rt.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace ashlar::rt {
namespace {

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

// Lists the engines that the library proposes, its best first.
Status CudnnEngines::propose(cudnnBackendHeurMode_t mode, std::vector<CudnnDescriptor> &configurations) const {
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
                                   "cannot list the engines of a graph"));
  configurations.erase(configurations.begin() + count, configurations.end());
  return Status();
}

// Returns the promise that an engine with the note breaks: to give the same bits each time, to sum in f32 the products of the operands as
// they are, and to pass on what is not finite to those elements alone whose windows hold it.
uint32_t CudnnEngines::waivedBy(cudnnBackendNumericalNote_t note) const {
  switch (note) {
  case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: // of f32: in tf32
    return operands == EngineOperands::ExactF32 ? kTf32 : 0;
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
  case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    return operands == EngineOperands::RoundedInside ? 0 : kNever;
  default:
    return kNever;
  }
}

Status CudnnEngines::readNotes(EngineTrial &trial) const {
  CudnnDescriptor engine(dnn);
  ASHLAR_RETURN_IF_ERROR(engine.create(CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  cudnnBackendDescriptor_t owned = engine.get();
  int64_t count = 0;
  ASHLAR_RETURN_IF_ERROR(dnn.check(dnn.cudnnBackendGetAttribute(trial.configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                                                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &owned),
                                   "cannot ask for the engine of a configuration"));
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

Status CudnnEngines::proposeAll() {
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
Status CudnnEngines::plan(EngineTrial &trial) const {
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
                                   "cannot ask for the workspace of an engine"));
  trial.needs |= trial.workspaceBytes > static_cast<int64_t>(plannedBytes) ? kMoreWorkspace : 0;
  return Status();
}

Status CudnnEngines::planAll() {
  for (EngineTrial &trial : trials) {
    ASHLAR_RETURN_IF_ERROR(plan(trial));
  }
  return Status();
}

Status CudnnEngines::choose(cudnnHandle_t owner, uint32_t relaxations, uint64_t mostBytes, const char *name, const std::string &what) {
  handle = owner;
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
  return unavailable("{}: cuDNN {} has no engine for {}; {}", name, dnn.cudnnGetVersion(), what, refusal(relaxations, mostBytes));
}

// Says why none of the engines would do, and what would let one.
std::string CudnnEngines::refusal(uint32_t relaxations, uint64_t mostBytes) const {
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
  return fmt::format("{} proposed{}{}{}", trials.size(), trials.empty() ? "" : ": ", engines, remedy);
}

} // namespace ashlar::rt
