// What `strata doctor` looks at. Reading is separate from judging, so that every judgement can be
// tested anywhere.
#ifndef STRATA_CLIENT_DOCTOR_CHECKS_H_
#define STRATA_CLIENT_DOCTOR_CHECKS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata::client {

enum class Health { kOk, kWarning, kFailure };

struct Finding {
  std::string name;  // "shared memory"
  Health health = Health::kOk;
  std::string value;   // what there is
  std::string advice;  // what to do; empty when all is well
};

// What was read from the machine. Sizes in bytes; -1 where nothing could be read.
struct MachineFacts {
  std::string cpu_model;
  std::string cpu_flags;  // the words of /proc/cpuinfo, with a space before and after each
  int cores = 0;          // usable by this process
  int64_t memory = -1;    // usable by processes
  int64_t memory_available = -1;
  int64_t huge_page_count = 0;                 // reserved ones
  std::string transparent_huge_pages;          // "always [madvise] never"
  std::optional<int64_t> locked_memory_limit;  // absent: unlimited
  int64_t open_files_limit = -1;
  int64_t shared_memory = -1;  // size of /dev/shm
  int64_t disk_free = -1;      // in the working directory
  std::string disk_folder;
  int io_uring_error = 0;  // errno of setting one up; 0: it works
  std::string binary_folder;
  std::vector<std::string> missing_binaries;
};

MachineFacts ReadMachine();
std::vector<Finding> Judge(const MachineFacts& facts);

// "ok", "warn", "fail".
const char* NameOf(Health health);

}  // namespace strata::client

#endif  // STRATA_CLIENT_DOCTOR_CHECKS_H_
