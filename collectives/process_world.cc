#include "collectives/process_world.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace strata::collectives {
namespace {

bool WriteAll(int file, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = send(file, at, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= n;
  }
  return true;
}

bool ReadAll(int file, void* data, size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = read(file, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= n;
  }
  return true;
}

bool WriteText(int file, const std::string& text) {
  const uint64_t size = text.size();
  return WriteAll(file, &size, sizeof(size)) && WriteAll(file, text.data(), size);
}

bool ReadText(int file, std::string* text) {
  uint64_t size = 0;
  if (!ReadAll(file, &size, sizeof(size)) || size > 1 << 20) return false;
  text->resize(size);
  return ReadAll(file, text->data(), size);
}

// In the child: join over the socket, run, report; the parent's next byte means that another rank
// failed.
absl::Status RunRank(const ProcessOptions& options, int socket, int rank, int size,
                     const WorldKey& key, const Knows& knows,
                     const std::function<absl::Status(Communicator&)>& body) {
  ASSIGN_OR_RETURN(auto endpoint, ProcessEndpoint::Create(options));
  if (!WriteText(socket, endpoint->Address())) return absl::UnavailableError("the parent is gone");
  std::vector<std::string> addresses(size);
  for (std::string& address : addresses) {
    if (!ReadText(socket, &address)) return absl::UnavailableError("the parent is gone");
  }
  for (int other = 0; other < size; ++other) {
    if (knows && other != rank && !knows(rank, other)) addresses[other].clear();
  }
  ASSIGN_OR_RETURN(auto communicator,
                   ProcessEndpoint::Connect(std::move(endpoint), rank, addresses, key));
  std::thread watcher([&] {
    char byte = 0;
    if (ReadAll(socket, &byte, 1) && byte == 'x')
      communicator->Cancel(absl::AbortedError("another rank failed"));
  });
  absl::Status status = body(*communicator);
  // A rank that is done stays until all are, as trainers do: the parent's other byte.
  STRATA_CHECK(
      WriteText(socket, absl::StrCat(static_cast<int>(status.code()), " ", status.message())));
  watcher.join();
  return status;
}

struct Child {
  pid_t pid = 0;
  int socket = -1;
};

Child Start(const ProcessOptions& options, unsigned most_seconds, int rank, int size,
            const WorldKey& key, const Knows& knows,
            const std::function<absl::Status(Communicator&)>& body) {
  int sockets[2];
  STRATA_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
  const pid_t pid = fork();
  STRATA_CHECK(pid >= 0);
  if (pid == 0) {
    close(sockets[0]);
    alarm(most_seconds);
    const absl::Status status = RunRank(options, sockets[1], rank, size, key, knows, body);
    if (!status.ok())
      WriteText(sockets[1], absl::StrCat(static_cast<int>(status.code()), " ", status.message()));
    _exit(0);
  }
  close(sockets[1]);
  return {pid, sockets[0]};
}

absl::Status ParseResult(const std::string& text) {
  const size_t space = text.find(' ');
  return absl::Status(static_cast<absl::StatusCode>(std::stoi(text)), text.substr(space + 1));
}

// Results in the order in which ranks report; the first failure is told to all others.
std::vector<absl::Status> Collect(const std::vector<Child>& children, bool cancels) {
  std::vector<absl::Status> results(children.size());
  std::vector<std::thread> readers;
  for (size_t rank = 0; rank < children.size(); ++rank) {
    readers.emplace_back([&, rank] {
      std::string text;
      results[rank] =
          ReadText(children[rank].socket, &text) ? ParseResult(text) : absl::UnknownError("died");
      if (results[rank].ok() || !cancels) return;
      for (const Child& other : children) WriteAll(other.socket, "x", 1);
    });
  }
  for (std::thread& reader : readers) reader.join();
  for (const Child& child : children) WriteAll(child.socket, "e", 1);
  for (const Child& child : children) {
    int status = 0;
    while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
    }
    close(child.socket);
  }
  return results;
}

}  // namespace

std::vector<absl::Status> RunInProcesses(const ProcessOptions& options, int size,
                                         const std::function<absl::Status(Communicator&)>& body,
                                         const ProcessWorld& world) {
  const WorldKey same = {.nonce = std::string(kNonceBytes, 'k'), .epoch = 1};
  std::vector<Child> children;
  for (int rank = 0; rank < size; ++rank) {
    children.push_back(Start(options, world.most_seconds, rank, size,
                             world.key ? world.key(rank) : same, world.knows, body));
  }
  std::vector<std::string> addresses(size);
  for (int rank = 0; rank < size; ++rank) ReadText(children[rank].socket, &addresses[rank]);
  for (const Child& child : children) {
    for (const std::string& address : addresses) WriteText(child.socket, address);
  }
  return Collect(children, world.cancels);
}

}  // namespace strata::collectives
