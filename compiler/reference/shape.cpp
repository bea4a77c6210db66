// SPDX-License-Identifier: Apache-2.0
//
// nn ops that move elements, by place or by number.

#include "compiler/reference/semantics.h"

#include "dialects/nn/nn.h"

using namespace mlir;

namespace ashlar::reference {

namespace {

Tensor broadcast(Operation *op, ArrayRef<Tensor> operands) {
  ArrayRef<int64_t> dims = cast<nn::BroadcastOp>(op).getDims();
  const Tensor &input = operands[0];
  Tensor result(resultType(op));
  forEachIndex(result.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    Index from;
    for (int64_t dim : dims) {
      from.push_back(index[dim]);
    }
    result.copyElement(i, input, input.linearize(from));
  });
  return result;
}

Tensor reshape(Operation *op, ArrayRef<Tensor> operands) {
  Tensor result(resultType(op));
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    result.copyElement(i, operands[0], i);
  }
  return result;
}

Tensor transpose(Operation *op, ArrayRef<Tensor> operands) {
  ArrayRef<int64_t> permutation = cast<nn::TransposeOp>(op).getPermutation();
  const Tensor &input = operands[0];
  Tensor result(resultType(op));
  forEachIndex(result.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    Index from(index.size());
    for (auto [d, dim] : llvm::enumerate(permutation)) {
      from[dim] = index[d];
    }
    result.copyElement(i, input, input.linearize(from));
  });
  return result;
}

Tensor concat(Operation *op, ArrayRef<Tensor> operands) {
  int64_t dim = cast<nn::ConcatOp>(op).getDim();
  Tensor result(resultType(op));
  int64_t begin = 0;
  for (const Tensor &input : operands) {
    forEachIndex(input.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
      Index to(index);
      to[dim] += begin;
      result.copyElement(result.linearize(to), input, i);
    });
    begin += input.getShape()[dim];
  }
  return result;
}

Tensor slice(Operation *op, ArrayRef<Tensor> operands) {
  auto sliceOp = cast<nn::SliceOp>(op);
  const Tensor &input = operands[0];
  Tensor result(resultType(op));
  forEachIndex(result.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    Index from(index);
    for (size_t d = 0; d < from.size(); ++d) {
      from[d] = sliceOp.getStarts()[d] + index[d] * sliceOp.getSteps()[d];
    }
    result.copyElement(i, input, input.linearize(from));
  });
  return result;
}

Tensor pad(Operation *op, ArrayRef<Tensor> operands) {
  auto padOp = cast<nn::PadOp>(op);
  const Tensor &input = operands[0];
  Tensor result(resultType(op));
  forEachIndex(input.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    Index to(index);
    for (size_t d = 0; d < to.size(); ++d) {
      to[d] = padOp.getLow()[d] + index[d] * (padOp.getInterior()[d] + 1);
    }
    result.copyElement(result.linearize(to), input, i);
  });
  return result;
}

// Calls `body` with every place of the indices and the row that it names, where there is such a row: in all tables of the batch together.
void forEachRow(const Tensor &indices, ArrayRef<int64_t> table, int64_t batch, function_ref<void(int64_t place, int64_t row)> body) {
  const int64_t rows = table[batch], places = llvm::product_of(indices.getShape().drop_front(batch));
  for (int64_t place = 0; place < indices.getNumElements(); ++place) {
    if (int64_t row = indices.getInt(place); row >= 0 && row < rows) {
      body(place, place / places * rows + row);
    }
  }
}

Tensor gather(Operation *op, ArrayRef<Tensor> operands) {
  const Tensor &table = operands[0];
  Tensor result(resultType(op));
  auto batch = static_cast<int64_t>(cast<nn::GatherOp>(op).getBatchDims());
  int64_t width = llvm::product_of(table.getShape().drop_front(batch + 1));
  forEachRow(operands[1], table.getShape(), batch, [&](int64_t place, int64_t row) {
    for (int64_t i = 0; i < width; ++i) {
      result.copyElement(place * width + i, table, row * width + i);
    }
  });
  return result;
}

// Floats are summed in double and rounded once.
Tensor scatterAdd(Operation *op, ArrayRef<Tensor> operands) {
  const Tensor &updates = operands[1];
  Tensor result(resultType(op));
  auto batch = static_cast<int64_t>(cast<nn::ScatterAddOp>(op).getBatchDims());
  int64_t width = llvm::product_of(result.getShape().drop_front(batch + 1));
  std::vector<double> floats(result.getNumElements());
  forEachRow(operands[0], result.getShape(), batch, [&](int64_t place, int64_t row) {
    for (int64_t i = 0; i < width; ++i) {
      int64_t from = place * width + i, to = row * width + i;
      if (result.isFloat()) {
        floats[to] += updates.getFloat(from);
      } else {
        auto sum = static_cast<uint64_t>(result.getInt(to)) + static_cast<uint64_t>(updates.getInt(from)); // wraps around
        result.setInt(to, static_cast<int64_t>(sum));
      }
    }
  });
  for (int64_t i = 0; result.isFloat() && i < result.getNumElements(); ++i) {
    result.setFloat(i, floats[i]);
  }
  return result;
}

} // namespace

void addShapeSemantics(SemanticsTable &table) {
  table.add<nn::BroadcastOp>(broadcast);
  table.add<nn::ReshapeOp>(reshape);
  table.add<nn::TransposeOp>(transpose);
  table.add<nn::ConcatOp>(concat);
  table.add<nn::SliceOp>(slice);
  table.add<nn::PadOp>(pad);
  table.add<nn::GatherOp>(gather);
  table.add<nn::ScatterAddOp>(scatterAdd);
}

} // namespace ashlar::reference
