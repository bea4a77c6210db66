// SPDX-License-Identifier: Apache-2.0
//
// Forking and listening; see worker.h. A process writes lines to a pipe: "begin SEED", "end SEED KIND DIFFERENCE ELEMENTS
// UNDECIDED PRECISION MESSAGE", "op COUNT NAME". Whatever a process does, each of its seeds is reported once: when it ends, the seed it was
// at has crashed, and those after it go to another process. One that ends ahead of its first seed costs that seed, so that this comes to an
// end.

#include "test/fuzz/worker.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <deque>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;

namespace ashlar::fuzz {

namespace {

constexpr uint64_t kSeedsPerProcess = 50;

// Half-open range of seeds.
struct Chunk {
  uint64_t begin, end;
};

// A forked process and what it has said so far.
struct Worker {
  pid_t pid = 0;
  int lines = -1;  // read end of its pipe
  int errors = -1; // a file with its stderr
  Chunk chunk{};
  uint64_t next = 0;    // the first seed that is not reported
  bool isUnused = true; // it has reported nothing yet
  bool busy = false;    // between begin and end
  std::string rest;     // an incomplete line
};

void writeAll(int file, const std::string &text) {
  for (size_t done = 0; done < text.size();) {
    ssize_t written = write(file, text.data() + done, text.size() - done);
    if (written <= 0) {
      _exit(3);
    }
    done += written;
  }
}

// What the process does; never returns.
[[noreturn]] void work(const Chunk &chunk, const Run &run, int lines, const SeedCheck &check) {
  for (int number : {SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGSEGV}) { // whoever forked may handle them, at length
    signal(number, SIG_DFL);
  }
  if (run.prepare) {
    run.prepare();
  }
  Census census;
  for (uint64_t seed = chunk.begin; seed < chunk.end; ++seed) {
    writeAll(lines, formatv("begin {0}\n", seed));
    alarm(run.secondsPerSeed);
    Verdict verdict = check(seed, census);
    alarm(0);
    std::replace(verdict.message.begin(), verdict.message.end(), '\n', ' ');
    writeAll(lines, formatv("end {0} {1} {2:e17} {3} {4} {5} {6}\n", seed, static_cast<int>(verdict.kind), verdict.difference,
                            verdict.elements, verdict.undecided, static_cast<int>(verdict.precision), verdict.message));
  }
  for (auto &[name, count] : census) {
    writeAll(lines, formatv("op {0} {1}\n", count, name));
  }
  _exit(0);
}

Worker start(const Chunk &chunk, const Run &run, const SeedCheck &check) {
  Worker worker;
  int ends[2];
  char pattern[] = "/tmp/ashlar-fuzz-XXXXXX";
  worker.errors = mkstemp(pattern);
  if (worker.errors < 0 || pipe2(ends, O_CLOEXEC) != 0) {
    std::perror("ashlar-fuzz: cannot start a process");
    std::exit(2);
  }
  unlink(pattern);
  worker.pid = fork();
  if (worker.pid < 0) {
    std::perror("ashlar-fuzz: cannot start a process");
    std::exit(2);
  }
  if (worker.pid == 0) {
    close(ends[0]);
    dup2(worker.errors, STDERR_FILENO);
    work(chunk, run, ends[1], check);
  }
  close(ends[1]);
  worker.lines = ends[0];
  worker.chunk = chunk;
  worker.next = chunk.begin;
  return worker;
}

// Returns the line of its stderr that tells the most: the assertion that failed, else the first one.
std::string lastWords(int file, int status) {
  std::string text(1 << 16, '\0');
  ssize_t size = pread(file, text.data(), text.size(), 0);
  text.resize(std::max<ssize_t>(size, 0));
  SmallVector<StringRef> lines;
  StringRef(text).split(lines, '\n', -1, /*KeepEmpty=*/false);
  std::string signal = WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit status " + std::to_string(WEXITSTATUS(status));
  for (StringRef line : lines) {
    if (line.contains("Assertion") || line.contains("UNREACHABLE") || line.contains("LLVM ERROR") || line.contains("runtime error")) {
      return (line + " (" + signal + ")").str();
    }
  }
  return signal + (lines.empty() ? "" : ": " + lines.front().str());
}

// Returns the verdict that `work` wrote behind "end SEED ".
Verdict parseVerdict(StringRef text) {
  SmallVector<StringRef> words;
  text.split(words, ' ', /*MaxSplit=*/5);
  Verdict verdict;
  int kind = static_cast<int>(FailureKind::Crash), precision = 0;
  words.resize(6);
  words[0].getAsInteger(10, kind);
  verdict.kind = static_cast<FailureKind>(kind);
  verdict.difference = std::strtod(words[1].str().c_str(), nullptr);
  words[2].getAsInteger(10, verdict.elements);
  words[3].getAsInteger(10, verdict.undecided);
  words[4].getAsInteger(10, precision);
  verdict.precision = static_cast<Precision>(precision);
  verdict.message = words[5].str();
  return verdict;
}

class Pool {
public:
  Pool(const Run &run, const SeedCheck &check, const std::function<void(const SeedResult &)> &report)
      : run(run), check(check), report(report) {
    for (uint64_t seed = run.begin; seed < run.begin + run.count; seed += kSeedsPerProcess) {
      waiting.push_back({seed, std::min(seed + kSeedsPerProcess, run.begin + run.count)});
    }
  }

  Census runAll() {
    while (!waiting.empty() || !workers.empty()) {
      while (!waiting.empty() && workers.size() < run.jobs) {
        workers.push_back(start(waiting.front(), run, check));
        waiting.pop_front();
      }
      listen();
    }
    return std::move(census);
  }

private:
  void listen() {
    std::vector<pollfd> files;
    for (const Worker &worker : workers) {
      files.push_back({worker.lines, POLLIN, 0});
    }
    poll(files.data(), files.size(), /*timeout=*/-1);
    for (size_t i = files.size(); i > 0; --i) {
      if (files[i - 1].revents != 0 && !readLines(workers[i - 1])) {
        finish(workers[i - 1]);
        workers.erase(workers.begin() + (i - 1));
      }
    }
  }

  // Returns false at the end of the pipe.
  bool readLines(Worker &worker) {
    char buffer[4096];
    ssize_t size = read(worker.lines, buffer, sizeof(buffer));
    if (size <= 0) {
      return false;
    }
    worker.rest.append(buffer, size);
    for (size_t end; (end = worker.rest.find('\n')) != std::string::npos; worker.rest.erase(0, end + 1)) {
      take(worker, StringRef(worker.rest).take_front(end));
    }
    return true;
  }

  void take(Worker &worker, StringRef line) {
    auto [word, rest] = line.split(' ');
    auto [first, text] = rest.split(' ');
    uint64_t number = 0;
    first.getAsInteger(10, number);
    if (word == "op") {
      census[text.str()] += static_cast<int64_t>(number);
      return;
    }
    worker.busy = word == "begin";
    if (word == "end") {
      reportNext(worker, parseVerdict(text));
    }
  }

  void reportNext(Worker &worker, const Verdict &verdict) {
    report({worker.next++, verdict});
    worker.isUnused = false;
  }

  void finish(Worker &worker) {
    int status = 0;
    while (waitpid(worker.pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (worker.next < worker.chunk.end && (worker.busy || worker.isUnused)) {
      bool isLate = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
      std::string ahead = worker.busy ? "" : "ahead of its first seed: ";
      reportNext(worker, {isLate ? FailureKind::Timeout : FailureKind::Crash, ahead + lastWords(worker.errors, status)});
    }
    if (worker.next < worker.chunk.end) {
      waiting.push_back({worker.next, worker.chunk.end});
    }
    close(worker.lines);
    close(worker.errors);
  }

  const Run &run;
  const SeedCheck &check;
  const std::function<void(const SeedResult &)> &report;
  std::deque<Chunk> waiting;
  std::vector<Worker> workers;
  Census census;
};

} // namespace

Census runSeeds(const Run &run, const SeedCheck &check, const std::function<void(const SeedResult &)> &report) {
  return Pool(run, check, report).runAll();
}

Verdict runIsolated(const std::function<Verdict()> &check, unsigned seconds) {
  Verdict verdict{FailureKind::Crash, "the process said nothing"};
  runSeeds({0, 1, 1, seconds}, [&](uint64_t, Census &) { return check(); }, [&](const SeedResult &result) { verdict = result.verdict; });
  return verdict;
}

} // namespace ashlar::fuzz
