// SPDX-License-Identifier: Apache-2.0
//
// The C ABI between a compiled program and the runtime. The compiler writes one constant `ashlar_rt_image` into the executable; the
// generated main() passes it to ashlar_rt_main(). Everything in it is constant and known at compile time: shapes, offsets, the order of
// kernels and collectives. ASHLAR_RT_ABI_VERSION grows with every change of a struct.
//
// Words: a *device* is one point of the mesh. A *process* (rank) simulates one device (device_ids may choose it), or, in the
// deterministic variant, a contiguous run of devices ("chunks") in lockstep. Offsets and sizes are bytes; shapes are elements, row major,
// innermost dim last.

#ifndef ASHLAR_RUNTIME_ABI_ASHLAR_RT_H
#define ASHLAR_RUNTIME_ABI_ASHLAR_RT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Grows with every change of a struct below; ashlar_rt_main() refuses an image of another version.
#define ASHLAR_RT_ABI_VERSION 35

// Buffers start on this boundary; arena offsets are multiples of it.
#define ASHLAR_RT_ALIGNMENT 64

// Largest rank of a tensor in the ABI.
#define ASHLAR_RT_MAX_RANK 8

// Element types. A bool is one byte holding 0 or 1.
typedef enum {
  ASHLAR_RT_F32 = 1,
  ASHLAR_RT_F64 = 2,
  ASHLAR_RT_I32 = 3,
  ASHLAR_RT_I64 = 4,
  ASHLAR_RT_BOOL = 5,
  ASHLAR_RT_F16 = 6,
  ASHLAR_RT_BF16 = 7,
  ASHLAR_RT_I8 = 8,
  ASHLAR_RT_I16 = 9,
  ASHLAR_RT_U8 = 10,
  ASHLAR_RT_U16 = 11,
  ASHLAR_RT_U32 = 12,
  ASHLAR_RT_U64 = 13
} ashlar_rt_dtype;

// One axis of the mesh. Devices are numbered row major over the axes: the last axis varies fastest.
typedef struct {
  const char *name;
  uint32_t size;
} ashlar_rt_axis;

// Where the bytes of an operand lie.
typedef enum {
  ASHLAR_RT_ARENA = 0,    // offset into the arena of the device
  ASHLAR_RT_CONSTANT = 1, // offset into the constants of the image; read only
  ASHLAR_RT_SLOT = 2      // offset into the slot of the micro-batch for which the program runs
} ashlar_rt_space;

typedef struct {
  uint32_t space;  // ashlar_rt_space
  uint32_t dtype;  // ashlar_rt_dtype
  uint64_t offset; // bytes
  uint64_t bytes;
  // Of an instruction in repeats: the bytes by which it moves from iteration to iteration of each of them, outermost first. It stays where
  // it is in the repeats that have no number here, which are the inner ones. No buffer of a collective moves.
  uint32_t num_strides;
  const int64_t *strides;
} ashlar_rt_buffer;

// The role of a named tensor for the outside.
typedef enum {
  ASHLAR_RT_VARIABLE = 0, // of the model: parameter, trained or not, or running statistic
  ASHLAR_RT_STATE = 1,    // optimizer state, step counter, seed: kept between steps, not trained
  ASHLAR_RT_INPUT = 2,    // written by the runtime before a program runs
  ASHLAR_RT_OUTPUT = 3,   // read by the runtime after a program ran
  ASHLAR_RT_PASSED = 4    // a value from one program of a micro-batch to another, of this or of another stage; in a slot
} ashlar_rt_role;

// How one dim of a tensor is split: the mesh axes that split it, major to minor. Not split: num_axes = 0.
typedef struct {
  uint32_t num_axes;
  const uint32_t *axes; // indices into the mesh's axes
} ashlar_rt_dim_split;

// A named tensor at a fixed place of the arena. local_shape[d] is global_shape[d] divided by the size of each axis of splits[d] in turn,
// rounded up each time; the excess at the end of a shard is padding with meaningless elements.
typedef struct {
  const char *name;
  uint32_t role; // ashlar_rt_role
  uint32_t rank;
  const int64_t *local_shape;
  const int64_t *global_shape;
  const ashlar_rt_dim_split *splits; // one a dim
  ashlar_rt_buffer buffer;
  uint32_t persistent;  // 1: its value lasts from step to step, and belongs into a checkpoint; 0: scratch
  const char *state_of; // of a state that the optimizer keeps: the name of the parameter; null otherwise
  uint32_t owner;       // 0: every device holds its piece; n: device n - 1 alone holds it, and others have other things in these bytes
  // Of an output whose dims have sizes that only a run finds: one a dim, the name of the output (i64, rank 0) with the number of its
  // elements, bounded by the global shape; null for a dim of fixed size. Null: all dims have fixed sizes.
  const char *const *counts;
} ashlar_rt_tensor;

typedef enum {
  ASHLAR_RT_KERNEL = 1,
  ASHLAR_RT_GEMM = 2,
  ASHLAR_RT_COLLECTIVE = 3,
  ASHLAR_RT_COPY = 4, // buffers: {source, target} of equal bytes
  ASHLAR_RT_WAIT = 5, // no buffers: until a collective that was started is done
  ASHLAR_RT_CONV = 6,
  ASHLAR_RT_ATTENTION = 7,
  // The instructions behind it run several times. No buffers; or one of a byte, its condition: where it is 0, they do not run. Programs of
  // the cuda target have no conditions.
  ASHLAR_RT_REPEAT = 8,
  ASHLAR_RT_INSERT = 9
} ashlar_rt_instr_kind;

// A generated kernel of the cpu target. `buffers` are the operands in order, already resolved to addresses. The kernel does the units
// [begin, end) of its outermost parallel loop; units are independent, so the runtime may cut [0, extent) into ranges and run them on
// several threads.
typedef void (*ashlar_rt_kernel_fn)(void *const *buffers, int64_t begin, int64_t end);

// A generated kernel of the cuda target is an entry of the image's device code. Its parameters are the addresses of the operands in order;
// its grid has `extent` blocks of `grain` threads, both in one dimension, and no dynamic shared memory.
typedef struct {
  ashlar_rt_kernel_fn function; // cpu; null on cuda
  const char *entry;            // cuda; null on cpu
  int64_t extent;               // cpu: units of the parallel loop, 1 when the kernel must not be cut; cuda: blocks
  int64_t grain;                // cpu: least number of units worth a thread, ranges begin at multiples of it; cuda: threads a block
} ashlar_rt_kernel_desc;

typedef enum {
  ASHLAR_RT_EPILOGUE_NONE = 0,
  ASHLAR_RT_EPILOGUE_RELU = 1,
  ASHLAR_RT_EPILOGUE_GELU_ERF = 2,
  ASHLAR_RT_EPILOGUE_GELU_TANH = 3,
  ASHLAR_RT_EPILOGUE_SIGMOID = 4,
  ASHLAR_RT_EPILOGUE_TANH = 5
} ashlar_rt_epilogue;

// The operand of a matrix product that is summed too, along the contraction: the gradient of a bias, with the gradient of its weight.
typedef enum {
  ASHLAR_RT_SUM_OF_NONE = 0,
  ASHLAR_RT_SUM_OF_A = 1, // sums over k of op(A): (m)
  ASHLAR_RT_SUM_OF_B = 2  // sums over k of op(B): (n)
} ashlar_rt_operand_sum;

// The operands of a matrix product of integers of 8 bits.
enum { ASHLAR_RT_BYTES = 1, ASHLAR_RT_SIGNED_A = 2, ASHLAR_RT_SIGNED_B = 4 };

// What is added to a product: nothing, the bias, or what `out` holds, of f32.
typedef enum { ASHLAR_RT_ADDEND_NONE = 0, ASHLAR_RT_ADDEND_BIAS = 1, ASHLAR_RT_ADDEND_OUT = 2 } ashlar_rt_addend;

// Weights that a kernel may read in an order of its own: fixed ones no program except init writes, so they are ordered once; kept ones
// no instruction of the innermost repeat around the call writes, so they are ordered when the repeat begins.
typedef enum { ASHLAR_RT_WEIGHTS_ANY = 0, ASHLAR_RT_WEIGHTS_FIXED = 1, ASHLAR_RT_WEIGHTS_KEPT = 2 } ashlar_rt_weights;

// The tensor of a matrix product from which the gradient of its epilogue is computed, where the product does not compute an activation
// alone.
typedef enum {
  ASHLAR_RT_AUXILIARY_NONE = 0,
  ASHLAR_RT_AUXILIARY_WRITTEN = 1, // beside the activation
  ASHLAR_RT_AUXILIARY_READ = 2     // the product is multiplied by the slope of the activation
} ashlar_rt_auxiliary;

// out[b] = epilogue(op(A[b]) * op(B[b]) + bias), products summed in f32. A[b]: (m, k), or (k, m) when transpose_a; B[b]: (k, n), or (n, k)
// when transpose_b; out[b]: (m, n); bias: (n), added to every row. Dense, row major, batches one after the other. A and B have one dtype,
// f32, bf16 or f16; out has that or f32; bias and sums have out's dtype. buffers: {A, B, [bias,] [auxiliary read,] out, [sums,] [auxiliary
// written]}. Sums only of one batch, with neither bias nor epilogue. Auxiliary tensors only of one batch, with relu or gelu_tanh: of
// gelu_tanh the value before the activation, (m, n) of out's dtype; of relu a mask of bits, (m, auxiliary_row), as i8, in an order that
// only products of the same program know. Read: out = A B * activation'(x), x being the value that the tensor was written for. On cpu:
// neither sums nor auxiliary tensors; and products of integers of 8 bits, signed or not, to i32, summed modulo 2^32, with neither bias nor
// epilogue. B may be fixed weights: see ashlar_rt_conv_desc.
typedef struct {
  int64_t batch, m, n, k;
  uint32_t transpose_a, transpose_b;
  uint32_t addend;        // ashlar_rt_addend
  uint32_t epilogue;      // ashlar_rt_epilogue
  uint32_t operand_sum;   // ashlar_rt_operand_sum
  uint32_t allow_tf32;    // f32 operands may be rounded to 10 bits of mantissa
  uint32_t fixed_weights; // ashlar_rt_weights
  uint32_t bytes;         // 0, or ASHLAR_RT_BYTES and which operands are signed
  uint32_t narrow;        // of bf16 or f16: ASHLAR_RT_BF16 or ASHLAR_RT_F16, else 0
  uint32_t narrow_out;    // and so are `out`, bias and sums
  uint32_t auxiliary;     // ashlar_rt_auxiliary
  uint32_t auxiliary_row; // elements of a row of the auxiliary tensor, of a mask bits: n, or more
} ashlar_rt_gemm_desc;

typedef enum { ASHLAR_RT_CONV_FORWARD = 1, ASHLAR_RT_CONV_DATA = 2, ASHLAR_RT_CONV_WEIGHTS = 3 } ashlar_rt_conv_kind;

// One spatial dim of a convolution. Element k of the window at position o is element o * stride + k * dilation - low of the input, 0
// outside of it. `low` may be negative (elements left out). Elements after the last window are not read.
typedef struct {
  int64_t in, out, kernel, stride, dilation, low;
} ashlar_rt_conv_dim;

// A convolution or one of its gradients. x: (batch, in..., groups * channels_in), y: (batch, out..., groups * channels_out), w: (groups *
// channels_out, channels_in, kernel...), on cuda (groups * channels_out, kernel..., channels_in), dense, the operands of one dtype: f32,
// bf16 or f16, summed in f32. The result has that dtype, and so have scale, bias and residual; or on cpu all of them are f32. On cuda: the
// convolution alone, and equal padding before and after a dim. buffers, and the result:
//   forward   {x, w, [scale,] [bias,] [residual (as y),] y}   y = epilogue(convolution * scale + bias + residual)
//   data      {y, w, [scale,] [bias,] [residual (as x),] x}   x = epilogue(gradient with respect to x * scale + bias + residual)
//   weights   {x, y, w}                                       w = gradient with respect to w, and nothing else
// scale and bias have one number a channel of the result. Fixed weights are a variable or constants that no program except init writes: a
// kernel may keep its reordered copy of them from run to run. On cuda: never. The result overlaps no operand. All sizes are at least 1.
typedef struct {
  uint32_t kind; // ashlar_rt_conv_kind
  uint32_t has_scale, has_bias, has_residual;
  uint32_t epilogue;                                // ashlar_rt_epilogue
  uint32_t allow_tf32;                              // f32 operands may be rounded to 10 bits of mantissa
  uint32_t fixed_weights;                           // ashlar_rt_weights, of forward and data
  uint32_t spatial_dims;                            // 1 to 3
  int64_t batch, groups, channels_in, channels_out; // channels of one group
  ashlar_rt_conv_dim dims[3];                       // of fewer spatial dims: the first ones are {1, 1, 1, 1, 1, 0}
  uint32_t narrow;                                  // of bf16 or f16: ASHLAR_RT_BF16 or ASHLAR_RT_F16, else 0
  uint32_t narrow_out;                              // and so are the result, scale, bias and residual
} ashlar_rt_conv_desc;

typedef enum { ASHLAR_RT_ATTENTION_FORWARD = 1, ASHLAR_RT_ATTENTION_BACKWARD = 2 } ashlar_rt_attention_kind;

// The tensors of an attention, as bits.
typedef enum {
  ASHLAR_RT_ATTENTION_Q = 1,
  ASHLAR_RT_ATTENTION_K = 2,
  ASHLAR_RT_ATTENTION_V = 4,
  ASHLAR_RT_ATTENTION_OUT = 8,
  ASHLAR_RT_ATTENTION_D_OUT = 16,
  ASHLAR_RT_ATTENTION_D_Q = 32,
  ASHLAR_RT_ATTENTION_D_K = 64,
  ASHLAR_RT_ATTENTION_D_V = 128
} ashlar_rt_attention_tensor;

// out = softmax(s) v over the keys, s = mask(softcap(scale * q k^T)), or the gradients of it. q: (batch, heads, rows, width), k: (batch,
// key_heads, keys, width), v: (batch, key_heads, keys, value_width), out: (batch, heads, rows, value_width), dense, of one dtype, on
// the cpu f32 or bf16, on cuda bf16 or f16, as their gradients; computed in f32. lse: (batch, heads, rows), f32, log(sum(exp(s))) of each
// row. Head h has the keys of key head h / (heads / key_heads). buffers:
//   forward    {q, k, v, [mask,] [positions,] [draw,] out, lse}
//   backward   {q, k, v, [mask,] [positions,] [draw,] out, lse, d_out, d_q, d_k, d_v}   the last three are written
// A tensor of `heads_inside` has its heads inside its rows: (batch, rows, heads, width), as a product of all heads gives and takes it.
// Softcap, where it is not 0: softcap * tanh(s / softcap). Causal: row i sees the keys j <= i + diagonal, and
// where there is a window, j > i + diagonal - window. The mask is added to s, f32 or
// bf16, or says which keys are seen, bool. A row that sees no key, or only keys whose s is -inf, is -inf in lse and NaN in
// out, as its softmax is. Positions: vectors of i64, (rows) and (keys), of consecutive numbers, which stand for i and j. A dropout that is
// not 0 multiplies the softmax by `kept` where a number in [0, 1) is at least the dropout, by 0 elsewhere: Philox4x32-10 (nn.random) of the
// index row_index + key_index; draw: {row_index, key_index, seed, step, stream}, (batch, heads, rows) and (keys) and two scalars, i64, and
// an i32. On the cpu only. An infinity or NaN in a key or value that a row does not see may reach the row. All sizes are at least 1; no
// result overlaps an operand.
typedef struct {
  uint32_t kind;                   // ashlar_rt_attention_kind
  uint32_t dtype;                  // ashlar_rt_dtype
  int64_t batch, heads, key_heads; // heads: a multiple of key_heads
  int64_t rows, keys;              // rows of q and of k
  int64_t width, value_width;      // columns of q and k, and of v
  int64_t diagonal, window;        // of causal; window 0: none
  uint32_t causal;                 // 0 or 1
  uint32_t mask;                   // ashlar_rt_dtype; 0: none
  uint64_t positions;              // 0 or 1: rows and keys of a causal one have some
  uint64_t heads_inside;           // ashlar_rt_attention_tensor, of all that are so
  int64_t mask_strides[4];         // elements along batch, heads, rows and keys; 0 where it is broadcast
  float scale, softcap;
  float dropout, kept; // kept: 1 / (1 - dropout)
} ashlar_rt_attention_desc;

// target[o, index + r] = rows[o, r] for each o and r, where index + r is in [0, places); all else of the target stays as it is. rows:
// (outer, rows, row_bytes), target: (outer, places, row_bytes), dense, in bytes. buffers: {rows, index, target}; the index is an i32 or an
// i64. The target overlaps neither of the others. On the cpu only.
typedef struct {
  int64_t outer, rows, places, row_bytes;
} ashlar_rt_insert_desc;

typedef enum {
  ASHLAR_RT_ALL_REDUCE = 1,     // in and out of one shape; may be one buffer
  ASHLAR_RT_ALL_GATHER = 2,     // out = the group's inputs concatenated along `concat_dim`
  ASHLAR_RT_REDUCE_SCATTER = 3, // out = piece `coordinate` along `split_dim` of the group's reduced input
  ASHLAR_RT_ALL_TO_ALL = 4,     // split own input along `split_dim`, concatenate received shards along `concat_dim`
  ASHLAR_RT_BROADCAST = 5,      // out = the input of the group's member `root`; may be one buffer
  ASHLAR_RT_PERMUTE = 6,        // out = the input of the device that names this one in `pairs`; zeros when none does
  ASHLAR_RT_SLICE = 7,          // no communication: out = piece `coordinate` along `split_dim` of the own input
  ASHLAR_RT_HALO = 8            // out = the elements that the device needs along `split_dim`, from the devices that have them
} ashlar_rt_collective_kind;

typedef enum { ASHLAR_RT_SUM = 0, ASHLAR_RT_MAX = 1, ASHLAR_RT_MIN = 2 } ashlar_rt_reduction;

// The description of one tensor of a collective.
typedef struct {
  uint32_t rank;
  const int64_t *in_shape; // local shape of `in`
  uint32_t split_dim, concat_dim;
} ashlar_rt_collective_tensor;

// Which elements of a dim each device of a group has: `positions` are cut along the axes of the group, each time into pieces of equal size,
// rounded up, and the device with the positions [a, b) has the elements [a * step + first, (b - 1) * step + last). Its buffer is as long as
// for a full piece.
typedef struct {
  int64_t positions, step, first, last;
} ashlar_rt_segments;

// A halo along a dim of `size` elements: each device has its segment of `from`, without overlaps, and gets its segment of `to`. Elements
// outside of the tensor, and elements that no position needs, are 0.
typedef struct {
  int64_t size;
  ashlar_rt_segments from, to;
  const uint32_t *axis_sizes; // of the axes of the collective
} ashlar_rt_halo;

// A collective over the groups of devices that differ only along `axes`; a member's coordinate counts along `axes`, major to minor.
// buffers: {in, in, ..., out, out, ...}, one of each for each tensor, in their order: every tensor gets the result of a collective of it
// alone, bit by bit, in one synchronization of the devices. All devices run the same collective at the same place of the program, so an
// `in` has one offset on all of them.
typedef struct {
  uint32_t kind;      // ashlar_rt_collective_kind
  uint32_t dtype;     // ashlar_rt_dtype
  uint32_t reduction; // ashlar_rt_reduction
  uint32_t num_axes;
  const uint32_t *axes;
  uint32_t num_tensors; // at least 1
  const ashlar_rt_collective_tensor *tensors;
  uint32_t root;
  uint32_t num_pairs;
  const uint32_t *pairs; // num_pairs x {source, target}, coordinates in the group
  const char *cause;     // op and module path that made the compiler insert it
  // Not 0: the instruction only starts it. Until the one ASHLAR_RT_WAIT of this token, later in the program, it reads its `in` and writes
  // its `out` beside other instructions. Collectives of one group are done in the order in which they are started.
  uint32_t token;
  uint64_t duration_ns, hidden_ns; // with a token: its predicted duration, and the overlapped part
  const ashlar_rt_halo *halo;      // of a halo; null otherwise
  uint64_t messages, bytes_sent;   // that follow one another, and bytes that a device sends, as the compiler counts them
} ashlar_rt_collective_desc;

typedef struct {
  uint32_t token;
} ashlar_rt_wait_desc;

// The next num_instrs instructions run count times. They may have repeats, which end before these do or with them.
typedef struct {
  uint64_t count;
  uint32_t num_instrs;
} ashlar_rt_repeat_desc;

// An instruction's access to a buffer: bits. READ alone leaves the bytes as they are; WRITE alone does not depend on the old ones.
typedef enum { ASHLAR_RT_READ = 1, ASHLAR_RT_WRITE = 2 } ashlar_rt_access;

// It touches no bytes outside its buffers; a collective that is only started, until it is awaited. Two instructions must keep their order
// where they share a byte and one of them writes it.
typedef struct {
  uint32_t kind;    // ashlar_rt_instr_kind
  const char *name; // its kind and, after a space, the path of its (first) op: "loop_3 layer1.0/relu"
  uint32_t num_buffers;
  const ashlar_rt_buffer *buffers;
  const uint32_t *accesses; // one a buffer: bits of ashlar_rt_access
  const void *desc;         // ashlar_rt_<kind>_desc, or null for a copy
  uint32_t owner;           // 0: all devices run it; n: device n - 1 alone does, and no collective has one
  uint64_t predicted_ps;    // one run of it, alone; 0 of a wait, of a repeat, and of a collective that sends, whose time follows from links
} ashlar_rt_instr;

// The roles of programs; 0 for a program of none. A program that the job does not need is absent.
typedef enum {
  ASHLAR_RT_INIT = 1,       // sets every variable and state
  ASHLAR_RT_RUN = 2,        // runs the model
  ASHLAR_RT_LARGER_RUN = 3, // in no executable
  ASHLAR_RT_PREPARE = 4,    // computes values that the micro-batches of a step share
  ASHLAR_RT_TRAIN_STEP = 5, // runs one step, or one micro-batch of a step
  // Parts of a micro-batch on a stage of a pipeline.
  ASHLAR_RT_FORWARD = 6,
  ASHLAR_RT_BACKWARD = 7,
  ASHLAR_RT_WEIGHTS = 8, // gradients that no other stage waits for
  ASHLAR_RT_UPDATE = 9,  // of the variables
  // Computes loss and correct count of one batch. Where a pipeline has each batch go several times through its stages, it is a program for
  // each chunk, which follow each other in a stage; the last stage's last one has the results.
  ASHLAR_RT_EVAL_STEP = 10,
  // The two programs of an executable that generates text. Inputs: {tokens (batch, positions), position (i64, rank 0)}; the tokens
  // are at [position, position + positions). They share the states that hold keys and values.
  ASHLAR_RT_PREFILL = 11, // keys and values of several positions; no outputs
  ASHLAR_RT_DECODE = 12   // of one position, and its output: logits (batch, 1, vocabulary)
} ashlar_rt_program_role;

// What a run of a micro-batch is joined with: bits.
typedef enum { ASHLAR_RT_PREPARES = 1, ASHLAR_RT_UPDATES = 2 } ashlar_rt_joined;

// Of a variant, no two programs with a role have the same one.
typedef struct {
  uint32_t role;   // ashlar_rt_program_role
  uint32_t chunk;  // of the stage, from 0
  uint32_t round;  // of an update, from 0: each takes messages of the round before
  uint32_t joined; // ashlar_rt_joined
} ashlar_rt_program_id;

// A tensor that goes from a program of one stage to one of another, between the devices of equal mesh coordinates. Both sides send, or
// receive, once a run, so their n-th runs belong together, and are for the same micro-batch. Each channel is sent on by one program and
// received by one.
typedef struct {
  uint32_t tensor;  // index into the variant's tensors; it lies in a slot
  uint32_t stage;   // the other side
  uint32_t channel; // number among the transfers from the one stage to the other, the same on both sides
} ashlar_rt_transfer;

// inputs, outputs and transfers index the variant's tensors. Received tensors are complete when the program begins; sent ones are complete
// when it ends, and stay unchanged until the other side has them.
typedef struct {
  const char *name; // for messages and traces
  ashlar_rt_program_id id;
  uint32_t num_instrs;
  const ashlar_rt_instr *instrs;
  uint32_t num_inputs;
  const uint32_t *inputs;
  uint32_t num_outputs;
  const uint32_t *outputs;
  uint32_t num_receives;
  const ashlar_rt_transfer *receives;
  uint32_t num_sends;
  const ashlar_rt_transfer *sends;
  uint64_t predicted_ns; // one run on one device, as the compiler predicts it; 0: unknown
  uint64_t other_ps;     // of it, at its end: values that are only stored, which no instruction has, and the rounding to ns
} ashlar_rt_program;

// One entry of the order of a step.
typedef struct {
  uint32_t program;     // index into the variant's programs
  uint32_t micro_batch; // of the step, from 0 on; of what comes before the micro-batches or behind them the first or the last one
  uint32_t takes_batch; // 1: the next batch of the data is put into the input tensors first
} ashlar_rt_run;

// Runs [begin, end) of an order, done `count` times, the micro-batches larger by `stride` each time.
typedef struct {
  uint32_t begin, end, count, stride;
} ashlar_rt_repeat;

// The order of a step: its repetitions one after the other. Regular orders are short, however many micro-batches a step has.
typedef struct {
  uint32_t num_runs;
  const ashlar_rt_run *runs;
  uint32_t num_repeats;
  const ashlar_rt_repeat *repeats;
} ashlar_rt_order;

// The cost of a message: its latency, and the rate of its bytes.
typedef struct {
  uint64_t latency_ns, bytes_per_us;
} ashlar_rt_message_cost;

// The links that the groups along an axis go by. A group over several axes has the worse of theirs in each number.
typedef struct {
  ashlar_rt_message_cost costs[ASHLAR_RT_HALO + 1]; // by ashlar_rt_collective_kind
  uint32_t moves_beside;                            // 1: while the devices compute; a group over several axes where one of them does
} ashlar_rt_link;

// The machine for which the times of a variant were predicted. Rank r is on host r / ranks_per_host, whose ranks share the adapters between
// hosts; host h is in pod h / hosts_per_pod, whose ranks share its uplinks. A collective takes messages * latency + bytes / rate.
typedef struct {
  uint64_t ranks_per_host, adapters_per_host;
  uint32_t rails;                                     // 1: rank r of a host sends by adapter r * adapters / ranks of it alone
  uint64_t hosts_per_pod, uplinks_per_pod;            // 0: all hosts are one pod
  uint64_t adapter_bytes_per_us, uplink_bytes_per_us; // of a message (ASHLAR_RT_PERMUTE) over one; without pods the latter is 0
  uint64_t hand_over_ps;                              // that a collective with a token takes besides
  const ashlar_rt_link *axes;                         // one an axis
  const ashlar_rt_link *stages;                       // one a stage: of a message (ASHLAR_RT_PERMUTE) from it to this one
} ashlar_rt_links;

// The programs for one mesh, or, where a pipeline has several stages, the programs of one stage: a variant a stage, of one name and mesh,
// in the order of the stages. devices = product of the axes = processes of a stage * devices_per_process. Rank stage * devices + d is
// device d of a stage.
typedef struct {
  const char *name; // "default" or "deterministic"
  uint32_t num_axes;
  const ashlar_rt_axis *axes;
  uint32_t devices_per_process;
  uint64_t arena_bytes; // of one device; the runtime places it, zero filled, at an address aligned to 4096
  // The mesh coordinates of the device: num_axes x i64 at this arena offset, written by the runtime before the first program.
  uint64_t coordinates_offset;
  uint32_t num_tensors;
  const ashlar_rt_tensor *tensors;
  uint32_t num_programs;
  const ashlar_rt_program *programs;
  // The rank that plays each device; null: the devices in turn. Only where devices_per_process is 1 and there is one stage.
  const uint32_t *device_ids;
  uint32_t stage, num_stages; // num_stages 1: no pipeline
  // The values that live from one program of a micro-batch to another, in the arena: the n-th micro-batch since the start of the run has
  // slot n % num_slots. Training, and each run of eval_step, counts on its own. No slots: num_slots 1, slot_bytes 0.
  uint64_t slots_offset, slot_bytes;
  uint32_t num_slots;
  ashlar_rt_order order;        // of a training step; no runs in a forward executable
  const ashlar_rt_links *links; // null: without a mesh, or nothing is known of them
} ashlar_rt_variant;

// The transforms of a sample on its way into the batch, and the numbers of each kind; described in docs/data.md.
typedef enum {
  ASHLAR_RT_RESCALE = 1,     // {scale, shift}: x * scale + shift
  ASHLAR_RT_NORMALIZE = 2,   // {mean, ..., std, ...}: (x - mean) / std; one of each, or one a channel
  ASHLAR_RT_RESIZE = 3,      // {height, width}
  ASHLAR_RT_RANDOM_CROP = 4, // {height, width, padding}; height, width 0: as in the image
  ASHLAR_RT_RANDOM_FLIP = 5, // {probability}
  ASHLAR_RT_HWC_TO_CHW = 6,  // {}
  ASHLAR_RT_TYPE_CAST = 7,   // {ashlar_rt_dtype}
  ASHLAR_RT_ONE_HOT = 8      // {classes}
} ashlar_rt_transform_kind;

// Most transforms of a feature: each has random numbers of its own.
#define ASHLAR_RT_MAX_TRANSFORMS 256

typedef struct {
  uint32_t kind; // ashlar_rt_transform_kind
  uint32_t num_numbers;
  const double *numbers;
} ashlar_rt_transform;

// Binds a column of the data set to an input tensor of the programs.
typedef struct {
  const char *column; // "image", "label", "x", "z", or a name of the job: which ones exist depends on the format
  const char *tensor; // name of the input tensor
  uint32_t num_transforms;
  const ashlar_rt_transform *transforms; // in order
  // Class labels are 0 .. classes - 1, or ignored_label (one of these when no other is allowed); the runtime refuses a data set with any
  // other. 0: not class labels.
  uint64_t classes;
  int64_t ignored_label;
  // Rows of the smallest table that the program looks up by these numbers, -table_rows .. table_rows - 1; the runtime refuses a data set
  // with any other. 0: no table.
  uint64_t table_rows;
} ashlar_rt_feature;

// What `params` of a data set of tokens hold (docs/data.md).
typedef enum {
  ASHLAR_RT_WINDOW = 0,            // tokens of a sample
  ASHLAR_RT_TOKEN_BYTES = 1,       // bytes of a token in files without a header: 1, 2 or 4
  ASHLAR_RT_EVAL_SHARE = 2,        // the share of each train file that is the eval split; 0: files of its own
  ASHLAR_RT_BOUNDARY = 3,          // the token between documents; -1: none
  ASHLAR_RT_BOUNDARY_BEGINS = 4,   // 1: it is the first token of a document, else the last
  ASHLAR_RT_PREDICTS_NEXT = 5,     // 0: the first token of a document is no target
  ASHLAR_RT_RESTARTS_POSITIONS = 6 // 1: positions begin at 0 in each document
} ashlar_rt_token_param;

// What `params` of a data set of images hold.
typedef enum {
  ASHLAR_RT_IMAGE_HEIGHT = 0,
  ASHLAR_RT_IMAGE_WIDTH = 1,
  ASHLAR_RT_IMAGE_SHORT_SIDE = 2, // of the resized image whose middle is taken
  ASHLAR_RT_IMAGE_LEAST_AREA = 3  // share of the area that a random part has in training; 0: the middle, as in evaluation
} ashlar_rt_image_param;

// Where the samples come from. `format`: "idx", "npy", "npz", "csv", "cifar10", "images", "tokens", "digits", "text" or "regression"
// (docs/data.md). Files lie in --data DIR under the names of their format. Generators take `train_samples`, `eval_samples` and `params`
// (regression: a, b, c, noise; tokens and text: by ashlar_rt_token_param; images: by ashlar_rt_image_param).
typedef struct {
  const char *format;
  // Format that --data DIR switches to when `format` is a generator: "idx" for digits, "tokens" for text; null: --data is refused.
  const char *directory_format;
  // The files of each split below --data DIR, * and ? stand for any characters; null: the usual names. npz: the same file of both
  // splits has members <column>_train and <column>_eval.
  const char *train_files, *eval_files;
  const char *categories; // csv: columns of words, separated by commas; null: none
  uint64_t train_samples, eval_samples;
  double params[8];
  uint32_t shuffle;
  uint32_t drop_remainder;
  uint64_t repeat; // passes over the data in one epoch; >= 1
  uint32_t num_features;
  const ashlar_rt_feature *features;
} ashlar_rt_dataset;

typedef struct {
  ashlar_rt_dataset dataset;
  uint64_t global_batch;      // samples of a run of train_step
  uint64_t epochs;            // default of --epochs
  uint64_t log_every;         // default of --log-every, steps; 0: once an epoch
  const char *loss_tensor;    // output of train_step and eval_step: loss of the step, share of the batch in the loss; f32 or f64, rank 0
  const char *correct_tensor; // output of eval_step: correct labels of the batch, i64, rank 0; null for a regression
  const char *rows_tensor;    // output of eval_step: labels of the batch that count, i64, rank 0; null: all of them
  // Input of eval_step, i64, rank 0: the number of samples of the batch that count, the first ones. Null: eval_step has no such input, all
  // samples count, and the loss of an evaluation is the mean over the batches.
  const char *samples_tensor;
  // Output of eval_step, of the type of the loss: the sum of the shares is divided by the sum of these, or by `least_weight` where that is
  // less. Null: the loss is the sum of the shares.
  const char *weight_tensor;
  double least_weight;
  // Micro-batches of a step, at least 1.
  uint64_t accumulate;
  // Checkpoints: beginning of their names; steps from one to the next, 0: one at the end; how many stay, 0: all; whether they are written
  // without being asked for on the command line; whether a signal to end the run saves one.
  const char *checkpoint_prefix;
  uint64_t checkpoint_every, checkpoint_keep;
  uint32_t saves_checkpoints, saves_on_signal;
  // A step with a loss, or a norm of the gradients, that is not finite: whether it ends the run; the states, i64, rank 0, that count such
  // norms, and the steps whose update the program left out. Null: it has none.
  uint32_t stops_on_nonfinite;
  const char *bad_norms_tensor, *skipped_steps_tensor;
  // Numbers of a step for the log: the state, f64, rank 0, with its learning rate, null where each step has the same `learning_rate`; the
  // state, f32 or f64, rank 0, with the norm of the gradients, null where they are not clipped.
  const char *learning_rate_tensor, *gradient_norm_tensor;
  double learning_rate;
  // Additions and multiplications a microsecond that large products of f32, and of bf16 or f16, reach on a device of the machine that the
  // job describes; 0: it describes none.
  uint64_t peak_flops_per_us, narrow_peak_flops_per_us;
} ashlar_rt_training;

// Where the numbers of a variable go in the model that --export writes: before byte `offset` of its text, in the type of the file.
typedef struct {
  uint64_t offset;
  const char *variable;
  uint32_t dtype; // ashlar_rt_dtype
  uint32_t is_transposed;
  uint64_t bytes;
} ashlar_rt_export_hole;

// The ONNX model that a program was compiled from, without the numbers of its variables.
typedef struct {
  const uint8_t *text;
  uint64_t bytes;
  uint32_t num_holes;
  const ashlar_rt_export_hole *holes; // by offset
  const char *data_file;              // the file beside the model that the numbers go into, one after the other; null: into the text
  const char *refusal;                // why --export is not available; null otherwise
} ashlar_rt_export;

// The model that generates text.
typedef struct {
  int64_t context; // positions: the most tokens of a prompt and what follows it
} ashlar_rt_generation;

// Kernels of the cuda target for one kind of chip. `arch` "sm_90": machine code for compute capability 9.x with x >= 0; "compute_90": PTX,
// as text ending in a zero byte, which the driver compiles for chips of 9.0 and later.
typedef struct {
  const char *arch;
  const uint8_t *bytes;
  uint64_t size;
} ashlar_rt_device_code;

typedef struct {
  uint32_t abi_version;
  const char *model_name;
  const char *target;    // "cpu" or "cuda"
  uint64_t program_hash; // of everything below; ranks compare it at start
  const uint8_t *constants;
  uint64_t constants_bytes;
  uint64_t seed; // default of --seed
  const char
      *seed_tensor; // state, i64, rank 0: written by the runtime before the program init runs; null: the program draws no random numbers
  const char *step_tensor; // the same: the number of the next step, 0 behind init; written by a run that resumes; null: nothing counts
  uint32_t num_variants;
  const ashlar_rt_variant *variants;      // [0] is the default
  const ashlar_rt_training *training;     // null: a forward executable
  const ashlar_rt_generation *generation; // null: it generates no text
  // Why --deterministic is not available when there is no such variant; null otherwise.
  const char *deterministic_refusal;
  const char *plan; // the plan in ten lines, printed by --plan
  // The CPU features that the kernels need: names of cpu_features.h, separated by commas; null: none.
  const char *cpu_features;
  // Of the cuda target: every kernel is in each of them.
  uint32_t num_device_codes;
  const ashlar_rt_device_code *device_codes;
  // --memory of the compiler: bytes that a process, or on cuda its device, may hold; 0: any number. The runtime adds the parts that the
  // compiler could not know, threads and hosts, and checks.
  uint64_t memory_limit;
  const ashlar_rt_export *exported; // null: a forward executable
} ashlar_rt_image;

// The note of an executable (ELF, PT_NOTE) that leads to its image: name and type, and as its content an u64, the version of the ABI, and
// an i64, the distance in bytes from that number's own address to the image.
#define ASHLAR_RT_NOTE_NAME "ashlar"
#define ASHLAR_RT_NOTE_TYPE 1

// Runs the program by its command line and returns the exit status. The only entry point a compiled program calls.
int ashlar_rt_main(const ashlar_rt_image *image, int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif // ASHLAR_RUNTIME_ABI_ASHLAR_RT_H
