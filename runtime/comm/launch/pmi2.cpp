// SPDX-License-Identifier: Apache-2.0
//
// See pmi2.h. Values are limited to 1024 characters, of which some have a meaning in one server or another, so texts are put as pieces of
// hexadecimal digits.

#include "runtime/comm/launch/pmi2.h"

#include "runtime/base/clock.h"
#include "runtime/base/host.h"
#include "runtime/comm/launch/launcher.h"

#include <cerrno>
#include <charconv>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ashlar::rt {
namespace {

constexpr const char *kPmi2Remedy = "start the program with srun --mpi=pmi2, or srun --mpi=pmix";
constexpr size_t kPieceBytes = 400; // of a text in one value
constexpr size_t kLengthDigits = 6, kMostLine = 256;

std::string digitsOf(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    text += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  }
  return text;
}

bool readDigits(std::string_view text, std::string &bytes) {
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    uint8_t byte = 0;
    const auto [end, fault] = std::from_chars(text.data() + i, text.data() + i + 2, byte, 16);
    if (fault != std::errc() || end != text.data() + i + 2) {
      return false;
    }
    bytes += static_cast<char>(byte);
  }
  return text.size() % 2 == 0;
}

std::string pieceKey(int exchange, int rank, size_t piece) {
  return fmt::format("ashlar-{}-{}-{}", exchange, rank, piece);
}

// Returns the fields of "cmd=a;key=b;;c;": cmd is a, key is b;c.
std::map<std::string, std::string> parseFields(const std::string &text) {
  std::map<std::string, std::string> fields;
  for (size_t at = 0; at < text.size();) {
    std::string field;
    for (; at < text.size() && (text[at] != ';' || (at + 1 < text.size() && text[at + 1] == ';')); ++at) {
      field += text[at];
      at += text[at] == ';';
    }
    ++at;
    const size_t equals = field.find('=');
    if (equals != std::string::npos) {
      fields[field.substr(0, equals)] = field.substr(equals + 1);
    }
  }
  return fields;
}

Status sendMessage(int fd, const std::string &text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (count < 0 && errno != EINTR) {
      return unavailable("the launcher takes no message at PMI_FD {}: {}; {}", fd, std::strerror(errno), kPmi2Remedy);
    }
    done += count < 0 ? 0 : static_cast<size_t>(count);
  }
  return Status();
}

} // namespace

// Receives so many bytes, or a line where `bytes` is 0.
Status Pmi2Book::receive(size_t bytes, std::string &text) {
  const double end = seconds() + patienceSeconds();
  text.clear();
  while (bytes != 0 ? text.size() < bytes : text.empty() || text.back() != '\n') {
    pollfd wait = {fd, POLLIN, 0};
    const double left = end - seconds();
    const int ready = left > 0 ? poll(&wait, 1, static_cast<int>(1000 * left) + 1) : 0;
    if (ready == 0) {
      return unavailable("not all ranks came up within {:.0f} s (ASHLAR_PATIENCE)", patienceSeconds());
    }
    char part[512];
    const ssize_t count = ready < 0 ? -1 : recv(fd, part, bytes != 0 ? std::min(bytes - text.size(), sizeof(part)) : 1, 0);
    if (count == 0 || (count < 0 && errno != EINTR) || (bytes == 0 && text.size() > kMostLine)) {
      return unavailable("the launcher ended the connection at PMI_FD {}; {}", fd, kPmi2Remedy);
    }
    text.append(part, count < 0 ? 0 : static_cast<size_t>(count));
  }
  return Status();
}

Status Pmi2Book::open(int descriptor, int rank, int count) {
  fd = descriptor;
  self = rank;
  ranks = count;
  std::string line;
  ASHLAR_RETURN_IF_ERROR(sendMessage(fd, "cmd=init pmi_version=2 pmi_subversion=0\n"));
  ASHLAR_RETURN_IF_ERROR(receive(/*bytes=*/0, line));
  if (line.find("cmd=response_to_init") != 0 || line.find("pmi_version=2") == std::string::npos || line.find("rc=0") == std::string::npos) {
    line.pop_back();
    return unavailable("the launcher of PMI_FD {} does not speak PMI2: \"{}\"; {}", fd, line, kPmi2Remedy);
  }
  Fields answer;
  const std::string id = fmt::format("{}", rank), jobId = environmentText("PMI_JOBID"); // Slurm wants its name of the job, too
  ASHLAR_RETURN_IF_ERROR(call("fullinit", {{"pmijobid", jobId.empty() ? "none" : jobId}, {"pmirank", id}, {"threaded", "FALSE"}}, answer));
  if (answer["rank"] != id || answer["size"] != fmt::format("{}", count)) {
    return invalid("PMI_RANK {} and PMI_SIZE {} of the environment are rank {} of {} of the launcher; {}", rank, count, answer["rank"],
                   answer["size"], kPmi2Remedy);
  }
  ASHLAR_RETURN_IF_ERROR(call("job-getid", {}, answer));
  jobName = answer["jobid"];
  return Status();
}

Status Pmi2Book::call(const std::string &command, const Fields &fields, Fields &answer) {
  std::string text = "cmd=" + command + ";";
  for (const auto &[key, value] : fields) {
    text += key + "=" + value + ";";
  }
  ASHLAR_RETURN_IF_ERROR(sendMessage(fd, fmt::format("{:>{}}", text.size(), kLengthDigits) + text));
  std::string length, body;
  ASHLAR_RETURN_IF_ERROR(receive(kLengthDigits, length));
  size_t bytes = 0;
  length.erase(0, length.find_first_not_of(' '));
  length.erase(std::min(length.find(' '), length.size()));
  const auto [end, fault] = std::from_chars(length.data(), length.data() + length.size(), bytes);
  if (fault != std::errc() || end != length.data() + length.size() || bytes == 0) {
    return unavailable("the launcher answers {} with no message of PMI2; {}", command, kPmi2Remedy);
  }
  ASHLAR_RETURN_IF_ERROR(receive(bytes, body));
  answer = parseFields(body);
  if (answer["cmd"] != command + "-response" || answer["rc"] != "0") {
    return unavailable("the launcher refuses {} of PMI2: \"{}\"; {}", command, body, kPmi2Remedy);
  }
  return Status();
}

Status Pmi2Book::exchange(const std::string &mine, std::vector<std::string> &all) {
  const int number = exchanges++;
  Fields answer;
  const size_t pieces = mine.size() / kPieceBytes + 1;
  for (size_t piece = 0; piece < pieces; ++piece) { // the first character: whether more follow
    const std::string value = (piece + 1 < pieces ? "m" : "l") + digitsOf(std::string_view(mine).substr(piece * kPieceBytes, kPieceBytes));
    ASHLAR_RETURN_IF_ERROR(call("kvs-put", {{"key", pieceKey(number, self, piece)}, {"value", value}}, answer));
  }
  ASHLAR_RETURN_IF_ERROR(call("kvs-fence", {}, answer));
  all.assign(static_cast<size_t>(ranks), "");
  for (int rank = 0; rank < ranks; ++rank) {
    std::string &text = all[static_cast<size_t>(rank)];
    bool isLast = false;
    for (size_t piece = 0; !isLast; ++piece) {
      ASHLAR_RETURN_IF_ERROR(call("kvs-get", {{"jobid", jobName}, {"srcid", "-1"}, {"key", pieceKey(number, rank, piece)}}, answer));
      const std::string &value = answer["value"];
      if (answer["found"] != "TRUE" || value.empty() || !readDigits(std::string_view(value).substr(1), text)) {
        return unavailable("the launcher has no address of rank {}; {}", rank, kPmi2Remedy);
      }
      isLast = value[0] == 'l';
    }
  }
  return Status();
}

void Pmi2Book::close() {
  Fields answer;
  (void)call("finalize", {}, answer).ok();
}

} // namespace ashlar::rt
