#include "device/standin/host_access.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>

namespace strata::standin {
namespace {

std::atomic<uint64_t> begin_{0}, bytes_{0};
struct sigaction previous_;

void OnFault(int, siginfo_t* info, void*) {
  const uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
  if (address - begin_ < bytes_) {
    constexpr char kMessage[] = "stand-in: the host touches device memory\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  }
  // The access is made again and meets whoever was there before: by default, the process ends.
  sigaction(SIGSEGV, &previous_, nullptr);
}

}  // namespace

void WatchHostAccess(uint64_t begin, uint64_t bytes) {
  begin_ = begin;
  bytes_ = bytes;
  static const bool installed = [] {
    struct sigaction action;
    std::memset(&action, 0, sizeof action);
    action.sa_sigaction = &OnFault;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGSEGV, &action, &previous_) == 0;
  }();
  static_cast<void>(installed);
}

}  // namespace strata::standin
