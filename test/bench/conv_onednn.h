// SPDX-License-Identifier: Apache-2.0
//
// A convolution by oneDNN, for comparison: channels last, weights in oneDNN's preferred order. run() does the work of a training step:
// weights are reordered before a forward convolution or a data gradient, and a weight gradient is reordered after.

#ifndef ASHLAR_TEST_BENCH_CONV_ONEDNN_H
#define ASHLAR_TEST_BENCH_CONV_ONEDNN_H

#include "runtime/abi/ashlar_rt.h"

#include <dnnl.hpp>

#include <unordered_map>
#include <vector>

// Of the OpenMP library that oneDNN brings along; its header is not always installed beside the compiler.
extern "C" void omp_set_num_threads(int);

namespace ashlar::bench {

class OnednnConv {
public:
  // `a`, `b`, `out` are the buffers of the descriptor, two spatial dims, one group.
  OnednnConv(const ashlar_rt_conv_desc &desc, int threads, const float *a, const float *b, float *out)
      : threads(threads), engine(dnnl::engine::kind::cpu, 0), stream(engine) {
    using namespace dnnl;
    omp_set_num_threads(threads);
    const auto &h = desc.dims[1], &w = desc.dims[2];
    const memory::dims xDims = {desc.batch, desc.channels_in, h.in, w.in}, yDims = {desc.batch, desc.channels_out, h.out, w.out};
    const memory::dims wDims = {desc.channels_out, desc.channels_in, h.kernel, w.kernel};
    const memory::dims strides = {h.stride, w.stride}, low = {h.low, w.low};
    const memory::dims high = {(h.out - 1) * h.stride + h.kernel - h.in - h.low, (w.out - 1) * w.stride + w.kernel - w.in - w.low};
    const auto last = [](const memory::dims &dims) { return memory::desc(dims, memory::data_type::f32, memory::format_tag::nhwc); };
    const memory::desc any(wDims, memory::data_type::f32, memory::format_tag::any);
    const memory::desc plain(wDims, memory::data_type::f32, memory::format_tag::oihw);
    const auto at = [&](const memory::desc &md, const float *data) { return memory(md, engine, const_cast<float *>(data)); };
    primitive_attr attr;
    const auto direct = algorithm::convolution_direct;
    const convolution_forward::desc forwardDesc(prop_kind::forward_training, direct, last(xDims), any, last(yDims), strides, low, high);
    const convolution_forward::primitive_desc forward(forwardDesc, attr, engine);
    if (desc.kind == ASHLAR_RT_CONV_FORWARD) {
      const memory ordered(forward.weights_desc(), engine);
      add(reorder(at(plain, b), ordered), {{DNNL_ARG_FROM, at(plain, b)}, {DNNL_ARG_TO, ordered}});
      add(convolution_forward(forward),
          {{DNNL_ARG_SRC, at(last(xDims), a)}, {DNNL_ARG_WEIGHTS, ordered}, {DNNL_ARG_DST, at(last(yDims), out)}});
    } else if (desc.kind == ASHLAR_RT_CONV_DATA) {
      const convolution_backward_data::desc dataDesc(direct, last(xDims), any, last(yDims), strides, low, high);
      const convolution_backward_data::primitive_desc data(dataDesc, attr, engine, forward);
      const memory ordered(data.weights_desc(), engine);
      add(reorder(at(plain, b), ordered), {{DNNL_ARG_FROM, at(plain, b)}, {DNNL_ARG_TO, ordered}});
      add(convolution_backward_data(data),
          {{DNNL_ARG_DIFF_DST, at(last(yDims), a)}, {DNNL_ARG_WEIGHTS, ordered}, {DNNL_ARG_DIFF_SRC, at(last(xDims), out)}});
    } else {
      const convolution_backward_weights::desc weightsDesc(direct, last(xDims), any, last(yDims), strides, low, high);
      const convolution_backward_weights::primitive_desc weights(weightsDesc, attr, engine, forward);
      const memory ordered(weights.diff_weights_desc(), engine);
      add(convolution_backward_weights(weights),
          {{DNNL_ARG_SRC, at(last(xDims), a)}, {DNNL_ARG_DIFF_DST, at(last(yDims), b)}, {DNNL_ARG_DIFF_WEIGHTS, ordered}});
      add(reorder(ordered, at(plain, out)), {{DNNL_ARG_FROM, ordered}, {DNNL_ARG_TO, at(plain, out)}});
    }
  }

  void run() {
    omp_set_num_threads(threads);
    for (auto &[primitive, arguments] : steps) {
      primitive.execute(stream, arguments);
    }
    stream.wait();
  }

private:
  using Arguments = std::unordered_map<int, dnnl::memory>;
  void add(const dnnl::primitive &primitive, const Arguments &arguments) { steps.push_back({primitive, arguments}); }

  int threads;
  dnnl::engine engine;
  dnnl::stream stream;
  std::vector<std::pair<dnnl::primitive, Arguments>> steps;
};

} // namespace ashlar::bench

#endif // ASHLAR_TEST_BENCH_CONV_ONEDNN_H
