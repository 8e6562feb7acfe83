#include "device/host_pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/units.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; the headers may be older than the kernel
#endif

namespace strata::device {
namespace {

absl::Status NoRoom(int64_t bytes, const char* what, int error) {
  return absl::ResourceExhaustedError(absl::StrCat("no room for an arena of ", bytes, " bytes (",
                                                   common::FormatBytes(bytes), "): ", what, ": ",
                                                   std::strerror(error)));
}

// Makes every page present. 0 or an error number.
int Populate(std::byte* data, int64_t bytes) {
  while (madvise(data, bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno != EINVAL) return errno;
    // A kernel that does not know this advice: writing does the same, but is killed rather than
    // told when there is no memory.
    for (int64_t page = 0; page < bytes; page += kPageBytes) {
      *reinterpret_cast<volatile std::byte*>(data + page) = std::byte{0};
    }
    return 0;
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::byte*> ReservePages(int64_t bytes) {
  // Without access it counts nowhere as memory, however long: the system is asked for that later.
  void* mapped = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return NoRoom(bytes, "mmap", errno);
  return static_cast<std::byte*>(mapped);
}

absl::Status CommitPages(std::byte* data, int64_t bytes) {
  if (mprotect(data, bytes, PROT_READ | PROT_WRITE) != 0) return NoRoom(bytes, "mprotect", errno);
  // Only whole huge pages inside the mapping are ever used, so no byte is present beyond its end.
  // Advice: a refusal costs speed, nothing else.
  madvise(data, bytes, MADV_HUGEPAGE);
  if (const int error = Populate(data, bytes); error != 0) {
    return NoRoom(bytes, "populate", error);
  }
  return absl::OkStatus();
}

void ReleasePages(std::byte* data, int64_t bytes) { munmap(data, bytes); }

}  // namespace strata::device
