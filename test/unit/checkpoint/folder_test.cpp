// SPDX-License-Identifier: Apache-2.0
//
// The folder that checkpoints lie in: names, what has one, what does not.

#include "test/unit/checkpoint/written_checkpoint.h"
#include "test/unit/data/temporary_folder.h"

#include <atomic>
#include <csignal>
#include <set>
#include <thread>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace ashlar::test::folder_test {

using namespace ashlar::rt;
namespace fs = std::filesystem;

namespace {

const std::vector<ashlar::test::WholeTensor> kTensors = {ashlar::test::randomTensor("w", ASHLAR_RT_F32, {8}, 1)};

std::set<std::string> namesIn(const std::string &path) {
  std::set<std::string> names;
  for (const fs::directory_entry &entry : fs::directory_iterator(path)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

void save(const CheckpointFolder &folder, const std::string &name, uint64_t seed, uint64_t number = 0) {
  REQUIRE(folder.begin(name).ok());
  CheckpointIndex index = ashlar::test::writeRankFiles(folder.partial(name), kTensors, 1, 1);
  index.seed = seed;
  index.number = number;
  REQUIRE(folder.commit(name, index).message().empty());
}

} // namespace

TEST_CASE("checkpoint folder: names", "[checkpoint][folder]") {
  CheckpointName read;
  CHECK(CheckpointFolder("d", "run").name(2, 15) == "run-2_15");
  CHECK(CheckpointFolder("d", "run").place("run-2_15") == "d/run-2_15");
  CHECK(CheckpointFolder("d", "run").partial("run-2_15") == "d/.run-2_15.partial");
  CHECK(CheckpointFolder::rankFile(12) == "rank-00012.safetensors");
  REQUIRE(readCheckpointName("a_b-c-2_15", read));
  CHECK((read.name == "a_b-c-2_15" && read.prefix == "a_b-c" && read.epoch == 2 && read.step == 15));
  for (const char *other : {"", "a", "a-", "a-1", "a-1_", "a-_1", "a-0_1", "a-1_0", "a-01_1", "a-1_2x", "a-1_2_3", "a-1_-2", "1_2",
                            "a-x1_2", "a-1_99999999999999999999", ".a-1_2.partial"}) {
    INFO(other);
    CHECK_FALSE(readCheckpointName(other, read));
  }
}

TEST_CASE("checkpoint folder: the newest first, by number, of one prefix or of all", "[checkpoint][folder]") {
  ashlar::test::TemporaryFolder place;
  for (const char *name : {"run-1_9", "run-1_10", "run-2_1", "other-1_10", "other-3_1", "run-1_x", ".run-7_7.partial", "run"}) {
    fs::create_directory(place.file(name));
  }
  CHECK(CheckpointFolder(place.path(), "run").list() == std::vector<std::string>{"run-2_1", "run-1_10", "run-1_9"});
  CHECK(CheckpointFolder(place.path(), "ru").list().empty());
  CHECK(CheckpointFolder(place.file("nowhere"), "run").list().empty());
  std::vector<CheckpointName> found;
  REQUIRE(listCheckpoints(place.path(), found).ok());
  std::vector<std::string> names;
  for (const CheckpointName &read : found) {
    names.push_back(read.name);
  }
  CHECK(names == std::vector<std::string>{"other-3_1", "run-2_1", "other-1_10", "run-1_10", "run-1_9"});
  CHECK(listCheckpoints(place.file("nowhere"), found).message() == "cannot list " + place.file("nowhere") + ": No such file or directory");
}

TEST_CASE("checkpoint folder: what an earlier run left is removed, of this prefix", "[checkpoint][folder]") {
  ashlar::test::TemporaryFolder place;
  for (const char *name :
       {".run-1_9.partial", ".run-1_8.removed", ".other-1_9.partial", ".run-x.partial", ".run-1_9.old", "run-1_7", "x.partial"}) {
    fs::create_directory(place.file(name));
    place.write(std::string(name) + "/file", "bytes");
  }
  {
    FolderLock lock, deep, file;
    CHECK(CheckpointFolder(place.path(), "run").prepare(lock).ok());
    CHECK(CheckpointFolder(place.file("new/deep"), "run").prepare(deep).ok());
    CHECK(fs::is_directory(place.file("new/deep")));
    place.write("file", "");
    CHECK_FALSE(CheckpointFolder(place.file("file"), "run").prepare(file).ok());
  }
  CHECK(namesIn(place.path()) ==
        std::set<std::string>{".other-1_9.partial", ".run-x.partial", ".run-1_9.old", "run-1_7", "x.partial", "file", "new"});
}

// A second run is told who writes there, and changes nothing; the lock goes with its holder, and what a killed one leaves holds nobody up.
TEST_CASE("checkpoint folder: one run at a time writes", "[checkpoint][folder]") {
  ashlar::test::TemporaryFolder place;
  const CheckpointFolder folder(place.path(), "run");
  FolderLock second;
  {
    FolderLock first, other;
    REQUIRE(folder.prepare(first).ok());
    fs::create_directory(folder.partial("run-1_9"));
    char host[65] = {};
    gethostname(host, sizeof(host) - 1);
    const std::string message = folder.prepare(second).message();
    CHECK(message ==
          fmt::format("{} has checkpoints \"run\" of a run that goes on (process {} on host {}); name another --checkpoint-dir, or "
                      "wait until it ends",
                      place.path(), getpid(), host));
    CHECK(fs::exists(folder.partial("run-1_9")));
    CHECK(CheckpointFolder(place.path(), "other").prepare(other).ok());      // the one of another prefix
    std::ofstream(place.file(".run.lock")) << "process 1 on host a\x1b[31m"; // not our text
    CHECK_THAT(folder.prepare(second).message(), Catch::Contains("(another run)"));
  }
  CHECK(namesIn(place.path()) == std::set<std::string>{".run-1_9.partial"});
  const pid_t child = fork();
  if (child == 0) {
    FolderLock lock;
    _exit(folder.prepare(lock).ok() ? kill(getpid(), SIGKILL) : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
  CHECK(namesIn(place.path()) == std::set<std::string>{".run.lock"});
  CHECK(folder.prepare(second).ok());
  // No link is followed, and no pipe waited for.
  for (bool isLink : {true, false}) {
    const std::string file = place.file(".odd.lock");
    REQUIRE((isLink ? symlink("there", file.c_str()) : mkfifo(file.c_str(), 0600)) == 0);
    FolderLock odd;
    CHECK(CheckpointFolder(place.path(), "odd").prepare(odd).message() ==
          "cannot lock " + file + ": it is not a regular file; remove that file if no run writes there, or name another --checkpoint-dir");
    CHECK_FALSE(fs::exists(place.file("there")));
    fs::remove(file);
  }
}

// Between the two calls that open the file and lock it, its holder may remove it: such a lock keeps nobody out. flock() tells open files
// apart, not processes, so threads meet like processes do.
TEST_CASE("checkpoint folder: a lock that is held is there", "[checkpoint][folder]") {
  ashlar::test::TemporaryFolder place;
  std::atomic<int> gone = 0, taken = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 3000; ++i) {
        FolderLock lock;
        if (lock.take(place.path(), "run").ok()) {
          ++taken;
          gone += fs::exists(place.file(".run.lock")) ? 0 : 1;
        }
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  CHECK(taken == 12000);
  CHECK(gone == 0);
}

TEST_CASE("checkpoint folder: a name says that all is there", "[checkpoint][folder]") {
  ashlar::test::TemporaryFolder place;
  const CheckpointFolder folder(place.path(), "run");
  fs::create_directory(folder.partial("run-1_1"));
  place.write(".run-1_1.partial/left", "of an earlier one");
  REQUIRE(folder.begin("run-1_1").ok());
  CHECK(fs::is_empty(folder.partial("run-1_1")));
  CHECK(folder.list().empty());
  save(folder, "run-1_1", 5);
  CHECK(namesIn(place.path()) == std::set<std::string>{"run-1_1"});
  CHECK(namesIn(folder.place("run-1_1")) == std::set<std::string>{"index.json", "rank-00000.safetensors"});
  CheckpointIndex read;
  CHECK(readIndex(folder.place("run-1_1"), read).message().empty());
  CHECK(read.seed == 5);
  // Again, in the place of the first.
  save(folder, "run-1_1", 6);
  CHECK(namesIn(place.path()) == std::set<std::string>{"run-1_1"});
  CHECK(readIndex(folder.place("run-1_1"), read).ok());
  CHECK(read.seed == 6);
  // Given up.
  REQUIRE(folder.begin("run-1_2").ok());
  folder.discard("run-1_2");
  CHECK(namesIn(place.path()) == std::set<std::string>{"run-1_1"});
  CHECK(folder.commit("run-1_3", read).message() == "cannot write " + folder.partial("run-1_3") + "/index.json: No such file or directory");
  CHECK_FALSE(CheckpointFolder(place.file("nowhere"), "run").begin("run-1_1").ok());
}

TEST_CASE("checkpoint folder: the newest stay", "[checkpoint][folder]") {
  ashlar::test::TemporaryFolder place;
  const CheckpointFolder folder(place.path(), "run");
  for (const char *name : {"run-1_9", "run-1_10", "run-2_1"}) {
    save(folder, name, 1);
  }
  save(CheckpointFolder(place.path(), "other"), "other-1_1", 1);
  REQUIRE(folder.removeOld(0).ok());
  CHECK(folder.list().size() == 3);
  REQUIRE(folder.removeOld(3).ok());
  CHECK(folder.list().size() == 3);
  REQUIRE(folder.removeOld(2).ok());
  CHECK(namesIn(place.path()) == std::set<std::string>{"run-1_10", "run-2_1", "other-1_1"});
}

// A run that goes on from run-1_4 where others have passed step 5: what it writes is newer.
TEST_CASE("checkpoint folder: the newest is the one written last", "[checkpoint][folder]") {
  ashlar::test::TemporaryFolder place;
  const CheckpointFolder folder(place.path(), "run");
  CHECK(folder.nextNumber() == 1);
  save(folder, "run-1_2", 1); // of a program that wrote no numbers
  save(folder, "run-1_4", 1, 1);
  save(folder, "run-1_6", 1, 2);
  save(folder, "run-2_2", 1, 3);
  CHECK(folder.nextNumber() == 4);
  save(folder, "run-1_5", 1, 4);
  CHECK(folder.list() == std::vector<std::string>{"run-1_5", "run-2_2", "run-1_6", "run-1_4", "run-1_2"});
  CheckpointIndex read;
  std::vector<std::string> passedOver;
  CHECK(folder.findLatest(read, passedOver) == folder.place("run-1_5"));
  CHECK(read.number == 4);
  REQUIRE(folder.removeOld(3).ok());
  CHECK(namesIn(place.path()) == std::set<std::string>{"run-1_5", "run-2_2", "run-1_6"});
  // One that nobody can go on from takes no place of those that stay.
  place.write("run-2_2/index.json", "{");
  CHECK(folder.nextNumber() == 5);
  CHECK(folder.findLatest(read, passedOver) == folder.place("run-1_5"));
  REQUIRE(passedOver.size() == 1);
  CHECK(passedOver[0].find(folder.place("run-2_2")) == 0);
  REQUIRE(folder.removeOld(2).ok());
  CHECK(namesIn(place.path()) == std::set<std::string>{"run-1_5", "run-1_6"});
  // A number that is none.
  place.write("run-1_6/index.json", R"({"number": -1})");
  CHECK(folder.nextNumber() == 5);
}

TEST_CASE("checkpoint folder: the newest that is whole", "[checkpoint][folder]") {
  ashlar::test::TemporaryFolder place;
  const CheckpointFolder folder(place.path(), "run");
  CheckpointIndex read;
  std::vector<std::string> passedOver;
  CHECK(folder.findLatest(read, passedOver) == "");
  CHECK(passedOver.empty());
  for (uint64_t step : {7, 8, 9, 10}) {
    save(folder, folder.name(1, step), step);
  }
  fs::remove(folder.place("run-1_10") + "/index.json");
  fs::resize_file(folder.place("run-1_9") + "/rank-00000.safetensors", 5);
  CHECK(folder.findLatest(read, passedOver) == folder.place("run-1_8"));
  CHECK(read.seed == 8);
  REQUIRE(passedOver.size() == 2);
  CHECK(passedOver[0].find(folder.place("run-1_10") + ": cannot open \"" + folder.place("run-1_10") + "/index.json\": ") == 0);
  CHECK(passedOver[1].find(folder.place("run-1_9") + ": " + folder.place("run-1_9") +
                           "/rank-00000.safetensors has 5 bytes but index.json records ") == 0);
}

} // namespace ashlar::test::folder_test
