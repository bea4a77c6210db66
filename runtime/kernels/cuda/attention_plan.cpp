// SPDX-License-Identifier: Apache-2.0
//
// The library has no operation for an attention and its gradients in all versions: its engines recognise a graph of products, element-wise
// operations and reductions. Operations, their order and their types are those of cuDNN's own front end (NVIDIA/cudnn-frontend,
// scaled_dot_product_flash_attention.h, softmax.h and diagonal_band_mask.h); scores are f32, and in 16 bits where a product reads them.

#include "runtime/kernels/cuda/attention_plan.h"

#include "runtime/base/dtype.h"

#include <cstring>
#include <limits>

namespace ashlar::rt {
namespace {

using Tensor = CudnnGraph::Tensor;

// The front end pads the keys to this number, by tensors of lengths, up to the version.
constexpr int64_t kKeysOfTile = 128;
constexpr size_t kNeedsWholeTiles = 91500;

// So that rows of a mask begin on 16 bytes.
constexpr int64_t kKeysOfMask = 8;

void *onHost(CUdeviceptr address) {
  return reinterpret_cast<void *>(address);
}

} // namespace

bool AttentionPlan::isOf(const ashlar_rt_attention_desc &other) const {
  return std::memcmp(&desc, &other, sizeof(desc)) == 0;
}

// Those of a tensor of the attention with (rows, columns) for each head.
CudnnGraph::Dims AttentionPlan::strides(ashlar_rt_attention_tensor tensor, int64_t rows, int64_t columns) const {
  const bool isInside = (desc.heads_inside & tensor) != 0;
  return {desc.heads * rows * columns, isInside ? columns : rows * columns, isInside ? desc.heads * columns : columns, 1};
}

// A tensor of the attention.
Tensor AttentionPlan::operand(ashlar_rt_attention_tensor tensor, int64_t rows, int64_t columns) {
  return graph.memory(type, {desc.batch, desc.heads, rows, columns}, strides(tensor, rows, columns));
}

// The same memory as (columns, rows).
Tensor AttentionPlan::transposed(ashlar_rt_attention_tensor tensor, int64_t rows, int64_t columns) {
  CudnnGraph::Dims by = strides(tensor, rows, columns);
  std::swap(by[2], by[3]);
  return graph.memory(type, {desc.batch, desc.heads, columns, rows}, by);
}

// (rows, columns) of f32 for each head.
Tensor AttentionPlan::dense(int64_t rows, int64_t columns) {
  return graph.memory(CUDNN_DATA_FLOAT, {desc.batch, desc.heads, rows, columns}, {desc.heads * rows * columns, rows * columns, columns, 1});
}

// The same in no memory.
Tensor AttentionPlan::inner(cudnnDataType_t of, int64_t rows, int64_t columns) {
  return graph.inner(of, {desc.batch, desc.heads, rows, columns}, {desc.heads * rows * columns, rows * columns, columns, 1});
}

Tensor AttentionPlan::scoreLike(cudnnDataType_t of) {
  return inner(of, desc.rows, desc.keys);
}

Tensor AttentionPlan::rowLike() {
  return inner(CUDNN_DATA_FLOAT, desc.rows, 1);
}

// Sets the scores of keys behind the row to -infinity.
Tensor AttentionPlan::hideKeys(Tensor scores) {
  if (desc.causal == 0) {
    return scores;
  }
  const Tensor row = scoreLike(CUDNN_DATA_INT32), key = scoreLike(CUDNN_DATA_INT32), isSeen = scoreLike(CUDNN_DATA_BOOLEAN);
  const Tensor hidden = graph.number(-std::numeric_limits<float>::infinity()), result = scoreLike();
  graph.apply(CUDNN_POINTWISE_GEN_INDEX, {scores}, row, CUDNN_DATA_FLOAT, /*axis=*/2);
  graph.apply(CUDNN_POINTWISE_GEN_INDEX, {scores}, key, CUDNN_DATA_FLOAT, /*axis=*/3);
  graph.apply(CUDNN_POINTWISE_CMP_GE, {row, key}, isSeen, CUDNN_DATA_BOOLEAN);
  graph.apply(CUDNN_POINTWISE_BINARY_SELECT, {scores, hidden, isSeen}, result);
  return result;
}

// The mask, whose dims of 1 have a stride of 0 in the descriptor.
Tensor AttentionPlan::maskTensor() {
  const CudnnGraph::Dims dims = {desc.mask_strides[0] == 0 ? 1 : desc.batch, desc.mask_strides[1] == 0 ? 1 : desc.heads, desc.rows,
                                 desc.keys};
  return graph.memory(type, dims, {dims[1] * desc.rows * desc.keys, desc.rows * desc.keys, desc.keys, 1});
}

// scores = scale * q k^T + mask
AttentionPlan::Scores AttentionPlan::addScores() {
  const Tensor query = operand(ASHLAR_RT_ATTENTION_Q, desc.rows, desc.width);
  const Tensor key = transposed(ASHLAR_RT_ATTENTION_K, desc.keys, desc.width);
  const Tensor scale = graph.number(desc.scale), products = scoreLike(), scores = scoreLike();
  graph.multiply(query, key, products);
  graph.apply(CUDNN_POINTWISE_MUL, {products, scale}, scores);
  if (desc.mask == 0) {
    return {query, key, scale, scores, /*mask=*/0};
  }
  const Tensor mask = maskTensor(), masked = scoreLike();
  graph.apply(CUDNN_POINTWISE_ADD, {scores, mask}, masked);
  return {query, key, scale, masked, mask};
}

void AttentionPlan::setTensors(const Scores &first, Tensor value, const std::vector<Tensor> &others) {
  tensors = {first.query, first.key, value};
  if (first.mask != 0) {
    tensors.push_back(first.mask);
  }
  tensors.insert(tensors.end(), others.begin(), others.end());
}

// out = softmax(scores) v, lse = max + log(sum(exp(scores - max)))
void AttentionPlan::addForward() {
  const Scores first = addScores();
  const Tensor value = operand(ASHLAR_RT_ATTENTION_V, desc.keys, desc.value_width);
  const Tensor out = operand(ASHLAR_RT_ATTENTION_OUT, desc.rows, desc.value_width), lse = dense(desc.rows, 1);
  const Tensor scores = hideKeys(first.scores);
  const Tensor most = rowLike(), below = scoreLike(), exponentials = scoreLike(), sum = rowLike(), logarithm = rowLike();
  const Tensor weights = scoreLike(type);
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, most);
  graph.apply(CUDNN_POINTWISE_SUB, {scores, most}, below);
  graph.apply(CUDNN_POINTWISE_EXP, {below}, exponentials);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
  graph.apply(CUDNN_POINTWISE_LOG, {sum}, logarithm);
  graph.apply(CUDNN_POINTWISE_ADD, {most, logarithm}, lse);
  graph.apply(CUDNN_POINTWISE_DIV, {exponentials, sum}, weights);
  graph.multiply(weights, value, out);
  setTensors(first, value, {out, lse});
}

// With w = exp(scores - lse) and means = sum(d_out * out): d_v = w^T d_out, d_s = w (d_out v^T - means) scale, d_k = d_s^T q, d_q = d_s k.
void AttentionPlan::addBackward() {
  const int64_t rows = desc.rows, keys = desc.keys, columns = desc.value_width;
  const Tensor dOut = operand(ASHLAR_RT_ATTENTION_D_OUT, rows, columns), out = operand(ASHLAR_RT_ATTENTION_OUT, rows, columns);
  const Tensor lse = dense(rows, 1), value = transposed(ASHLAR_RT_ATTENTION_V, keys, columns);
  const Tensor dQuery = operand(ASHLAR_RT_ATTENTION_D_Q, rows, desc.width), dKey = operand(ASHLAR_RT_ATTENTION_D_K, keys, desc.width);
  const Tensor dValue = operand(ASHLAR_RT_ATTENTION_D_V, keys, columns);
  means = dense(rows, 1);
  dqSums = dense(rows, desc.width);

  // With strides between those of (rows, heads) and (heads, rows), as the front end has them: it is in no memory.
  const Tensor products = graph.inner(CUDNN_DATA_FLOAT, {desc.batch, desc.heads, rows, columns},
                                      {desc.heads * rows * columns, rows * columns, desc.heads * columns, 1});
  const Tensor one = graph.number(1), sums = rowLike();
  graph.apply(CUDNN_POINTWISE_MUL, {dOut, out}, products);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
  graph.apply(CUDNN_POINTWISE_MUL, {sums, one}, means);

  const Scores first = addScores();
  const Tensor below = scoreLike(), weights = scoreLike();
  graph.apply(CUDNN_POINTWISE_SUB, {first.scores, lse}, below);
  graph.apply(CUDNN_POINTWISE_EXP, {hideKeys(below)}, weights);
  const CudnnGraph::Dims dims = {desc.batch, desc.heads, keys, rows}, byKey = {desc.heads * rows * keys, rows * keys, 1, keys};
  const Tensor weightsByKey = graph.inner(type, dims, byKey);
  graph.view(weights, weightsByKey);
  graph.multiply(weightsByKey, dOut, dValue);

  const Tensor dWeights = scoreLike(), centered = scoreLike(), weighted = scoreLike(), dScores = scoreLike();
  graph.multiply(dOut, value, dWeights);
  graph.apply(CUDNN_POINTWISE_SUB, {dWeights, means}, centered);
  graph.apply(CUDNN_POINTWISE_MUL, {centered, weights}, weighted);
  graph.apply(CUDNN_POINTWISE_MUL, {weighted, first.scale}, dScores);
  const Tensor dScoresByKey = graph.inner(type, dims, byKey);
  graph.view(dScores, dScoresByKey);
  graph.multiply(dScoresByKey, first.query, dKey);

  const Tensor keyRows =
      graph.inner(CUDNN_DATA_FLOAT, {desc.batch, desc.heads, keys, desc.width}, strides(ASHLAR_RT_ATTENTION_K, keys, desc.width));
  graph.view(first.key, keyRows);
  graph.multiply(dScores, keyRows, dqSums);
  graph.apply(CUDNN_POINTWISE_IDENTITY, {dqSums}, dQuery);
  setTensors(first, value, {out, lse, dOut, dQuery, dKey, dValue});
}

Status AttentionPlan::layOut(cudnnHandle_t owner, const char *name) {
  handle = owner;
  const bool isNarrow = desc.dtype == ASHLAR_RT_BF16 || desc.dtype == ASHLAR_RT_F16;
  const bool hasMask = desc.mask == 0 || (desc.mask == desc.dtype && desc.mask_strides[3] == 1 && desc.keys % kKeysOfMask == 0 &&
                                          (desc.mask_strides[2] == desc.keys || desc.rows == 1));
  if (!isNarrow || !toCudnnType(desc.dtype, type) || !hasMask || desc.softcap != 0 || desc.window != 0 || desc.dropout != 0 ||
      desc.positions != 0 || desc.key_heads != desc.heads || (desc.causal != 0 && (desc.diagonal != 0 || desc.rows != desc.keys))) {
    return internal(
        "{}: an attention of {} on cuda with a mask of {}, softcap {}, window {}, dropout {}, {} key heads of {}, diagonal {}, {} rows, {} "
        "keys",
        name, dtypeName(desc.dtype), desc.mask == 0 ? "none" : dtypeName(desc.mask), desc.softcap, desc.window, desc.dropout,
        desc.key_heads, desc.heads, desc.diagonal, desc.rows, desc.keys);
  }
  const bool isBackward = desc.kind == ASHLAR_RT_ATTENTION_BACKWARD;
  if (isBackward && desc.keys % kKeysOfTile != 0 && dnn.cudnnGetVersion() <= kNeedsWholeTiles) {
    return unavailable("{}: cuDNN {} needs a multiple of {} keys for the gradients of an attention, not {}; install a version after 9.15.0",
                       name, dnn.cudnnGetVersion(), kKeysOfTile, desc.keys);
  }
  isBackward ? addBackward() : addForward();
  return graph.finish(handle);
}

Status AttentionPlan::choose(uint32_t relaxations, uint64_t mostBytes, const char *name) {
  const bool isBackward = desc.kind == ASHLAR_RT_ATTENTION_BACKWARD;
  relaxations |= isBackward ? kNondeterministic : 0;
  Status chosen =
      trials.choose(handle, relaxations, mostBytes, name,
                    fmt::format("{} of {} x {} heads, {} rows, {} keys, widths {} and {} of {}{}",
                                isBackward ? "the gradients of an attention" : "an attention", desc.batch, desc.heads, desc.rows, desc.keys,
                                desc.width, desc.value_width, dtypeName(desc.dtype),
                                fmt::format("{}{}", desc.causal != 0 ? ", causal" : "", desc.mask != 0 ? ", with a mask" : "")));
  return chosen.ok() ? chosen : Status(chosen.code(), chosen.message() + "; ashlarc --no-attention compiles without the call");
}

void AttentionPlan::list(const std::vector<CUdeviceptr> &buffers, CUdeviceptr workspace, std::vector<int64_t> &ids,
                         std::vector<void *> &addresses) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    ids.push_back(tensors[i]);
    addresses.push_back(onHost(buffers[i]));
  }
  if (desc.kind == ASHLAR_RT_ATTENTION_BACKWARD) {
    const DeviceAttentionMemory memory = deviceAttentionMemory(desc);
    ids.insert(ids.end(), {dqSums, means});
    addresses.insert(addresses.end(), {onHost(workspace), onHost(workspace + memory.means)});
  }
  graph.appendNumbers(ids, addresses);
}

} // namespace ashlar::rt
