// SPDX-License-Identifier: Apache-2.0
//
// Looking things up in the variants of a pipeline.

#include "runtime/base/stages.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {
namespace {

bool haveOneMesh(const ashlar_rt_variant &a, const ashlar_rt_variant &b) {
  return std::equal(a.axes, a.axes + a.num_axes, b.axes, b.axes + b.num_axes, [](const ashlar_rt_axis &one, const ashlar_rt_axis &other) {
    return one.size == other.size && std::strcmp(one.name, other.name) == 0;
  });
}

} // namespace

const ashlar_rt_tensor *findTensor(const ashlar_rt_variant &variant, const char *name) {
  for (uint32_t i = 0; i < variant.num_tensors; ++i) {
    if (std::strcmp(name, variant.tensors[i].name) == 0) {
      return &variant.tensors[i];
    }
  }
  return nullptr;
}

uint64_t slotsOf(const ashlar_rt_variant &variant) {
  return std::max<uint64_t>(variant.num_slots, 1);
}

Stages::Stages(const ashlar_rt_variant &variant)
    : first(variant.num_stages > 1 ? &variant - variant.stage : &variant), count(std::max<uint32_t>(variant.num_stages, 1)) {}

const ashlar_rt_tensor *Stages::find(const char *name) const {
  for (const ashlar_rt_variant &stage : *this) {
    if (const ashlar_rt_tensor *tensor = findTensor(stage, name)) {
      return tensor;
    }
  }
  return nullptr;
}

Status Stages::check(uint32_t available) const {
  if (count == 1) {
    return Status();
  }
  if (available < count) {
    return internal("variant {} has {} stages but the image holds {} from its first on", first->name, count, available);
  }
  for (uint32_t i = 0; i < count; ++i) {
    const ashlar_rt_variant &stage = first[i];
    if (stage.stage != i || stage.num_stages != count || std::strcmp(stage.name, first->name) != 0 || !haveOneMesh(stage, *first)) {
      return internal("variant {} of {} stages: in place of stage {} stands stage {} of {} of {}, or another mesh", first->name, count, i,
                      stage.stage, stage.num_stages, stage.name);
    }
    if (stage.devices_per_process > 1 || stage.device_ids != nullptr) {
      return internal("variant {}: {} devices a process {} device_ids in a pipeline of {} stages", first->name, stage.devices_per_process,
                      stage.device_ids != nullptr ? "and" : "without", count);
    }
  }
  return Status();
}

} // namespace ashlar::rt
