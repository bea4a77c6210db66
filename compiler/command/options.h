// SPDX-License-Identifier: Apache-2.0
//
// The command line of ashlarc, as its other rooms get it.

#ifndef ASHLAR_COMPILER_COMMAND_OPTIONS_H
#define ASHLAR_COMPILER_COMMAND_OPTIONS_H

#include <cstdint>
#include <string>
#include <vector>

namespace ashlar::command {

// The last form of the compilation, which is written.
enum class Emit {
  Nn,   // the programs on global shapes
  Dist, // one device's programs, of the default variant
  Exec, // instruction tables and kernels, of all variants
  Ptx,  // kernels of the cuda target, for the newest chip asked
  Llvm, // tables, and on the cpu target kernels, as LLVM IR, before optimisation
  Obj,  // the object file
  Exe   // the executable
};

// The command line.
struct Options {
  std::string model, job, mesh; // job and mesh may be empty
  int64_t batch = 0;            // instead of the job's global_batch; 0: not given
  std::string target = "cpu";
  std::string gpuArch;        // chips of the cuda target, "sm_80,sm_90"; empty: the default ones
  std::string machine;        // file with the machine, instead of the job's; empty: none
  std::string memory;         // of a device, "80GB"; empty: any
  bool overlaps = true;       // overlap collectives with computation
  bool joinsAttention = true; // find the attentions of the model, for calls of the library
  double searchEffort = 1;    // bound of the counted work of mode AUTO, in default searches
  double searchSeconds = 600; // its safety net: the search stops after them, too
  bool generates = false;     // make the programs of text generation
  Emit emit = Emit::Exe;
  bool debugInfo = false; // of the runtime, in the executable
  std::string dumpFolder; // empty: no dumps
  bool printParameters = false;
  bool inspect = false;                   // print the contents of the model instead of compiling it
  bool suggestJob = false;                // print a job for it instead
  bool explain = false;                   // print the layout report
  std::string report;                     // file of the report as JSON; empty: none
  std::string html;                       // file of the page of the plan; empty: none
  std::string trace, compare;             // files that the page shows besides: a trace of a run, another report; empty: none
  std::string timeline;                   // file of the drawn step of a pipeline; empty: none
  std::string saveStrategy, loadStrategy; // files; empty: none
  std::vector<std::string> plugins;       // files
  std::string saveOrder;                  // file of the order of a pipeline; empty: none
  std::string annotated;                  // where the model goes with its layouts as annotations; empty: nowhere
  std::string output;                     // may be empty where something else is asked for
};

} // namespace ashlar::command

#endif // ASHLAR_COMPILER_COMMAND_OPTIONS_H
