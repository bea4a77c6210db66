// SPDX-License-Identifier: Apache-2.0
//
// Passes from one device's nn + dist program to exec.

#ifndef ASHLAR_PASSES_LOWER_PASSES_TD
#define ASHLAR_PASSES_LOWER_PASSES_TD

include "dialects/exec/target_option.td"

def SelectResultsPass : Pass<"ashlar-select-results", "::mlir::ModuleOp"> {
  let summary = "Runs the bodies of repeats whose condition is not worth it.";
  let description = [{
    A repeat with a condition stays as it is where that saves time: its body has a product, a convolution, a collective or a loop, or takes
    more than 16384 elements. Others become the ops of their body and selects, which join the kernels around them. So do bodies with
    collectives where the condition may differ between devices, which have to meet, and all bodies on a target that runs no instructions by
    a condition.

        %y = nn.repeat 1 when %c carried(%r = %x) : (tensor<8xf32>, tensor<i1>) -> tensor<8xf32> { nn.yield (nn.exp %r) }
    ==>
        %e = nn.exp %x
        %y = nn.select (broadcast %c), %e, %x

    Needs: local shapes (after ashlar-partition). Leaves: the same ops.
  }];
  let options = [TargetOption<"the target, which runs instructions by a condition or not">];
  let dependentDialects = ["::ashlar::nn::NnDialect"];
}

def ExpandOpsPass : Pass<"ashlar-expand-ops", "::mlir::func::FuncOp"> {
  let summary = "Expands composite ops into element-wise ops, broadcasts and reductions.";
  let description = [{
    Softmax, log-softmax and cross entropy become max, sub, exp, sum, ... so that one fusion mechanism serves them and their gradients. A
    matrix product that the library does not take (f64 or integer, or too small to be worth the call) becomes broadcast, mul, reduce; a
    transpose of the last two dims that feeds a library product becomes a flag of it. Convolutions go to the library in the format of
    ashlar-assign-formats; convolutions that no library takes (f64) become windows, mul, reduce. Sums of bf16 and f16 are computed in f32
    between conversions; only the library of the cuda target takes products of these types directly, and it sums the rows of an operand of a
    product in the same call: the gradients of a weight and of its bias become one exec.product_with_sums. An activation and its gradient join
    their products where the library has such epilogues: exec.product_with_auxiliary and exec.product_with_slope. What comes out of the slot
    moves to the front of the program, and what goes there to its end, as the runtime receives before a program and sends after it.

        %y = nn.softmax %x : tensor<4x8xf32>
    ==>
        %m = nn.reduce max %x dims = [1]
        %e = nn.exp (%x - broadcast %m)
        %y = %e / broadcast (nn.reduce sum %e dims = [1])

    Needs: local shapes (after ashlar-partition), and ashlar-assign-formats for convolutions. Leaves: no softmax, log_softmax,
    softmax_cross_entropy, and no convolution except library calls.
  }];
  let options = [Option<"gemmFlops", "gemm-flops", "int64_t", "16384",
                        "f32 matrix products of at least this many multiply-adds go to the library">,
                 TargetOption<"the target whose library computes the products, and whose kernels the rest">];
  let dependentDialects = ["::ashlar::nn::NnDialect", "::ashlar::exec::ExecDialect"];
}

def OrderOpsPass : Pass<"ashlar-order-ops", "::mlir::func::FuncOp"> {
  let summary = "Orders a program for fusion and memory.";
  let description = [{
    Places every element-wise op, broadcast and reduction as late as its first user needs it, a reduction right after its operand, and a
    write as soon as the new value can be computed and the old one is dead; so gradients die early. Library calls, collectives and
    reductions keep their order, so it is the same on every rank. Dead ops are dropped.

    Needs: ashlar-expand-ops. Leaves: the same ops in another order.
  }];
}

def FusePass : Pass<"ashlar-fuse", "::mlir::func::FuncOp"> {
  let summary = "Groups ops into fusions, each one kernel or one library call.";
  let description = [{
    Grows groups in program order: an op joins the open group of its operands when shapes fit the group's loop nest. A group closes when an
    op outside it uses one of its values, so groups never depend on each other in a cycle; time is linear in the program, n log n where
    groups merge. Cheap ops without a nest of their own (broadcast, slice, constants, arithmetic on indices, ...) are copied into every
    group that reads them. A group has bounds on its code and its buffers (kernel_size.h), so the time to compile a kernel does not depend
    on the model. A result that is cheaper to recompute in its readers than to store is not stored. A reduction of many elements to few is
    split in two, so that all threads, or the whole chip, have work; kernels shorter than their launch become one.

    Needs: ashlar-order-ops. Leaves: nn.read, nn.write, nn.constant, nn.reshape (a change of shape without a copy), exec.fusion, dist collectives, return.
  }];
  let options = [TargetOption<"the target whose library decides which ops join a product">];
  let dependentDialects = ["::ashlar::nn::NnDialect", "::ashlar::exec::ExecDialect"];
}

def OverlapCollectivesPass : Pass<"ashlar-overlap-collectives", "::mlir::ModuleOp"> {
  let summary = "Overlaps collectives with computation.";
  let description = [{
    Over links that move data while a device computes (#dist.costs, `beside`) a collective starts as soon as its operands exist, and is
    awaited before the first op that takes a result; ops in between move up. The order follows from the costs of all ops (docs/overlap.md).
    A collective that would be awaited at once stays one instruction, and a program that gets no faster keeps its order.

        %s = dist.all_reduce sum %dw2 over ["dp"]
        %n = exec.fusion loop(%w2, %s) ...
        %dw1 = exec.fusion gemm(%x, %d1) ...
    ==>
        %s = dist.all_reduce sum %dw2 over ["dp"] {exec.overlap = #exec.overlap<duration_ns = 52000, hidden_ns = 41000>}
        %dw1 = exec.fusion gemm(%x, %d1) ...
        %r = exec.await %s
        %n = exec.fusion loop(%w2, %r) ...

    Needs: ashlar-fuse. Leaves: the same, and exec.await.
  }];
  let options = [TargetOption<"the target, which decides where threads or streams synchronize">];
  let dependentDialects = ["::ashlar::exec::ExecDialect"];
}

def EstimateProgramsPass : Pass<"ashlar-estimate-programs", "::mlir::ModuleOp"> {
  let summary = "Predicts the time of a run of each program.";
  let description = [{
    Adds up the times of the ops of a program at the rates of the device and the links (docs/overlap.md), in program order: asynchronous
    collectives overlap the ops after them, and values that are only stored, such as initial values, cost a copy. Where one device alone
    runs ops, the others wait for it at the next synchronization. And the same without collectives. A module without `dist.device` stays as it is.

        func.func @forward(%x: tensor<256x512xf32>)
    ==>
        func.func @forward(%x: tensor<256x512xf32>) attributes {exec.computing_ns = 1342178 : i64, exec.other_ps = 720 : i64, exec.predicted_ns = 1342178 : i64}

    Fusions and slices get their own time, `exec.time_ps`, collectives their traffic, `exec.messages` and `exec.bytes_sent`;
    `exec.other_ps` is the rest of the time, which is at the end.

    Needs: ashlar-fuse. Leaves: the same.
  }];
  let options = [TargetOption<"the target, which decides where threads or streams synchronize">];
  let dependentDialects = ["::ashlar::exec::ExecDialect"];
}

def PlanMemoryPass : Pass<"ashlar-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Turns functions on tensors into programs on buffers of one arena.";
  let description = [{
    Every public function becomes an exec.program of one exec.variant; its fusions become kernels (equal fusions share one), library
    calls, collectives and copies. Variables, inputs and outputs get fixed places at the front of the arena; temporaries are packed after
    them by lifetime. A value is computed in its variable, in its output or over an operand that dies, if nothing reads the old bytes
    later.

        func.func @train_step(%x: tensor<4xf32> {nn.name = "x"}) { %w = nn.read @w; %n = exec.fusion loop(%w, %x) ...; nn.write @w, %n }
    ==>
        exec.variant @default arena 192 ... {
          exec.tensor @w variable #exec.buffer<arena, 64, memref<4xf32>> ...
          exec.program @train_step inputs [@x] outputs [] { exec.kernel @loop_0 [w, x] reads [0, 1] writes [0] extent 4 grain 4 }
        }

    Needs: ashlar-fuse. Leaves: no tensor op, no function but kernels, no variable, no mesh.
  }];
  let options = [Option<"variantName", "variant", "std::string", "\"default\"", "name of the exec.variant; kernels of variants other than default carry it">,
                 Option<"devicesPerProcess", "devices-per-process", "int64_t", "1", "devices of the mesh that one process simulates">,
                 Option<"memoryLimit", "memory-limit", "int64_t", "0", "bytes that a process may hold, counted as in memory_use.h; 0: any number">,
                 Option<"ranksPerHost", "ranks-per-host", "int64_t", "INT64_MAX", "ranks r with equal r / ranks-per-host share a host">,
                 TargetOption<"the target of the kernels">,
                 Option<"allowTf32", "allow-tf32", "bool", "false", "let f32 matrix products round their operands to 10 bits of mantissa">];
  let dependentDialects = ["::ashlar::nn::NnDialect", "::ashlar::dist::DistDialect", "::ashlar::exec::ExecDialect",
                           "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::math::MathDialect",
                           "::mlir::gpu::GPUDialect", "::mlir::LLVM::LLVMDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def VerifyExecPass : Pass<"ashlar-verify-exec", "::mlir::ModuleOp"> {
  let summary = "Checks instruction tables before code is made of them.";
  let description = [{
    Independent of the planner: it follows each program and checks the last writer of every byte.

    **Constraints:** (C1) only variants, constants and kernels at module level; (C2) every buffer inside the arena or the constants,
    aligned; (C3) constants are not written; (C4) named tensors and coordinates share no byte; (C5) a buffer that is read was last written
    entirely by one instruction, or before the program as a named tensor; (C6) one instruction's results share no byte; (C7) a call passes
    the buffers of its kernel; (C8) it writes exactly the buffers to which its kernel stores, but for ones without elements; (C9) the axes of a collective partition the
    devices into groups, and device_ids are a permutation of the ranks; (C10) its root and pairs are members of a group, and no member is
    the target of two pairs; (C11) each target has the shape that follows from the kind and its source. By (C9) to (C11), and because
    conditions are the same on all devices, the members of a group join the same collectives in the same order (docs/communication.md). (C12) A
    collective that is started is awaited once, later in the program, and until then nothing writes its operands or uses its results. (C13)
    An owner is a device of the mesh, and of no collective; (C14) a program leaves each persistent tensor completely written; (C15) fixed
    weights are constants, or a variable that no program except @init writes, and @init has none; kept weights stay where they
    are in the innermost repeat around the call, and nothing in it writes them; (C16) a buffer moves in repeats that there
    are, by multiples of the alignment that the target wants of rows, or of its element in a copy; (C17) the target of an insert shares no
    byte with its rows and its index; (C18) repeats have conditions only on a target that takes them. In a repeat (C5) holds for its first
    two iterations, and of a buffer that moves for all places that it has; behind one with a condition, whether it ran or not. Each device with state of its own is checked separately, one instruction at a time that it runs.
  }];
  let options = [TargetOption<"the target, which decides where rows that move may begin">];
}

#endif // ASHLAR_PASSES_LOWER_PASSES_TD
