// SPDX-License-Identifier: Apache-2.0
//
// What the loader of the driver may find: built with a version and, but for one symbol, without the rest.

#ifndef ASHLAR_FAKE_VERSION
#define ASHLAR_FAKE_VERSION 13000
#endif

enum cudaError_enum { CUDA_SUCCESS }; // as cuda.h calls it: sanitizers compare the types of functions that are called

extern "C" cudaError_enum cuDriverGetVersion(int *version) {
  *version = ASHLAR_FAKE_VERSION;
  return CUDA_SUCCESS;
}

extern "C" cudaError_enum cuInit(unsigned) {
  return CUDA_SUCCESS;
}
