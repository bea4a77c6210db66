// SPDX-License-Identifier: Apache-2.0
//
// The pipeline's thread, which shares the rows of a batch with others, and its ring of buffers. A buffer holds a run of consecutive steps,
// many when batches are small, so that waiting and waking cost little a step. Buffers go round: empty -> (thread fills it) -> full -> (user
// holds it) -> empty. Invariants, under `mutex`: the thread fills buffers in ring order beginning at `head`, the user takes them in ring
// order beginning at `tail`; a fill that began in an older `generation` is thrown away.

#include "runtime/data/pipeline.h"

#include "runtime/abi/memory_sizes.h"
#include "runtime/base/clock.h"
#include "runtime/data/feature.h"
#include "runtime/data/permutation.h"
#include "runtime/data/row_threads.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace ashlar::rt {

namespace {

constexpr size_t kBuffers = kBatchBuffers;

// A thread is not woken for fewer bytes of a batch.
constexpr uint64_t kLeastShare = uint64_t{16} << 10;
constexpr uint64_t kSharesOfThread = 4;

struct BatchBuffer {
  char *base = nullptr;
  uint64_t firstStep = 0;
  bool full = false;
};

// A piece of a feature that at least one device of this process holds.
struct FeaturePiece {
  size_t feature;
  Piece piece;
  size_t offset; // in the bytes of a step
};

struct FreeDeleter {
  void operator()(char *pointer) const { std::free(pointer); }
};

} // namespace

struct Pipeline::State {
  // Fixed by create().
  std::unique_ptr<Dataset> dataset;
  DataFacts facts;
  std::vector<Feature> features;
  std::vector<std::vector<Feature>> ofThread; // the same for each thread: transforms work in memory of their own
  std::vector<FeaturePiece> pieces;
  std::vector<size_t> offsets; // [device][feature], in the bytes of a step
  bool isTraining = false, shuffle = false;
  uint64_t seed = 0, samples = 1, globalBatch = 1, stepsPerPass = 1, stepsPerEpoch = 1;
  size_t stepBytes = 0;
  uint64_t bufferSteps = 1;
  std::shared_ptr<char> memory;
  size_t memoryBytes = 0;

  // The thread's own, and read by those that it shares rows with.
  std::unique_ptr<RowThreads> threads;
  std::vector<uint64_t> order;
  uint64_t orderPass = ~uint64_t{0};

  // The user's own: the step that next() returns, and whether buffers[tail] is held.
  uint64_t position = 0;
  bool holding = false;
  double waitedSeconds = 0;
  Batch batch;

  // Shared, under `mutex`.
  std::mutex mutex;
  std::condition_variable changed;
  std::array<BatchBuffer, kBuffers> buffers;
  size_t head = 0, tail = 0;
  uint64_t nextFill = 0, generation = 0;
  bool stopping = false;
  Status damage; // of the data set
  std::atomic<bool> isDamaged{false};

  std::thread thread;

  ~State();
  Status resolve(const PipelineOptions &options);
  Status resolveFeatures(const PipelineOptions &options);
  Status layOut(const PipelineOptions &options);
  void fillStep(uint64_t step, char *to);
  void fillRows(const FeaturePiece &part, size_t thread, int64_t begin, int64_t end, uint64_t first, SampleRandom random, char *to);
  void produce();
};

Pipeline::State::~State() {
  if (thread.joinable()) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    thread.join();
  }
}

// Opens the data set, resolves the features and counts the steps.
Status Pipeline::State::resolve(const PipelineOptions &options) {
  const ashlar_rt_dataset &description = options.training->dataset;
  ASHLAR_RETURN_IF_ERROR(openDataset(description, options.directory, options.split, dataset));
  globalBatch = options.training->global_batch;
  samples = dataset->samples();
  facts = factsOf(*dataset, options.split);
  ASHLAR_RETURN_IF_ERROR(dataset->check()); // some samples were read
  const char *split = splitName(options.split);
  const bool train = options.split == Split::kTrain;
  if (globalBatch < 1 || samples < 1 || (train && globalBatch > samples)) {
    return invalid("the global batch is {} but the {} split of the data set holds {} samples; {}add samples", globalBatch, split, samples,
                   train ? "lower global_batch or " : "");
  }
  const uint64_t ofStep = train ? std::max<uint64_t>(options.training->accumulate, 1) : 1; // batches
  if (train && samples / globalBatch < ofStep) {
    return invalid(
        "the global batch is {} in {} micro-batches of {} but the train split of the data set holds {} samples; lower global_batch "
        "or add samples",
        globalBatch * ofStep, ofStep, globalBatch, samples);
  }
  if (train && !description.drop_remainder && samples % (globalBatch * ofStep) != 0) {
    return invalid("the train split holds {} samples, which batches of {} do not divide; set drop_remainder or change global_batch",
                   samples, globalBatch * ofStep);
  }
  seed = options.seed;
  isTraining = train;
  shuffle = train && description.shuffle;
  stepsPerPass = train ? samples / (globalBatch * ofStep) * ofStep : (samples - 1) / globalBatch + 1;
  if (__builtin_mul_overflow(stepsPerPass, train ? std::max<uint64_t>(description.repeat, 1) : 1, &stepsPerEpoch)) {
    return invalid("{} passes of {} steps are more than can be counted; lower dataset.repeat", description.repeat, stepsPerPass);
  }
  ASHLAR_RETURN_IF_ERROR(resolveFeatures(options));
  if (features.empty()) { // a pipeline stage that takes no data
    dataset.reset();
    return {};
  }
  order.resize(shuffle ? samples : 0);
  return {};
}

// Resolves the features of the variant, once for each thread.
Status Pipeline::State::resolveFeatures(const PipelineOptions &options) {
  const ashlar_rt_dataset &description = options.training->dataset;
  ofThread.resize(static_cast<size_t>(std::max(options.threads, 1)));
  for (uint32_t i = 0; i < description.num_features; ++i) {
    for (std::vector<Feature> &each : ofThread) {
      Feature feature;
      ASHLAR_RETURN_IF_ERROR(resolveFeature(description.features[i], *options.variant, globalBatch, *dataset, feature));
      if (feature.info == nullptr) {
        break;
      }
      if (&each == &ofThread[0]) {
        ASHLAR_RETURN_IF_ERROR(checkLabels(description.features[i], feature, splitName(options.split), *dataset));
        features.push_back(feature);
      }
      each.push_back(std::move(feature));
    }
  }
  return {};
}

// Places the pieces of this process's devices in a step and allocates the buffers.
Status Pipeline::State::layOut(const PipelineOptions &options) {
  for (uint32_t device = 0; device < options.numDevices; ++device) {
    for (size_t feature = 0; feature < features.size(); ++feature) {
      const Piece piece = pieceOf(*options.variant, *features[feature].info, options.firstDevice + device);
      const auto same = std::find_if(pieces.begin(), pieces.end(),
                                     [&](const FeaturePiece &other) { return other.feature == feature && other.piece == piece; });
      if (same != pieces.end()) {
        offsets.push_back(same->offset);
        continue;
      }
      offsets.push_back(stepBytes);
      pieces.push_back({feature, piece, stepBytes});
      stepBytes += roundUp(features[feature].pieceBytes, ASHLAR_RT_ALIGNMENT);
    }
  }
  bufferSteps = rt::bufferSteps(stepBytes);
  const size_t bufferBytes = stepBytes * bufferSteps;
  memoryBytes = stagedBytes(stepBytes);
  if (memoryBytes > 0) {
    memory.reset(static_cast<char *>(std::aligned_alloc(kPageBytes, memoryBytes)), FreeDeleter());
    if (!memory) {
      return unavailable("{} bytes for {} batches ahead: out of memory", kBuffers * bufferBytes, kBuffers * bufferSteps);
    }
  }
  for (size_t i = 0; i < kBuffers; ++i) {
    buffers[i].base = memory.get() + i * bufferBytes;
  }
  batch.offsets = offsets.data();
  batch.numFeatures = static_cast<uint32_t>(features.size());
  return {};
}

// Decodes some rows of a piece, of the batch that begins at place `first` of the pass.
void Pipeline::State::fillRows(const FeaturePiece &part, size_t thread, int64_t begin, int64_t end, uint64_t first, SampleRandom random,
                               char *to) {
  Feature &feature = ofThread[thread][part.feature];
  for (int64_t row = begin; row < end; ++row) {
    const uint64_t place = (first + part.piece.start[0] + row) % samples; // beyond the last: what fills up an evaluated batch
    random.sample = shuffle ? order[place] : place;
    const void *sample = dataset->read(feature.column, random, feature.scratch.data());
    convertSample(feature, part.piece, sample, random, to + part.offset + row * feature.rowBytes);
  }
}

// Decodes this process's part of the batch of `step`. Each thread has rows of its own, so nothing depends on how many there are.
void Pipeline::State::fillStep(uint64_t step, char *to) {
  const uint64_t pass = step / stepsPerPass;
  if (shuffle && pass != orderPass) {
    shuffledOrder(seed, pass, order);
    orderPass = pass;
  }
  const uint64_t first = step % stepsPerPass * globalBatch;
  const SampleRandom random{isTraining, seed, pass};
  for (const FeaturePiece &part : pieces) {
    const int64_t rows = part.piece.size[0];
    const uint64_t most = std::max<uint64_t>(rows * features[part.feature].rowBytes / kLeastShare, 1);
    // Shares are smaller than a thread's part, since a sample that is drawn takes longer than one that is kept.
    const auto shares =
        ofThread.size() == 1
            ? 1
            : static_cast<int64_t>(std::min<uint64_t>({most, kSharesOfThread * ofThread.size(), static_cast<uint64_t>(rows)}));
    auto fill = [&](int64_t share, size_t thread) {
      fillRows(part, thread, rows * share / shares, rows * (share + 1) / shares, first, random, to);
    };
    threads->run(
        shares, [](void *context, int64_t share, size_t thread) { (*static_cast<decltype(fill) *>(context))(share, thread); }, &fill);
  }
}

// The thread: fills the buffer at the head whenever it is empty.
void Pipeline::State::produce() {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return stopping || !buffers[head].full; });
    if (stopping) {
      return;
    }
    const uint64_t started = generation, first = nextFill;
    BatchBuffer &buffer = buffers[head];
    lock.unlock();
    for (uint64_t i = 0; i < bufferSteps; ++i) {
      fillStep(first + i, buffer.base + i * stepBytes);
    }
    Status intact = dataset->check();
    lock.lock();
    if (!intact.ok()) {
      damage.update(std::move(intact));
      isDamaged.store(true, std::memory_order_relaxed);
    }
    if (started == generation) {
      buffer.firstStep = first;
      buffer.full = true;
      nextFill = first + bufferSteps;
      head = (head + 1) % kBuffers;
      changed.notify_all();
    }
  }
}

Pipeline::Pipeline() = default;
Pipeline::Pipeline(Pipeline &&) noexcept = default;
Pipeline &Pipeline::operator=(Pipeline &&) noexcept = default;
Pipeline::~Pipeline() = default;

Status Pipeline::create(const PipelineOptions &options, Pipeline &pipeline) {
  try {
    auto state = std::make_unique<State>();
    ASHLAR_RETURN_IF_ERROR(state->resolve(options));
    ASHLAR_RETURN_IF_ERROR(state->layOut(options));
    if (!state->features.empty()) {
      state->threads = std::make_unique<RowThreads>(state->ofThread.size());
      state->thread = std::thread([raw = state.get()] { raw->produce(); });
    }
    pipeline.state = std::move(state);
    return {};
  } catch (const std::bad_alloc &) {
    return unavailable("the {} split of the data set{} does not fit into memory; raise the limit of the process (ulimit -v)",
                       splitName(options.split), options.directory.empty() ? "" : fmt::format(" in \"{}\"", options.directory));
  } catch (const std::system_error &error) {
    const std::string what = options.threads > 1 ? fmt::format("{} threads that prepare", options.threads) : "thread that prepares";
    return unavailable("cannot start the {} batches: {}; {}raise the limits on processes and memory (ulimit -u, ulimit -v)", what,
                       error.code().message(), options.threads > 1 ? "lower --data-threads, or " : "");
  }
}

uint64_t Pipeline::stepsPerEpoch() const {
  return state->stepsPerEpoch;
}

uint64_t Pipeline::samples() const {
  return state->samples;
}

const DataFacts &Pipeline::facts() const {
  return state->facts;
}

uint32_t Pipeline::numFeatures() const {
  return static_cast<uint32_t>(state->features.size());
}

uint32_t Pipeline::featureTensor(uint32_t feature) const {
  return state->features[feature].tensor;
}

size_t Pipeline::featureBytes(uint32_t feature) const {
  return state->features[feature].pieceBytes;
}

const std::shared_ptr<char> &Pipeline::memory() const {
  return state->memory;
}

size_t Pipeline::memoryBytes() const {
  return state->memoryBytes;
}

size_t Pipeline::batchBytes() const {
  return state->stepBytes;
}

size_t Pipeline::offsetInBatch(uint32_t device, uint32_t feature) const {
  return state->offsets[device * state->features.size() + feature];
}

void Pipeline::goTo(uint64_t step) {
  if (step == state->position) {
    return;
  }
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    ++state->generation;
    for (BatchBuffer &buffer : state->buffers) {
      buffer.full = false;
    }
    state->tail = state->head;
    state->nextFill = step;
  }
  state->changed.notify_all();
  state->holding = false;
  state->position = step;
}

const Batch &Pipeline::next() {
  State &s = *state;
  if (s.features.empty()) {
    ++s.position;
    return s.batch;
  }
  if (s.holding && s.position - s.buffers[s.tail].firstStep >= s.bufferSteps) {
    {
      std::lock_guard<std::mutex> lock(s.mutex);
      s.buffers[s.tail].full = false;
      s.tail = (s.tail + 1) % kBuffers;
    }
    s.changed.notify_all();
    s.holding = false;
  }
  if (!s.holding) {
    std::unique_lock<std::mutex> lock(s.mutex);
    if (!s.buffers[s.tail].full) {
      const double begin = seconds();
      s.changed.wait(lock, [&s] { return s.buffers[s.tail].full; });
      s.waitedSeconds += seconds() - begin;
    }
    s.holding = true;
  }
  s.batch.base = s.buffers[s.tail].base + (s.position - s.buffers[s.tail].firstStep) * s.stepBytes;
  ++s.position;
  return s.batch;
}

double Pipeline::waitedSeconds() const {
  return state->waitedSeconds;
}

Status Pipeline::check() const {
  if (!state->isDamaged.load(std::memory_order_relaxed)) {
    return {};
  }
  std::lock_guard<std::mutex> lock(state->mutex);
  return state->damage;
}

} // namespace ashlar::rt
