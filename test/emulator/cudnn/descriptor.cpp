// SPDX-License-Identifier: Apache-2.0
//
// Which attributes there are, and what is refused when they are set and read.

#include "test/emulator/cudnn/descriptor.h"

#include "test/emulator/driver/settings.h"

#include <algorithm>

namespace ashlar::emulator {
namespace {

enum class Access { Required, Optional, Result };

struct Rule {
  cudnnBackendDescriptorType_t kind;
  cudnnBackendAttributeName_t attribute;
  const char *name;
  cudnnBackendAttributeType_t type;
  int64_t most = 1; // elements
  Access access = Access::Required;
  cudnnBackendDescriptorType_t part = CUDNN_BACKEND_POINTWISE_DESCRIPTOR; // kind of a CUDNN_TYPE_BACKEND_DESCRIPTOR
};

constexpr auto kTensor = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
constexpr auto kConvolution = CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR;
constexpr auto kForward = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR; // as a part: any operation
constexpr auto kData = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
constexpr auto kFilter = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
constexpr auto kProduct = CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
constexpr auto kElements = CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
constexpr auto kReduction = CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR;
constexpr auto kView = CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
constexpr auto kGraph = CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
constexpr auto kHeuristic = CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
constexpr auto kConfig = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
constexpr auto kEngine = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
constexpr auto kPlan = CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
constexpr auto kPack = CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
constexpr int64_t kDims = CUDNN_DIM_MAX, kMany = 1024;

#define ASHLAR_CUDNN_ATTRIBUTE(name) CUDNN_ATTR_##name, "CUDNN_ATTR_" #name
#define ASHLAR_CUDNN_PART(name, kind) ASHLAR_CUDNN_ATTRIBUTE(name), CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, Access::Required, kind
constexpr Rule kRules[] = {
    {kTensor, ASHLAR_CUDNN_ATTRIBUTE(TENSOR_UNIQUE_ID), CUDNN_TYPE_INT64},
    {kTensor, ASHLAR_CUDNN_ATTRIBUTE(TENSOR_DATA_TYPE), CUDNN_TYPE_DATA_TYPE},
    {kTensor, ASHLAR_CUDNN_ATTRIBUTE(TENSOR_BYTE_ALIGNMENT), CUDNN_TYPE_INT64},
    {kTensor, ASHLAR_CUDNN_ATTRIBUTE(TENSOR_DIMENSIONS), CUDNN_TYPE_INT64, kDims},
    {kTensor, ASHLAR_CUDNN_ATTRIBUTE(TENSOR_STRIDES), CUDNN_TYPE_INT64, kDims},
    {kTensor, ASHLAR_CUDNN_ATTRIBUTE(TENSOR_IS_VIRTUAL), CUDNN_TYPE_BOOLEAN, 1, Access::Optional},
    {kTensor, ASHLAR_CUDNN_ATTRIBUTE(TENSOR_IS_BY_VALUE), CUDNN_TYPE_BOOLEAN, 1, Access::Optional},
    {CUDNN_BACKEND_MATMUL_DESCRIPTOR, ASHLAR_CUDNN_ATTRIBUTE(MATMUL_COMP_TYPE), CUDNN_TYPE_DATA_TYPE},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, ASHLAR_CUDNN_ATTRIBUTE(POINTWISE_MODE), CUDNN_TYPE_POINTWISE_MODE},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, ASHLAR_CUDNN_ATTRIBUTE(POINTWISE_MATH_PREC), CUDNN_TYPE_DATA_TYPE},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, ASHLAR_CUDNN_ATTRIBUTE(POINTWISE_AXIS), CUDNN_TYPE_INT64, 1, Access::Optional},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, ASHLAR_CUDNN_ATTRIBUTE(REDUCTION_COMP_TYPE), CUDNN_TYPE_DATA_TYPE},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, ASHLAR_CUDNN_ATTRIBUTE(REDUCTION_OPERATOR), CUDNN_TYPE_REDUCTION_OPERATOR_TYPE},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, ASHLAR_CUDNN_ATTRIBUTE(REDUCTION_IS_DETERMINISTIC), CUDNN_TYPE_BOOLEAN, 1, Access::Optional},
    {kProduct, ASHLAR_CUDNN_PART(OPERATION_MATMUL_ADESC, kTensor)},
    {kProduct, ASHLAR_CUDNN_PART(OPERATION_MATMUL_BDESC, kTensor)},
    {kProduct, ASHLAR_CUDNN_PART(OPERATION_MATMUL_CDESC, kTensor)},
    {kProduct, ASHLAR_CUDNN_PART(OPERATION_MATMUL_DESC, CUDNN_BACKEND_MATMUL_DESCRIPTOR)},
    {kElements, ASHLAR_CUDNN_PART(OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_BACKEND_POINTWISE_DESCRIPTOR)},
    {kElements, ASHLAR_CUDNN_PART(OPERATION_POINTWISE_XDESC, kTensor)},
    {kElements, ASHLAR_CUDNN_ATTRIBUTE(OPERATION_POINTWISE_BDESC), CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, Access::Optional, kTensor},
    {kElements, ASHLAR_CUDNN_ATTRIBUTE(OPERATION_POINTWISE_TDESC), CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, Access::Optional, kTensor},
    {kElements, ASHLAR_CUDNN_PART(OPERATION_POINTWISE_YDESC, kTensor)},
    {kElements, ASHLAR_CUDNN_ATTRIBUTE(OPERATION_POINTWISE_ALPHA1), CUDNN_TYPE_FLOAT, 1, Access::Optional},
    {kElements, ASHLAR_CUDNN_ATTRIBUTE(OPERATION_POINTWISE_ALPHA2), CUDNN_TYPE_FLOAT, 1, Access::Optional},
    {kReduction, ASHLAR_CUDNN_PART(OPERATION_REDUCTION_DESC, CUDNN_BACKEND_REDUCTION_DESCRIPTOR)},
    {kReduction, ASHLAR_CUDNN_PART(OPERATION_REDUCTION_XDESC, kTensor)},
    {kReduction, ASHLAR_CUDNN_PART(OPERATION_REDUCTION_YDESC, kTensor)},
    {kView, ASHLAR_CUDNN_PART(OPERATION_RESHAPE_XDESC, kTensor)},
    {kView, ASHLAR_CUDNN_PART(OPERATION_RESHAPE_YDESC, kTensor)},
    {kConvolution, ASHLAR_CUDNN_ATTRIBUTE(CONVOLUTION_COMP_TYPE), CUDNN_TYPE_DATA_TYPE},
    {kConvolution, ASHLAR_CUDNN_ATTRIBUTE(CONVOLUTION_CONV_MODE), CUDNN_TYPE_CONVOLUTION_MODE},
    {kConvolution, ASHLAR_CUDNN_ATTRIBUTE(CONVOLUTION_SPATIAL_DIMS), CUDNN_TYPE_INT64},
    {kConvolution, ASHLAR_CUDNN_ATTRIBUTE(CONVOLUTION_PRE_PADDINGS), CUDNN_TYPE_INT64, kDims - 2},
    {kConvolution, ASHLAR_CUDNN_ATTRIBUTE(CONVOLUTION_POST_PADDINGS), CUDNN_TYPE_INT64, kDims - 2},
    {kConvolution, ASHLAR_CUDNN_ATTRIBUTE(CONVOLUTION_DILATIONS), CUDNN_TYPE_INT64, kDims - 2},
    {kConvolution, ASHLAR_CUDNN_ATTRIBUTE(CONVOLUTION_FILTER_STRIDES), CUDNN_TYPE_INT64, kDims - 2},
    {kForward, ASHLAR_CUDNN_PART(OPERATION_CONVOLUTION_FORWARD_CONV_DESC, kConvolution)},
    {kForward, ASHLAR_CUDNN_PART(OPERATION_CONVOLUTION_FORWARD_X, kTensor)},
    {kForward, ASHLAR_CUDNN_PART(OPERATION_CONVOLUTION_FORWARD_W, kTensor)},
    {kForward, ASHLAR_CUDNN_PART(OPERATION_CONVOLUTION_FORWARD_Y, kTensor)},
    {kForward, ASHLAR_CUDNN_ATTRIBUTE(OPERATION_CONVOLUTION_FORWARD_ALPHA), CUDNN_TYPE_FLOAT},
    {kForward, ASHLAR_CUDNN_ATTRIBUTE(OPERATION_CONVOLUTION_FORWARD_BETA), CUDNN_TYPE_FLOAT},
    {kData, ASHLAR_CUDNN_PART(OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, kConvolution)},
    {kData, ASHLAR_CUDNN_PART(OPERATION_CONVOLUTION_BWD_DATA_DX, kTensor)},
    {kData, ASHLAR_CUDNN_PART(OPERATION_CONVOLUTION_BWD_DATA_W, kTensor)},
    {kData, ASHLAR_CUDNN_PART(OPERATION_CONVOLUTION_BWD_DATA_DY, kTensor)},
    {kData, ASHLAR_CUDNN_ATTRIBUTE(OPERATION_CONVOLUTION_BWD_DATA_ALPHA), CUDNN_TYPE_FLOAT},
    {kData, ASHLAR_CUDNN_ATTRIBUTE(OPERATION_CONVOLUTION_BWD_DATA_BETA), CUDNN_TYPE_FLOAT},
    {kFilter, ASHLAR_CUDNN_PART(OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, kConvolution)},
    {kFilter, ASHLAR_CUDNN_PART(OPERATION_CONVOLUTION_BWD_FILTER_X, kTensor)},
    {kFilter, ASHLAR_CUDNN_PART(OPERATION_CONVOLUTION_BWD_FILTER_DW, kTensor)},
    {kFilter, ASHLAR_CUDNN_PART(OPERATION_CONVOLUTION_BWD_FILTER_DY, kTensor)},
    {kFilter, ASHLAR_CUDNN_ATTRIBUTE(OPERATION_CONVOLUTION_BWD_FILTER_ALPHA), CUDNN_TYPE_FLOAT},
    {kFilter, ASHLAR_CUDNN_ATTRIBUTE(OPERATION_CONVOLUTION_BWD_FILTER_BETA), CUDNN_TYPE_FLOAT},
    {kGraph, ASHLAR_CUDNN_ATTRIBUTE(OPERATIONGRAPH_HANDLE), CUDNN_TYPE_HANDLE},
    {kGraph, ASHLAR_CUDNN_ATTRIBUTE(OPERATIONGRAPH_OPS), CUDNN_TYPE_BACKEND_DESCRIPTOR, kMany, Access::Required, kForward},
    {kHeuristic, ASHLAR_CUDNN_PART(ENGINEHEUR_OPERATION_GRAPH, kGraph)},
    {kHeuristic, ASHLAR_CUDNN_ATTRIBUTE(ENGINEHEUR_MODE), CUDNN_TYPE_HEUR_MODE},
    {kHeuristic, ASHLAR_CUDNN_ATTRIBUTE(ENGINEHEUR_RESULTS), CUDNN_TYPE_BACKEND_DESCRIPTOR, kMany, Access::Result, kConfig},
    {kConfig, ASHLAR_CUDNN_ATTRIBUTE(ENGINECFG_ENGINE), CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, Access::Result, kEngine},
    {kEngine, ASHLAR_CUDNN_ATTRIBUTE(ENGINE_GLOBAL_INDEX), CUDNN_TYPE_INT64, 1, Access::Result},
    {kEngine, ASHLAR_CUDNN_ATTRIBUTE(ENGINE_NUMERICAL_NOTE), CUDNN_TYPE_NUMERICAL_NOTE, kMany, Access::Result},
    {kPlan, ASHLAR_CUDNN_ATTRIBUTE(EXECUTION_PLAN_HANDLE), CUDNN_TYPE_HANDLE},
    {kPlan, ASHLAR_CUDNN_PART(EXECUTION_PLAN_ENGINE_CONFIG, kConfig)},
    {kPlan, ASHLAR_CUDNN_ATTRIBUTE(EXECUTION_PLAN_WORKSPACE_SIZE), CUDNN_TYPE_INT64, 1, Access::Result},
    {kPack, ASHLAR_CUDNN_ATTRIBUTE(VARIANT_PACK_DATA_POINTERS), CUDNN_TYPE_VOID_PTR, kMany},
    {kPack, ASHLAR_CUDNN_ATTRIBUTE(VARIANT_PACK_UNIQUE_IDS), CUDNN_TYPE_INT64, kMany},
    {kPack, ASHLAR_CUDNN_ATTRIBUTE(VARIANT_PACK_WORKSPACE), CUDNN_TYPE_VOID_PTR, 1, Access::Optional},
};
#undef ASHLAR_CUDNN_ATTRIBUTE
#undef ASHLAR_CUDNN_PART

// Returns null when descriptors of the kind do not have it.
const Rule *ruleOf(cudnnBackendDescriptorType_t kind, cudnnBackendAttributeName_t attribute) {
  const auto *found = std::find_if(std::begin(kRules), std::end(kRules),
                                   [&](const Rule &rule) { return rule.kind == kind && rule.attribute == attribute; });
  return found == std::end(kRules) ? nullptr : found;
}

size_t elementSize(cudnnBackendAttributeType_t type) {
  switch (type) {
  case CUDNN_TYPE_BOOLEAN:
    return sizeof(bool);
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_VOID_PTR:
    return 8;
  default:
    return 4; // f32 and enumerations
  }
}

std::map<cudnnBackendDescriptor_t, DescriptorPtr> &descriptors() {
  static auto *all = new std::map<cudnnBackendDescriptor_t, DescriptorPtr>;
  return *all;
}

// Refuses what set and get refuse alike.
cudnnStatus_t check(const Rule *rule, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) {
  if (!rule) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "attribute " + std::to_string(name) + " is none of the descriptor, or not played");
  }
  return type == rule->type ? CUDNN_STATUS_SUCCESS
                            : refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, std::string(rule->name) + " is of another type");
}

} // namespace

cudnnStatus_t refuse(cudnnStatus_t status, const std::string &reason) {
  say("cuDNN: " + reason);
  return status;
}

DescriptorPtr Descriptor::of(cudnnBackendDescriptor_t handle) {
  const auto found = descriptors().find(handle);
  return found == descriptors().end() ? nullptr : found->second;
}

cudnnBackendDescriptor_t Descriptor::create(cudnnBackendDescriptorType_t kind) {
  if (std::none_of(std::begin(kRules), std::end(kRules), [&](const Rule &rule) { return rule.kind == kind; })) {
    return nullptr;
  }
  auto descriptor = std::make_shared<Descriptor>();
  descriptor->kind = kind;
  return descriptors().try_emplace(descriptor.get(), descriptor).first->first;
}

bool Descriptor::destroy(cudnnBackendDescriptor_t handle) {
  return descriptors().erase(handle) != 0;
}

bool Descriptor::isOperation() const {
  return isConvolution() || kind == kProduct || kind == kElements || kind == kReduction || kind == kView;
}

bool Descriptor::isConvolution() const {
  return kind == kForward || kind == kData || kind == kFilter;
}

cudnnStatus_t Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void *elements) {
  const Rule *rule = ruleOf(kind, name);
  if (const cudnnStatus_t refused = check(rule, name, type)) {
    return refused;
  }
  if (finalized || rule->access == Access::Result) {
    return refuse(CUDNN_STATUS_BAD_PARAM, std::string(rule->name) + " is set after the descriptor was finalized, or is a result");
  }
  if (count < 1 || count > rule->most || !elements) {
    return refuse(CUDNN_STATUS_BAD_PARAM, std::string(rule->name) + " is set to " + std::to_string(count) + " elements");
  }
  Values values;
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto *bytes = static_cast<const std::byte *>(elements);
    values.bytes.assign(bytes, bytes + size_t(count) * elementSize(type));
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const DescriptorPtr part = of(static_cast<const cudnnBackendDescriptor_t *>(elements)[i]);
      if (!part || (rule->part == kForward ? !part->isOperation() : part->kind != rule->part)) {
        return refuse(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, std::string(rule->name) + " is set to a descriptor of another kind");
      }
      if (!part->finalized) {
        return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, std::string(rule->name) + " is set to a descriptor that is not finalized");
      }
      values.parts.push_back(part);
    }
  }
  attributes[name] = std::move(values);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Descriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t requested, int64_t *count,
                              void *elements) const {
  const Rule *rule = ruleOf(kind, name);
  if (!finalized) {
    return refuse(CUDNN_STATUS_NOT_INITIALIZED, "an attribute is read before the descriptor is finalized");
  }
  if (const cudnnStatus_t refused = check(rule, name, type)) {
    return refused;
  }
  if (requested < 0 || (requested > 0 && !elements)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, std::string(rule->name) + " is read to nowhere");
  }
  const auto found = attributes.find(name);
  const Values values = found == attributes.end() ? Values() : found->second;
  const bool named = type == CUDNN_TYPE_BACKEND_DESCRIPTOR;
  const auto total = int64_t(named ? values.parts.size() : values.bytes.size() / elementSize(type));
  const int64_t given = requested == 0 ? 0 : std::min(requested, total);
  if (count) {
    *count = requested == 0 ? total : given;
  }
  if (!named && given != 0) {
    std::memcpy(elements, values.bytes.data(), size_t(given) * elementSize(type));
  }
  for (int64_t i = 0; named && i < given; ++i) {
    const DescriptorPtr target = of(static_cast<const cudnnBackendDescriptor_t *>(elements)[i]);
    if (!target || target->kind != rule->part || target->finalized) {
      return refuse(CUDNN_STATUS_BAD_PARAM, std::string(rule->name) + " is read into what is no new descriptor of its kind");
    }
    *target = *values.parts[size_t(i)];
  }
  return CUDNN_STATUS_SUCCESS;
}

const char *Descriptor::missing() const {
  for (const Rule &rule : kRules) {
    if (rule.kind == kind && rule.access == Access::Required && attributes.count(rule.attribute) == 0) {
      return rule.name;
    }
  }
  return nullptr;
}

} // namespace ashlar::emulator
