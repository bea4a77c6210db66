// SPDX-License-Identifier: Apache-2.0
//
// The measurements as programs of an image: instructions as the compiler emits them, so that times are those of compiled programs in the
// runtime, with its dispatch, its workspaces and its choice of kernels.

#ifndef ASHLAR_TOOLS_ASHLAR_CALIBRATE_MEASURED_PROGRAM_H
#define ASHLAR_TOOLS_ASHLAR_CALIBRATE_MEASURED_PROGRAM_H

#include "runtime/abi/ashlar_rt.h"

#include <deque>
#include <string>
#include <vector>

namespace ashlar::calibrate {

// One number to measure.
struct Measured {
  std::string label;         // the begin of the line on stdout; its time follows
  std::string program;       // of the image
  uint32_t count = 1;        // equal instructions of the program: the time is one's
  bool isCollective = false; // ranks wait for each other in it
};

// An image with programs to measure. State: all objects that the image points to, at fixed addresses. Its buffers lie at the start of one
// arena, the buffers of one instruction one after the other.
class MeasuredImage {
public:
  // Of so many ranks, one device each.
  explicit MeasuredImage(uint32_t ranks);
  MeasuredImage(const MeasuredImage &) = delete;

  // Adds products of f32 and of bf16 whose smallest size is `size`, the others at least 256: of few rows, few columns, and a short inner
  // size. Lines: "product SIZE TYPE FLOPS SECONDS".
  void addProducts(int64_t size);

  // Adds convolutions of f32 and bf16, with both gradients, of `size` channels in, and as many out or twice as many; at least 16 and 32,
  // as models have them behind few channels. Lines: "convolution SIZE TYPE FLOPS SECONDS".
  void addConvolutions(int64_t size);

  // Adds attentions of f32 and bf16, with their gradients, of 8 heads and 256 keys whose smallest size is `size`: the rows, up to 8, or the
  // width of a head. Lines: "attention SIZE TYPE FLOPS SECONDS".
  void addAttentions(int64_t size);

  // Adds a copy past the caches of a core. Line: "memory BYTES SECONDS"; a byte that is read and written counts twice.
  void addMemory();

  // Adds small kernels. Line: "launch SECONDS".
  void addLaunches();

  // Adds a collective of all ranks on whole tensors of about so many bytes; BYTES is the size of a rank's operand. Line: "collective KIND
  // RANKS BYTES SECONDS", KIND as in job.proto.
  void addCollective(const char *kind, uint64_t bytes);

  // Returns the image, once all is added.
  const ashlar_rt_image &finish();

  const std::vector<Measured> &measured() const { return list; }

private:
  struct Instruction {
    uint32_t kind;
    const void *desc;
    std::vector<uint64_t> bytes; // of each buffer
    size_t written = 1;          // the number of buffers, the last ones
    uint32_t dtype = ASHLAR_RT_F32;
  };

  void add(const std::string &label, const std::vector<Instruction> &instructions, uint32_t count, bool isCollective = false);
  void addProduct(int64_t size, int64_t m, int64_t n, int64_t k, bool transposeA);
  void addConvolution(int64_t size, uint32_t kind, int64_t in, int64_t out);
  void addAttention(int64_t size, uint32_t kind, int64_t rows, int64_t width);

  const uint32_t ranks;
  std::vector<Measured> list;
  const ashlar_rt_axis axis;
  const uint32_t axisNumber = 0;
  std::deque<std::string> names;
  std::deque<ashlar_rt_gemm_desc> products;
  std::deque<ashlar_rt_conv_desc> convolutions;
  std::deque<ashlar_rt_attention_desc> attentions;
  std::deque<ashlar_rt_kernel_desc> kernels;
  std::deque<ashlar_rt_collective_desc> collectives;
  std::deque<ashlar_rt_collective_tensor> tensors;
  std::deque<std::vector<int64_t>> shapes;
  std::deque<std::vector<uint32_t>> numbers; // accesses of instructions, pairs of permutes
  std::deque<std::vector<ashlar_rt_buffer>> buffers;
  std::deque<std::vector<ashlar_rt_instr>> instructions;
  std::vector<ashlar_rt_program> programs;
  ashlar_rt_variant variant = {};
  ashlar_rt_image image = {};
};

} // namespace ashlar::calibrate

#endif // ASHLAR_TOOLS_ASHLAR_CALIBRATE_MEASURED_PROGRAM_H
