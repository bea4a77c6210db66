// SPDX-License-Identifier: Apache-2.0
//
// Rules -> attributes. Fan-in dependent bounds are computed here, so that the nn dialect knows only distributions.

#include "compiler/frontend/weights/init_rules.h"

#include "compiler/frontend/import_error.h"
#include "dialects/nn/nn.h"

#include <cmath>

using namespace mlir;

namespace ashlar::frontend {

namespace {

// Returns the elements of a window of a convolution's weights, whose dims are those from 2 on; 1 for a matrix or vector.
int64_t fieldOf(RankedTensorType type) {
  return ShapedType::getNumElements(type.getShape().drop_front(std::min<int64_t>(type.getRank(), 2)));
}

} // namespace

Attribute makeInitAttribute(const job::Init &rule, StringRef name, RankedTensorType type) {
  MLIRContext *context = type.getContext();
  auto fail = [&](const Twine &fact) {
    throw ImportError("init rule \"" + rule.match() + "\" for parameter \"" + name + "\" of rank " + Twine(type.getRank()) + ": " + fact);
  };
  if (type.getNumElements() == 0) {
    fail("it has no elements");
  }
  switch (rule.kind_case()) {
  case job::Init::kFill:
    return nn::FillAttr::get(context, rule.fill());
  case job::Init::kUniform:
    return nn::UniformAttr::get(context, rule.uniform().low(), rule.uniform().high());
  case job::Init::kNormal:
    return nn::NormalAttr::get(context, rule.normal().mean(), rule.normal().std());
  case job::Init::kKaimingUniform: {
    int64_t dim = rule.kaiming_uniform().fan_in_dim();
    if (dim >= type.getRank()) {
      fail("kaiming_uniform has fan_in_dim " + Twine(dim) + "; give it another rule before this one");
    }
    int64_t fanIn = type.getDimSize(dim) * (dim < 2 ? fieldOf(type) : 1);
    double a = rule.kaiming_uniform().a(), bound = std::sqrt(6 / ((1 + a * a) * static_cast<double>(fanIn)));
    return nn::UniformAttr::get(context, -bound, bound);
  }
  case job::Init::kXavierUniform: {
    if (type.getRank() < 2) {
      fail("xavier_uniform needs rank 2 or more; give it another rule before this one");
    }
    double bound = std::sqrt(6.0 / (fieldOf(type) * (type.getDimSize(0) + type.getDimSize(1))));
    return nn::UniformAttr::get(context, -bound, bound);
  }
  case job::Init::KIND_NOT_SET:
    break;
  }
  fail("names no kind");
  return {};
}

} // namespace ashlar::frontend
