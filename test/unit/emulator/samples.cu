// SPDX-License-Identifier: Apache-2.0
//
// Kernels whose PTX the tests of the emulator run. samples.ptx is made of this file, by hand, when it changes:
//   nvcc -ptx -arch=sm_90 -O3 samples.cu -o samples.ptx

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Functions of libdevice: polynomials, table look-ups, subnormals.
extern "C" __global__ void functions(const float *__restrict__ x, float *out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) {
    return;
  }
  const float v = x[i];
  out[i] = expf(v);
  out[n + i] = logf(fabsf(v));
  out[2 * n + i] = tanhf(v);
  out[3 * n + i] = erff(v);
  out[4 * n + i] = sinf(v * 1000);
  out[5 * n + i] = sqrtf(fabsf(v));
  out[6 * n + i] = 1 / v;
  out[7 * n + i] = powf(fabsf(v), 1.7f);
  out[8 * n + i] = rsqrtf(fabsf(v));
  out[9 * n + i] = floorf(v);
}

// A block a row: registers, shuffles, then shared memory.
extern "C" __global__ void softmax(const float *__restrict__ x, float *out, int columns) {
  __shared__ float parts[32];
  const float *row = x + blockIdx.x * columns;
  float largest = -INFINITY;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    largest = fmaxf(largest, row[c]);
  }
  for (int o = 16; o; o >>= 1) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, o));
  }
  if (threadIdx.x % 32 == 0) {
    parts[threadIdx.x / 32] = largest;
  }
  __syncthreads();
  for (int w = 0; w < blockDim.x / 32; ++w) {
    largest = fmaxf(largest, parts[w]);
  }
  __syncthreads();
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    sum += __expf(row[c] - largest);
  }
  for (int o = 16; o; o >>= 1) {
    sum += __shfl_down_sync(0xffffffff, sum, o);
  }
  if (threadIdx.x % 32 == 0) {
    parts[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  sum = 0;
  for (int w = 0; w < blockDim.x / 32; ++w) {
    sum += parts[w];
  }
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    out[blockIdx.x * columns + c] = __expf(row[c] - largest) / sum;
  }
}

// Every lane takes another number of turns, with a branch in each.
extern "C" __global__ void collatz(int *out) {
  int n = blockIdx.x * blockDim.x + threadIdx.x + 1, steps = 0;
  while (n != 1) {
    n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    ++steps;
  }
  const unsigned long long votes = __ballot_sync(0xffffffff, steps > 20);
  out[2 * (blockIdx.x * blockDim.x + threadIdx.x)] = steps;
  out[2 * (blockIdx.x * blockDim.x + threadIdx.x) + 1] = int(votes);
}

extern "C" __global__ void halves(const __half *a, const __nv_bfloat16 *b, __half *sum, __nv_bfloat16 *product, float *wide, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    sum[i] = a[i] + __float2half(__bfloat162float(b[i]));
    product[i] = b[i] * __float2bfloat16(__half2float(a[i]));
    wide[i] = __half2float(a[i]) * __bfloat162float(b[i]);
  }
}

extern "C" __global__ void integers(const long long *x, const long long *y, long long *out, int n) {
  const int i = threadIdx.x;
  if (i >= n) {
    return;
  }
  const long long a = x[i], b = y[i];
  const int c = int(a), d = int(b);
  out[0 * n + i] = b == 0 ? 0 : a / b;
  out[1 * n + i] = b == 0 ? 0 : a % b;
  out[2 * n + i] = __mul64hi(a, b);
  out[3 * n + i] = (long long)(c)*d;
  out[4 * n + i] = d == 0 ? 0 : c / (d | 1);
  out[5 * n + i] = __popcll(a) + __clzll(b) + __ffs(c) + __brev(d);
  out[6 * n + i] = (a << (b & 63)) ^ (a >> (b & 63));
  out[7 * n + i] = min(a, b) + max(c, d);
  out[8 * n + i] = (long long)(float)(a) + (unsigned char)(c) + (short)(d);
  out[9 * n + i] = (unsigned long long)(a) / ((unsigned)(d) | 1);
}

__device__ __noinline__ float horner(float x, const float *coefficients, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) {
    sum = sum * x + coefficients[i];
  }
  return sum;
}

__constant__ float kTable[4] = {1, 2, 3, 4};

// Calls, constants, local memory with an index that is not known, vectors of 16 bytes.
extern "C" __global__ void calls(const float4 *x, float4 *out, int which) {
  float local[8];
  const float4 v = x[threadIdx.x];
  for (int i = 0; i < 8; ++i) {
    local[i] = v.x * i + v.y;
  }
  out[threadIdx.x] = make_float4(horner(v.x, kTable, 4), horner(v.y, x ? &x[threadIdx.x].x : nullptr, 3), local[which & 7],
                                 local[(which + threadIdx.x) & 7]);
}

extern "C" __global__ void beyond(float *out, int n) {
  out[threadIdx.x + n] = 1;
}

extern "C" __global__ void misaligned(char *out) {
  *reinterpret_cast<float4 *>(out + 4) = make_float4(1, 2, 3, 4);
}

// The barrier is missing when `barrier` is 0.
extern "C" __global__ void reverse(const float *x, float *out, int barrier) {
  __shared__ float all[128];
  all[threadIdx.x] = x[threadIdx.x];
  if (barrier) {
    __syncthreads();
  }
  out[threadIdx.x] = all[127 - threadIdx.x];
}

// Each block reads what another one writes.
extern "C" __global__ void in_place(float *x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  x[i] = x[(i + 1) % n] + 1;
}

// Half of the block waits for the other half, which has other plans.
extern "C" __global__ void deadlock(int *out) {
  __shared__ int word;
  if (threadIdx.x < 32) {
    word = 1;
    asm volatile("bar.sync 1, 64;");
  } else {
    asm volatile("bar.sync 2, 64;");
  }
  out[threadIdx.x] = word;
}

extern "C" __global__ void uninitialised(float *out) {
  __shared__ float some[64];
  some[threadIdx.x % 32] = 1;
  __syncthreads();
  out[threadIdx.x] = some[threadIdx.x];
}

extern "C" __global__ void count(const int *x, int *bins, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    atomicAdd(&bins[x[i] & 15], 1);
  }
}

// Lane 0 writes what the other lanes read before they all meet; behind the meeting lane 1 reads it when `late` is set, before it otherwise.
extern "C" __global__ void meeting(float *x, float *out, int late) {
  const float before = x[0];
  const float sum = before + __shfl_xor_sync(0xffffffff, before, 1);
  if (threadIdx.x == 0) {
    x[0] = sum;
  }
  if (late) {
    __shfl_xor_sync(0xffffffff, before, 2);
  }
  out[threadIdx.x] = threadIdx.x == 1 ? x[0] : sum;
}
