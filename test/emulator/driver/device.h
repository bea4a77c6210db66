// SPDX-License-Identifier: Apache-2.0
//
// Devices, streams, events, graphs: the targets of the driver API's handles.

#ifndef ASHLAR_TEST_EMULATOR_DRIVER_DEVICE_H
#define ASHLAR_TEST_EMULATOR_DRIVER_DEVICE_H

#include "test/emulator/driver/engine.h"
#include "test/emulator/ptx/machine.h"

#include "test/emulator/driver/api.h"

#include <set>
#include <thread>

namespace ashlar::emulator {

struct Device {
  explicit Device(int index);

  int index;
  DeviceMemory memory;
  Machine machine;
  unsigned retained = 0;
};

// Part of a graph that is being captured, or of one that was.
struct Node {
  Work work;
  std::vector<size_t> after; // indices of nodes
};

} // namespace ashlar::emulator

// The handles of the API.
struct CUctx_st {
  ashlar::emulator::Device *device;
};

struct CUmod_st {
  ashlar::emulator::Device *device;
  std::unique_ptr<ashlar::emulator::Module> module;
};

struct CUfunc_st {
  CUmod_st *owner;
  const ashlar::emulator::Kernel *kernel;
};

struct CUgraph_st {
  std::vector<ashlar::emulator::Node> nodes;
  CUstreamCaptureMode mode;
  std::thread::id thread;
  CUstream origin;
  bool invalid = false;
};

struct CUgraphExec_st {
  std::vector<ashlar::emulator::Node> nodes;
  ashlar::emulator::TaskPtr last; // of the launch before
};

struct CUstream_st {
  ashlar::emulator::Device *device;
  bool blocking; // waits for the null stream and is waited for
  ashlar::emulator::TaskPtr tail;
  CUgraph capture = nullptr;
  std::set<size_t> captureTail; // nodes that the next one depends on
};

struct CUevent_st {
  bool timed;
  ashlar::emulator::TaskPtr recorded;
  CUgraph capture = nullptr; // recorded in a capture
  std::set<size_t> captureTail;
};

namespace ashlar::emulator {

// The process's state of the driver.
class Driver {
public:
  static Driver &get();

  bool initialised = false;
  std::vector<std::unique_ptr<Device>> devices;
  std::set<CUstream> streams;
  std::set<CUgraph> captures; // in progress

  // Returns the stream of a handle: null is the null stream of the current device. Null when the handle is none.
  CUstream streamOf(CUstream handle);
  // The device whose context is current in this thread, or null.
  static Device *current();
  static void setCurrent(CUcontext context);

  // Returns the host's view of an address of any device, or null unless one allocation holds the range.
  std::byte *resolve(CUdeviceptr address, size_t bytes);
  // The same for work that runs, whose memory may be gone by then: throws a fault with the message instead.
  std::byte *mustResolve(CUdeviceptr address, size_t bytes, const char *message);

private:
  std::map<Device *, std::unique_ptr<CUstream_st>> nullStreams;
};

// Returns the code that every call gives once the device has faulted; else success.
CUresult stickyError();

// Queues work on a stream, or adds it to the graph the stream captures. Returns an error when the capture is spoilt.
CUresult enqueue(CUstream stream, Work work);

// Returns an error, and spoils the captures, when a capture forbids calls like this one.
CUresult refuseDuringCapture();

// The start of every entry: takes the lock, and returns from the entry when the driver cannot serve it.
#define ASHLAR_EMULATOR_ENTER()                                                                                                            \
  const std::lock_guard<std::recursive_mutex> guard(::ashlar::emulator::Engine::get().lock);                                               \
  if (!::ashlar::emulator::Driver::get().initialised) {                                                                                    \
    return CUDA_ERROR_NOT_INITIALIZED;                                                                                                     \
  }                                                                                                                                        \
  if (!::ashlar::emulator::Driver::current()) {                                                                                            \
    return CUDA_ERROR_INVALID_CONTEXT;                                                                                                     \
  }                                                                                                                                        \
  if (const CUresult sticky = ::ashlar::emulator::stickyError()) {                                                                         \
    return sticky;                                                                                                                         \
  }

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_DRIVER_DEVICE_H
