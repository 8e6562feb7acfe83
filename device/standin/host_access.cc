#include "device/standin/host_access.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>

#include "common/check.h"
#include "device/standin/managed_pages.h"

namespace strata::standin {
namespace {

enum Access : uint8_t { kForbidden, kPresent, kAway };

std::atomic<uint64_t> begin_{0}, bytes_{0};
// An Access for each page of the range, which the handler reads.
std::atomic<uint8_t>* pages_ = nullptr;
// What the handler noted: a fault more than that is one of a page that a finding names already.
constexpr int kMostFaults = 256;
std::array<std::atomic<uint64_t>, kMostFaults> faults_;
std::atomic<int> fault_count_{0};
struct sigaction previous_;

uint64_t PageCount(uint64_t bytes) { return bytes / kManagedPage + 2; }
std::atomic<uint8_t>& PageAt(uint64_t address) {
  return pages_[address / kManagedPage - begin_ / kManagedPage];
}
bool SetAccess(uint64_t page, int protection) {
  return mprotect(reinterpret_cast<void*>(page), kManagedPage, protection) == 0;
}

void OnFault(int, siginfo_t* info, void*) {
  const uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
  if (address - begin_ < bytes_) {
    if (PageAt(address) == kAway &&
        SetAccess(address / kManagedPage * kManagedPage, PROT_READ | PROT_WRITE)) {
      PageAt(address) = kPresent;
      const int index = fault_count_.fetch_add(1);
      if (index < kMostFaults) faults_[index] = address;
      return;  // the access is made again
    }
    if (PageAt(address) == kPresent) return;  // another thread's access came first
    constexpr char kMessage[] = "stand-in: the host touches device memory\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  }
  // The access is made again and meets whoever was there before: by default, the process ends.
  sigaction(SIGSEGV, &previous_, nullptr);
}

}  // namespace

void WatchHostAccess(uint64_t begin, uint64_t bytes) {
  if (pages_ != nullptr) munmap(pages_, PageCount(bytes_));
  pages_ = nullptr;
  begin_ = begin;
  bytes_ = bytes;
  fault_count_ = 0;
  if (bytes == 0) return;
  void* const table = mmap(nullptr, PageCount(bytes), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  STRATA_CHECK(table != MAP_FAILED);
  pages_ = static_cast<std::atomic<uint8_t>*>(table);
  static const bool installed = [] {
    struct sigaction action;
    std::memset(&action, 0, sizeof action);
    action.sa_sigaction = &OnFault;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGSEGV, &action, &previous_) == 0;
  }();
  static_cast<void>(installed);
}

void AllowHost(uint64_t page, bool present) {
  if (!present) PageAt(page) = kAway;  // before an access can fault
  STRATA_CHECK(SetAccess(page, present ? PROT_READ | PROT_WRITE : PROT_NONE));
  if (present) PageAt(page) = kPresent;
}

void ForbidHost(uint64_t page) {
  PageAt(page) = kForbidden;
  STRATA_CHECK(SetAccess(page, PROT_NONE));
}

std::vector<uint64_t> TakeHostFaults() {
  std::vector<uint64_t> addresses;
  const int count = fault_count_;
  for (int i = 0; i < count && i < kMostFaults; ++i) addresses.push_back(faults_[i]);
  if (count > 0) fault_count_ = 0;
  return addresses;
}

}  // namespace strata::standin
