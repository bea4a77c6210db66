// SPDX-License-Identifier: Apache-2.0
//
// The headers of the libraries that are played, with their functions visible: everything else of the shared library is hidden.

#ifndef ASHLAR_TEST_EMULATOR_DRIVER_API_H
#define ASHLAR_TEST_EMULATOR_DRIVER_API_H

#pragma GCC visibility push(default)
#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>
#include <nccl.h>
#pragma GCC visibility pop

#endif // ASHLAR_TEST_EMULATOR_DRIVER_API_H
