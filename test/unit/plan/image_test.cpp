// SPDX-License-Identifier: Apache-2.0
//
// The image as a C program sees it: tables are written into an object, loaded, and read back through the structs of the ABI.

#include "compiler/report/plan_text.h"
#include "compiler/target/constants.h"
#include "compiler/target/cpu/kernels.h"
#include "compiler/target/host_code.h"
#include "compiler/target/image_emitter.h"
#include "dialects/exec/exec.h"
#include "dialects/nn/programs.h"
#include "passes/lower/calls/library_product.h"
#include "runtime/abi/ashlar_rt.h"
#include "runtime/abi/components.h"
#include "test/unit/plan/loaded_image.h"
#include "test/unit/reference/parsed_module.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/xxhash.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include <catch2/catch.hpp>
#include <fstream>

// A loaded program refers to components of the runtime, which this test program has no other need of.
extern "C" {
#define ASHLAR_DEFINE_COMPONENT(name) char ASHLAR_RT_COMPONENT(name);
ASHLAR_RT_COMPONENTS(ASHLAR_DEFINE_COMPONENT)
#undef ASHLAR_DEFINE_COMPONENT
}

namespace ashlar::test::image_test {

using namespace mlir;
using Catch::Matchers::Contains;

namespace {

const char *const kModule = R"(
  exec.variant @default arena 4096 attributes {axis_names = ["dp", "tp"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 64 : i64,
                                               devices_per_process = 2 : i64, lower_bound_bytes = 4000 : i64,
      exec.hosts = #dist.hosts<ranks_per_host = 2, adapters = 1, hosts_per_pod = 16, uplinks = 17, rails = true, devices_per_rank = 2,
                               links = <latency_ns = [1, 2, 18], bytes_per_us = [3, 4, 19],
                                        kinds = [<kind = permute, latency_ns = [1, 2, 18], bytes_per_us = [20, 21, 22]>]>>,
      exec.links = #dist.costs<latency_ns = [5, 6], bytes_per_us = [7, 8], beside = [1],
                               kinds = [<kind = all_gather, latency_ns = [9, 10], bytes_per_us = [11, 12]>]>,
      exec.stage_links = #dist.costs<latency_ns = [13], bytes_per_us = [14]>, exec.hand_over_ps = 15 : i64} {
    exec.tensor @w variable <arena, 128, memref<8x2xf32>> global [8, 12] splits [array<i64>, array<i64: 1, 0>] {persistent}
    exec.tensor @v state <arena, 192, memref<i64>> global [] splits [] {persistent, state_of = "w"}
    exec.tensor @b input <arena, 256, memref<4xi1>> global [8] splits [array<i64: 0>] {outside_name = "mask"}
    exec.tensor @y output <arena, 320, memref<4xf64>> global [4] splits [array<i64>]
    exec.program @train_step inputs [@b] outputs [@y] attributes {nn.program = #nn.program<train_step>, predicted_ns = 5000000000 : i64,
                                                                     exec.other_ps = 5000000001 : i64} {
      exec.kernel @fill [#exec.buffer<arena, 320, memref<4xf64>>] reads [] writes [0] extent 4 grain 2 loc("layer1/Fill")
      exec.gemm [#exec.buffer<arena, 128, memref<4x4xf32>>, #exec.buffer<constant, 64, memref<4x4xf32>>,
                 #exec.buffer<arena, 512, memref<4xf32>>, #exec.buffer<arena, 640, memref<4x4xf32>>]
                batch 2 m 3 n 4 k 5 transpose_b bias epilogue tanh {exec.time_ps = 5000000002 : i64}
      exec.collective all_to_all <arena, 512, memref<6x2xi32>> to <arena, 640, memref<1x12xi32>> over [1, 0] reduction max
                      split 0 concat 1 cause [#dist.end<kind = gradient, name = "w">]
                      {exec.messages = 3 : i64, exec.bytes_sent = 5000000003 : i64}
      exec.copy <constant, 0, memref<2xf32>> to <arena, 512, memref<2xf32>>
      exec.collective permute <arena, 512, memref<4xi32>> to <arena, 640, memref<4xi32>> over [0] reduction sum
                      split 0 concat 0 cause [#dist.end<kind = op, name = "fc1">] pairs [1, 0, 0, 1]
    }
    exec.program @eval_step inputs [] outputs [] attributes {nn.program = #nn.program<eval_step>} {
    }
  }
  func.func @fill(%out: memref<4xf64>, %begin: index, %end: index) attributes {exec.extent = 4 : i64, exec.grain = 2 : i64} {
    %seven = arith.constant 7.0 : f64
    memref.store %seven, %out[%begin] : memref<4xf64>
    return
  }
  exec.constant at 0 = dense<[1.0, 2.0]> : tensor<2xf32>
  exec.constant at 64 = dense<3.0> : tensor<4x4xf32>
  exec.constant at 128 = dense<[true, false, true]> : tensor<3xi1>
)";

target::ImageInfo makeInfo() {
  target::ImageInfo info;
  info.modelName = "model";
  info.target = "cpu";
  info.seed = 42;
  info.seedTensor = "v";
  info.stepTensor = "w";
  info.deterministicRefusal = "because";
  info.plan = "the plan";
  target::TrainingInfo training;
  training.dataset = {"digits",
                      "idx",
                      "t*.bin",
                      /*evalFiles=*/"",
                      "city,name",
                      /*trainSamples=*/100,
                      /*evalSamples=*/50,
                      {1.5, 2.5},
                      /*shuffle=*/true,
                      /*dropRemainder=*/false,
                      /*repeat=*/(uint64_t{1} << 32) + 3,
                      {}};
  training.dataset.features.push_back({"image",
                                       "mask",
                                       {{ASHLAR_RT_RESCALE, {0.5, 1.0}}, {ASHLAR_RT_NORMALIZE, {0.1, 0.3}}, {ASHLAR_RT_HWC_TO_CHW, {}}},
                                       /*classes=*/12,
                                       /*ignoredLabel=*/-1,
                                       /*tableRows=*/50257});
  training.globalBatch = 10;
  training.accumulate = 3;
  training.epochs = 4;
  training.logEvery = 5;
  training.lossTensor = "y";
  training.samplesTensor = "n";
  info.training = training;
  return info;
}

// Compiles the module, loads it and returns its image. Each call uses files of its own; the library stays loaded.
// With `deviceText` the kernels are in it, code for one kind of chip.
const ashlar_rt_image *load(ModuleOp module, const target::ImageInfo &info, const std::string &deviceText = "") {
  llvm::SmallString<128> folder;
  REQUIRE_FALSE(llvm::sys::fs::createUniqueDirectory("ashlar-image", folder));
  auto file = [&](const char *name) { return (folder + "/" + name).str(); };
  target::IncludedFile constants = llvm::cantFail(target::writeConstants(module, file("constants.bin")));
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code = cpu::translateKernels(module, llvmContext);
  REQUIRE(code);
  std::vector<target::DeviceCode> deviceCodes;
  if (!deviceText.empty()) {
    std::ofstream(file("code")) << deviceText;
    deviceCodes.push_back({"sm_90", {file("code"), deviceText.size(), llvm::xxh3_64bits(deviceText)}});
  }
  llvm::cantFail(target::emitImage(module, info, constants, *code, deviceCodes));
  llvm::cantFail(target::emitObject(*code, file("program.o")));
  const ashlar_rt_image *image = test::loadImage(file("program.o"));
  llvm::sys::fs::remove_directories(folder);
  return image;
}

OwningOpRef<ModuleOp> parseTables() {
  test::context().loadDialect<exec::ExecDialect, arith::ArithDialect, memref::MemRefDialect>();
  return test::parse(kModule);
}

} // namespace

TEST_CASE("image: names, constants and training", "[plan][image]") {
  OwningOpRef<ModuleOp> module = parseTables();
  const ashlar_rt_image *image = load(*module, makeInfo());
  CHECK(image->abi_version == ASHLAR_RT_ABI_VERSION);
  CHECK((image->cpu_features ? image->cpu_features : "") == target::hostCpuFeatures());
  CHECK(std::string(image->model_name) == "model");
  CHECK(std::string(image->target) == "cpu");
  CHECK(image->program_hash != 0);
  CHECK(image->seed == 42);
  CHECK(std::string(image->deterministic_refusal) == "because");
  CHECK(std::string(image->plan) == "the plan");
  CHECK(std::string(image->seed_tensor) == "v");
  CHECK(std::string(image->step_tensor) == "w");
  REQUIRE(image->constants_bytes == 131);
  CHECK(reinterpret_cast<uintptr_t>(image->constants) % ASHLAR_RT_ALIGNMENT == 0);
  const float *floats = reinterpret_cast<const float *>(image->constants);
  CHECK((floats[0] == 1.0f && floats[1] == 2.0f && floats[2] == 0.0f && floats[16] == 3.0f && floats[31] == 3.0f));
  CHECK((image->constants[128] == 1 && image->constants[129] == 0 && image->constants[130] == 1));
  const ashlar_rt_training *training = image->training;
  REQUIRE(training);
  CHECK((training->global_batch == 10 && training->epochs == 4 && training->log_every == 5));
  CHECK((std::string(training->loss_tensor) == "y" && training->correct_tensor == nullptr));
  CHECK(std::string(training->samples_tensor) == "n");
  CHECK(training->accumulate == 3);
  const ashlar_rt_dataset &dataset = training->dataset;
  CHECK((std::string(dataset.format) == "digits" && std::string(dataset.directory_format) == "idx"));
  CHECK((std::string(dataset.train_files) == "t*.bin" && dataset.eval_files == nullptr && std::string(dataset.categories) == "city,name"));
  CHECK((dataset.train_samples == 100 && dataset.eval_samples == 50 && dataset.params[0] == 1.5 && dataset.params[1] == 2.5));
  CHECK((dataset.shuffle == 1 && dataset.drop_remainder == 0 && dataset.repeat == (uint64_t{1} << 32) + 3));
  REQUIRE(dataset.num_features == 1);
  CHECK((std::string(dataset.features[0].column) == "image" && std::string(dataset.features[0].tensor) == "mask"));
  CHECK((dataset.features[0].classes == 12 && dataset.features[0].ignored_label == -1 && dataset.features[0].table_rows == 50257));
  REQUIRE(dataset.features[0].num_transforms == 3);
  const ashlar_rt_transform *transforms = dataset.features[0].transforms;
  CHECK((transforms[1].kind == ASHLAR_RT_NORMALIZE && transforms[1].num_numbers == 2));
  CHECK((transforms[1].numbers[0] == 0.1 && transforms[1].numbers[1] == 0.3));
  CHECK((transforms[2].kind == ASHLAR_RT_HWC_TO_CHW && transforms[2].num_numbers == 0));
}

TEST_CASE("image: variant and tensors", "[plan][image]") {
  OwningOpRef<ModuleOp> module = parseTables();
  const ashlar_rt_image *image = load(*module, makeInfo());
  REQUIRE(image->num_variants == 1);
  const ashlar_rt_variant &variant = image->variants[0];
  CHECK(std::string(variant.name) == "default");
  REQUIRE(variant.num_axes == 2);
  CHECK((std::string(variant.axes[1].name) == "tp" && variant.axes[1].size == 3));
  CHECK((variant.devices_per_process == 2 && variant.arena_bytes == 4096 && variant.coordinates_offset == 64));
  CHECK(variant.device_ids == nullptr);
  REQUIRE(variant.num_tensors == 4);
  const ashlar_rt_tensor &w = variant.tensors[0], &mask = variant.tensors[2];
  CHECK((std::string(w.name) == "w" && w.role == ASHLAR_RT_VARIABLE && w.rank == 2));
  CHECK((w.local_shape[0] == 8 && w.local_shape[1] == 2 && w.global_shape[1] == 12));
  CHECK((w.splits[0].num_axes == 0 && w.splits[1].num_axes == 2 && w.splits[1].axes[0] == 1 && w.splits[1].axes[1] == 0));
  CHECK((w.buffer.space == ASHLAR_RT_ARENA && w.buffer.dtype == ASHLAR_RT_F32 && w.buffer.offset == 128 && w.buffer.bytes == 64));
  CHECK((w.persistent == 1 && w.state_of == nullptr && variant.tensors[1].persistent == 1 && mask.persistent == 0));
  CHECK(std::string(variant.tensors[1].state_of) == "w");
  CHECK((variant.tensors[1].role == ASHLAR_RT_STATE && variant.tensors[1].rank == 0 && variant.tensors[1].buffer.dtype == ASHLAR_RT_I64));
  CHECK(
      (std::string(mask.name) == "mask" && mask.role == ASHLAR_RT_INPUT && mask.buffer.dtype == ASHLAR_RT_BOOL && mask.buffer.bytes == 4));
  CHECK((variant.tensors[3].role == ASHLAR_RT_OUTPUT && variant.tensors[3].buffer.dtype == ASHLAR_RT_F64));
}

TEST_CASE("image: instructions", "[plan][image]") {
  OwningOpRef<ModuleOp> module = parseTables();
  const ashlar_rt_image *image = load(*module, makeInfo());
  const ashlar_rt_variant &variant = image->variants[0];
  REQUIRE(variant.num_programs == 2);
  const ashlar_rt_program &program = variant.programs[0];
  CHECK((std::string(program.name) == "train_step" && std::string(variant.programs[1].name) == "eval_step"));
  CHECK((program.id.role == ASHLAR_RT_TRAIN_STEP && variant.programs[1].id.role == ASHLAR_RT_EVAL_STEP));
  CHECK((program.num_inputs == 1 && program.inputs[0] == 2 && program.num_outputs == 1 && program.outputs[0] == 3));
  CHECK((variant.programs[1].num_instrs == 0 && variant.programs[1].num_inputs == 0));
  CHECK((program.predicted_ns == 5000000000 && variant.programs[1].predicted_ns == 0)); // one that nobody predicted
  CHECK((program.other_ps == 5000000001 && variant.programs[1].other_ps == 0));
  REQUIRE(variant.links);
  CHECK((variant.links->ranks_per_host == 2 && variant.links->adapters_per_host == 1 && variant.links->rails == 1 &&
         variant.links->hand_over_ps == 15));
  CHECK((variant.links->hosts_per_pod == 16 && variant.links->uplinks_per_pod == 17));
  CHECK((variant.links->adapter_bytes_per_us == 21 && variant.links->uplink_bytes_per_us == 22)); // of messages
  const ashlar_rt_link *axes = variant.links->axes;
  CHECK((axes[0].costs[ASHLAR_RT_ALL_REDUCE].latency_ns == 5 && axes[1].costs[ASHLAR_RT_HALO].bytes_per_us == 8));
  CHECK((axes[0].costs[ASHLAR_RT_ALL_GATHER].latency_ns == 9 && axes[1].costs[ASHLAR_RT_ALL_GATHER].bytes_per_us == 12));
  CHECK((axes[0].moves_beside == 0 && axes[1].moves_beside == 1));
  CHECK((variant.links->stages[0].costs[ASHLAR_RT_PERMUTE].latency_ns == 13 &&
         variant.links->stages[0].costs[ASHLAR_RT_PERMUTE].bytes_per_us == 14));
  REQUIRE(program.num_instrs == 5);

  const ashlar_rt_instr &kernel = program.instrs[0];
  CHECK((kernel.kind == ASHLAR_RT_KERNEL && std::string(kernel.name) == "fill layer1/Fill" && kernel.num_buffers == 1));
  CHECK(kernel.accesses[0] == ASHLAR_RT_WRITE);
  auto *kernelDesc = static_cast<const ashlar_rt_kernel_desc *>(kernel.desc);
  CHECK((kernelDesc->extent == 4 && kernelDesc->grain == 2));
  alignas(64) double out[4] = {};
  void *buffers[] = {out};
  kernelDesc->function(buffers, 2, 3);
  CHECK((out[2] == 7.0 && out[1] == 0.0));

  const ashlar_rt_instr &gemm = program.instrs[1];
  auto *gemmDesc = static_cast<const ashlar_rt_gemm_desc *>(gemm.desc);
  CHECK((gemm.kind == ASHLAR_RT_GEMM && gemm.num_buffers == 4 && gemm.buffers[1].space == ASHLAR_RT_CONSTANT &&
         gemm.buffers[1].offset == 64));
  CHECK((gemm.accesses[0] == ASHLAR_RT_READ && gemm.accesses[1] == ASHLAR_RT_READ && gemm.accesses[2] == ASHLAR_RT_READ &&
         gemm.accesses[3] == ASHLAR_RT_WRITE));
  CHECK((gemmDesc->batch == 2 && gemmDesc->m == 3 && gemmDesc->n == 4 && gemmDesc->k == 5));
  CHECK((!gemmDesc->transpose_a && gemmDesc->transpose_b && gemmDesc->addend == ASHLAR_RT_ADDEND_BIAS &&
         gemmDesc->epilogue == ASHLAR_RT_EPILOGUE_TANH));

  const ashlar_rt_instr &collective = program.instrs[2];
  auto *desc = static_cast<const ashlar_rt_collective_desc *>(collective.desc);
  CHECK((collective.kind == ASHLAR_RT_COLLECTIVE && std::string(collective.name) == "all_to_all"));
  CHECK((collective.accesses[0] == ASHLAR_RT_READ && collective.accesses[1] == ASHLAR_RT_WRITE));
  CHECK((desc->kind == ASHLAR_RT_ALL_TO_ALL && desc->dtype == ASHLAR_RT_I32 && desc->reduction == ASHLAR_RT_MAX));
  CHECK((desc->num_axes == 2 && desc->axes[0] == 1 && desc->axes[1] == 0 && desc->num_tensors == 1));
  CHECK((desc->tensors[0].rank == 2 && desc->tensors[0].in_shape[0] == 6 && desc->tensors[0].split_dim == 0 &&
         desc->tensors[0].concat_dim == 1 && std::string(desc->cause) == "gradient of w"));
  CHECK((desc->messages == 3 && desc->bytes_sent == 5000000003 && collective.predicted_ps == 0 && gemm.predicted_ps == 5000000002));

  const ashlar_rt_instr &copy = program.instrs[3];
  CHECK((copy.kind == ASHLAR_RT_COPY && copy.desc == nullptr && copy.num_buffers == 2 && copy.buffers[1].offset == 512));
  CHECK((copy.accesses[0] == ASHLAR_RT_READ && copy.accesses[1] == ASHLAR_RT_WRITE));

  auto *permute = static_cast<const ashlar_rt_collective_desc *>(program.instrs[4].desc);
  CHECK((permute->kind == ASHLAR_RT_PERMUTE && permute->num_axes == 1 && permute->axes[0] == 0 && permute->num_pairs == 2));
  CHECK((permute->pairs[0] == 1 && permute->pairs[1] == 0 && permute->pairs[2] == 0 && permute->pairs[3] == 1));
}

TEST_CASE("image: the descriptor of a product that sums an operand", "[plan][image]") {
  OwningOpRef<ModuleOp> module = ashlar::test::parse(R"(
    exec.variant @default arena 4096 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 64 : i64,
                                                 devices_per_process = 1 : i64, lower_bound_bytes = 4000 : i64} {
      exec.program @train_step inputs [] outputs [] attributes {nn.program = #nn.program<train_step>} {
        exec.gemm [#exec.buffer<arena, 128, memref<5x3xf32>>, #exec.buffer<arena, 256, memref<5x4xf32>>,
                   #exec.buffer<arena, 384, memref<3x4xf32>>, #exec.buffer<arena, 512, memref<4xf32>>]
                  batch 1 m 3 n 4 k 5 transpose_a epilogue none sum_of rhs tf32
      }
    }
  )");
  ashlar_rt_gemm_desc desc = {};
  module->walk([&](exec::GemmOp op) { desc = lower::describeProduct(op); });
  CHECK((desc.batch == 1 && desc.m == 3 && desc.n == 4 && desc.k == 5 && desc.transpose_a && !desc.transpose_b &&
         desc.addend == ASHLAR_RT_ADDEND_NONE));
  CHECK((desc.epilogue == ASHLAR_RT_EPILOGUE_NONE && desc.operand_sum == ASHLAR_RT_SUM_OF_B && desc.allow_tf32));
}

TEST_CASE("image: the descriptor of a product of bf16 or f16", "[plan][image]") {
  OwningOpRef<ModuleOp> module = ashlar::test::parse(R"(
    exec.variant @default arena 4096 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 64 : i64,
                                                 devices_per_process = 1 : i64, lower_bound_bytes = 4000 : i64} {
      exec.program @train_step inputs [] outputs [] attributes {nn.program = #nn.program<train_step>} {
        exec.gemm [#exec.buffer<arena, 128, memref<3x5xbf16>>, #exec.buffer<arena, 256, memref<5x4xbf16>>,
                   #exec.buffer<arena, 384, memref<4xf32>>, #exec.buffer<arena, 512, memref<3x4xf32>>]
                  batch 1 m 3 n 4 k 5 bias epilogue none
        exec.gemm [#exec.buffer<arena, 128, memref<3x5xf16>>, #exec.buffer<arena, 256, memref<5x4xf16>>,
                   #exec.buffer<arena, 512, memref<3x4xf16>>]
                  batch 1 m 3 n 4 k 5 epilogue none
      }
    }
  )");
  SmallVector<ashlar_rt_gemm_desc> descs;
  module->walk([&](exec::GemmOp op) { descs.push_back(lower::describeProduct(op)); });
  REQUIRE(descs.size() == 2);
  CHECK((descs[0].narrow == ASHLAR_RT_BF16 && descs[0].narrow_out == 0));
  CHECK((descs[1].narrow == ASHLAR_RT_F16 && descs[1].narrow_out == 1));
}

TEST_CASE("image: the descriptor of a product with an auxiliary tensor", "[plan][image]") {
  OwningOpRef<ModuleOp> module = ashlar::test::parse(R"(
    exec.variant @default arena 4096 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 64 : i64,
                                                 devices_per_process = 1 : i64, lower_bound_bytes = 4000 : i64} {
      exec.program @train_step inputs [] outputs [] attributes {nn.program = #nn.program<train_step>} {
        exec.gemm [#exec.buffer<arena, 128, memref<3x5xf32>>, #exec.buffer<arena, 256, memref<5x24xf32>>,
                   #exec.buffer<arena, 1024, memref<3x24xf32>>, #exec.buffer<arena, 2048, memref<3x16xi8>>]
                  batch 1 m 3 n 24 k 5 epilogue relu auxiliary written
        exec.gemm [#exec.buffer<arena, 128, memref<3x5xf32>>, #exec.buffer<arena, 256, memref<5x24xf32>>,
                   #exec.buffer<arena, 2048, memref<3x24xf32>>, #exec.buffer<arena, 1024, memref<3x24xf32>>]
                  batch 1 m 3 n 24 k 5 epilogue gelu_tanh auxiliary read
      }
    }
  )");
  SmallVector<ashlar_rt_gemm_desc> descs;
  SmallVector<std::string> uses;
  module->walk([&](exec::GemmOp op) {
    descs.push_back(lower::describeProduct(op));
    for (const exec::BufferUse &use : op.getUses()) {
      uses.push_back(use.isWritten ? "written" : use.isRead ? "read" : "");
    }
  });
  REQUIRE(descs.size() == 2);
  CHECK((descs[0].auxiliary == ASHLAR_RT_AUXILIARY_WRITTEN && descs[0].auxiliary_row == 128));
  CHECK((descs[1].auxiliary == ASHLAR_RT_AUXILIARY_READ && descs[1].auxiliary_row == 24));
  CHECK(uses == SmallVector<std::string>{"read", "read", "written", "written", "read", "read", "read", "written"});
}

TEST_CASE("image: the hash is that of the contents", "[plan][image]") {
  OwningOpRef<ModuleOp> module = parseTables();
  uint64_t first = load(*module, makeInfo())->program_hash;
  CHECK(load(*module, makeInfo())->program_hash == first);
  target::ImageInfo seed = makeInfo();
  seed.seed = 43;
  CHECK(load(*module, seed)->program_hash != first);
  module->walk([](exec::ConstantOp op) {
    if (op.getOffset() == 0) {
      op.setValueAttr(DenseElementsAttr::get(cast<RankedTensorType>(op.getValue().getShapedType()), {1.0f, 2.5f}));
    }
  });
  CHECK(load(*module, makeInfo())->program_hash != first);
}

TEST_CASE("image: a forward program has no training", "[plan][image]") {
  OwningOpRef<ModuleOp> module = parseTables();
  target::ImageInfo info;
  info.modelName = "model";
  info.target = "cpu";
  const ashlar_rt_image *image = load(*module, info);
  CHECK(image->training == nullptr);
  CHECK(image->deterministic_refusal == nullptr);
}

TEST_CASE("image: a call of a missing kernel is an error", "[plan][image]") {
  OwningOpRef<ModuleOp> module = parseTables();
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code = cpu::translateKernels(*module, llvmContext);
  code->getFunction("fill")->setName("other");
  std::string error = llvm::toString(target::emitImage(*module, makeInfo(), {}, *code));
  CHECK_THAT(error, Contains("kernel fill is called by a program but was not generated"));
}

TEST_CASE("image: a program without a role is an error", "[plan][image]") {
  OwningOpRef<ModuleOp> module = parseTables();
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code = cpu::translateKernels(*module, llvmContext);
  module->walk([](exec::ProgramOp program) { program->removeAttr(nn::kProgramAttr); });
  std::string error = llvm::toString(target::emitImage(*module, makeInfo(), {}, *code));
  CHECK_THAT(error, Contains("has no role; give it nn.program, as #nn.program<train_step>"));
}

TEST_CASE("image: kernels of a device are entries of its code", "[plan][image]") {
  OwningOpRef<ModuleOp> module = parseTables();
  const ashlar_rt_image *image = load(*module, makeInfo(), "machine code");
  REQUIRE(image->num_device_codes == 1);
  const ashlar_rt_device_code &code = image->device_codes[0];
  CHECK(std::string(code.arch) == "sm_90");
  CHECK(std::string(reinterpret_cast<const char *>(code.bytes), code.size) == "machine code");
  CHECK(reinterpret_cast<uintptr_t>(code.bytes) % ASHLAR_RT_ALIGNMENT == 0);
  CHECK(image->cpu_features == nullptr);
  const ashlar_rt_program &program = image->variants[0].programs[0];
  const auto *kernel = llvm::find_if(llvm::ArrayRef(program.instrs, program.num_instrs),
                                     [](const ashlar_rt_instr &instr) { return instr.kind == ASHLAR_RT_KERNEL; });
  REQUIRE(kernel != program.instrs + program.num_instrs);
  const auto *desc = static_cast<const ashlar_rt_kernel_desc *>(kernel->desc);
  CHECK(desc->function == nullptr);
  CHECK(std::string(desc->entry) == "fill");
  uint64_t hash = image->program_hash; // covers the code
  CHECK(load(*parseTables(), makeInfo(), "machine code")->program_hash == hash);
  CHECK(load(*parseTables(), makeInfo(), "other code")->program_hash != hash);
}

TEST_CASE("plan: each subject has its line", "[plan][report]") {
  OwningOpRef<ModuleOp> module = parseTables();
  exec::VariantOp variant = *module->getOps<exec::VariantOp>().begin();
  std::string text = report::planText(variant, {"model", "cpu, precision F32", /*globalBatch=*/8, "refused", "sgd"});
  INFO(text);
  CHECK_THAT(text, Contains("model        model; target cpu, precision F32"));
  CHECK_THAT(text, Contains("mesh         dp=2, tp=3, 6 devices; 3 ranks of 2 devices each"));
  CHECK_THAT(text, Contains("batch        8 samples, 4 a device"));
  report::PlanFacts parts{"model", "", /*globalBatch=*/24, "", "", /*accumulate=*/3};
  CHECK_THAT(report::planText(variant, parts), Contains("batch        24 samples in 3 micro-batches of 8, 4 a device"));
  CHECK_THAT(text, Contains("parameters   1 tensor, 96 elements, 64 B a device"));
  CHECK_THAT(text, Contains("inputs mask[dp]; parameters: 0 replicated, 1 sharded"));
  CHECK_THAT(text, Contains("optimizer    sgd\n"));
  // 5/6 of 48 bytes.
  CHECK_THAT(text, Contains("1 all_to_all a step, 40 B sent by each device: gradient of w"));
  CHECK_THAT(text, Contains("1 permute a step, 16 B sent by each device: fc1"));
  CHECK_THAT(text, Contains("1 library product (240.0 FLOP a device), 1 kernel call (1 kernel), 1 copy"));
  CHECK_THAT(text, Contains("4.1 KB a device: 64 B parameters, 8 B state, 36 B inputs and outputs"));
  CHECK_THAT(text, Contains("this one is 1.024 times that"));
  CHECK_THAT(text, Contains("determinism  refused"));
  CHECK(llvm::StringRef(text).count('\n') <= 12);
}

} // namespace ashlar::test::image_test
