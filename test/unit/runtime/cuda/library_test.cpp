// SPDX-License-Identifier: Apache-2.0
//
// What an executable says when a library that it needs is missing, too old, or incomplete.

#include "runtime/comm/nccl/nccl_library.h"
#include "runtime/device/cuda/driver_library.h"
#include "runtime/kernels/cuda/cublaslt_library.h"
#include "runtime/kernels/cuda/cudnn_library.h"

#include <catch2/catch.hpp>

namespace ashlar::test::library_test {
namespace {

using namespace ashlar::rt;

TEST_CASE("library: one that is not there is named, with what to install", "[cuda][library]") {
  DriverLibrary driver;
  CHECK_THAT(DriverLibrary::load(driver, "libnowhere.so.1").message(),
             Catch::StartsWith("this program runs on NVIDIA GPUs but libnowhere.so.1 cannot be loaded (") &&
                 Catch::EndsWith("; install an NVIDIA driver for CUDA 13.0 or later (580 or later)"));
  CublasLtLibrary lt;
  CHECK_THAT(CublasLtLibrary::load(lt, "libnowhere.so.1").message(), Catch::StartsWith("matrix products need cuBLASLt 13 but libnowhere"));
  CudnnLibrary dnn;
  CHECK_THAT(CudnnLibrary::load(dnn, "a convolution", "libnowhere.so.1").message(),
             Catch::StartsWith("a convolution needs cuDNN 9 but libnowhere"));
  NcclLibrary nccl;
  CHECK_THAT(NcclLibrary::load(nccl, "libnowhere.so.1").message(), Catch::StartsWith("several ranks on GPUs need NCCL but libnowhere"));
}

TEST_CASE("library: one that is too old is told with both versions", "[cuda][library]") {
  DriverLibrary driver;
  CHECK(DriverLibrary::load(driver, ASHLAR_OLD_DRIVER).message() ==
        "the NVIDIA driver is for CUDA 12.4 but this program needs 13.0; install an NVIDIA driver for CUDA 13.0 or later (580 or later)");
  NcclLibrary nccl;
  CHECK_THAT(NcclLibrary::load(nccl, ASHLAR_OLD_NCCL).message(),
             Catch::EndsWith("has version 2.10.5 but this program needs 2.18.0; install NCCL 2.18.0 or later, or add its folder to "
                             "LD_LIBRARY_PATH"));
}

TEST_CASE("library: the first symbol that is missing is named", "[cuda][library]") {
  DriverLibrary driver;
  CHECK_THAT(DriverLibrary::load(driver, ASHLAR_BARE_DRIVER).message(), Catch::Contains("has no cuDeviceGetCount: it is too old; install"));
  CublasLtLibrary lt;
  CHECK_THAT(CublasLtLibrary::load(lt, ASHLAR_BARE_DRIVER).message(), Catch::Contains("has no cublasLtCreate: it is too old; install"));
  CudnnLibrary dnn;
  CHECK_THAT(CudnnLibrary::load(dnn, "an attention", ASHLAR_BARE_DRIVER).message(),
             Catch::Contains("has no cudnnGetVersion: it is too old; install"));
}

} // namespace

} // namespace ashlar::test::library_test
