// SPDX-License-Identifier: Apache-2.0
//
// The stages of a pipeline: a variant each, one after the other in the image. A rank runs one of them but knows all, so that ranks need not
// exchange their sizes.

#ifndef ASHLAR_RUNTIME_BASE_STAGES_H
#define ASHLAR_RUNTIME_BASE_STAGES_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"

namespace ashlar::rt {

// Returns the tensor of that name; null when the variant has none.
const ashlar_rt_tensor *findTensor(const ashlar_rt_variant &variant, const char *name);

// Returns the number of slots of a variant, at least 1.
uint64_t slotsOf(const ashlar_rt_variant &variant);

// All stages of the pipeline of `variant`, in order: it alone where there is no pipeline.
class Stages {
public:
  // Assumes that the variant stands among the other stages, as in an image, and that these outlive this.
  explicit Stages(const ashlar_rt_variant &variant);

  // Number of stages, at least 1.
  uint32_t size() const { return count; }

  // The variant of a stage.
  const ashlar_rt_variant &operator[](uint32_t stage) const { return first[stage]; }
  const ashlar_rt_variant *begin() const { return first; }
  const ashlar_rt_variant *end() const { return first + count; }

  // The last stage, which has the loss.
  const ashlar_rt_variant &last() const { return first[count - 1]; }

  // Returns the tensor of that name in the first stage that has one; null when none has.
  const ashlar_rt_tensor *find(const char *name) const;

  // Checks that they fit together: numbered in turn, of one name and one mesh, with one device a process. `available`: how many variants
  // the image has from the first of these on.
  Status check(uint32_t available) const;

private:
  const ashlar_rt_variant *first;
  uint32_t count;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_STAGES_H
