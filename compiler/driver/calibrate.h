// SPDX-License-Identifier: Apache-2.0
//
// ashlarc --calibrate: measures this machine, and writes the job fields that describe it.

#ifndef ASHLAR_COMPILER_DRIVER_CALIBRATE_H
#define ASHLAR_COMPILER_DRIVER_CALIBRATE_H

#include <string>

namespace ashlar::driver {

struct CalibrateOptions {
  std::string output; // the file with `machine { ... }`
  std::string target; // "cpu"; others are refused
  int ranks = 0;      // that measure at once; 0: as many as there are cores
};

// Runs ashlar-calibrate, by mpirun for more than one rank, and writes the file, whole or not at all. Errors as in compile(). Returns the
// exit status.
int calibrate(const CalibrateOptions &options);

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_DRIVER_CALIBRATE_H
