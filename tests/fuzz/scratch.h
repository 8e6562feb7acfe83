// Files for parsers that read by path.
#ifndef STRATA_TESTS_FUZZ_SCRATCH_H_
#define STRATA_TESTS_FUZZ_SCRATCH_H_

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/check.h"

namespace strata::fuzz {

// A folder in memory that goes away with the process.
class Scratch {
 public:
  Scratch() { STRATA_CHECK(mkdtemp(path_) != nullptr); }
  ~Scratch() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  std::string Path(const std::string& name) const { return std::string(path_) + "/" + name; }
  std::string Write(const std::string& name, const void* bytes, size_t size) const {
    const std::string path = Path(name);
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    STRATA_CHECK(file >= 0 && write(file, bytes, size) == static_cast<ssize_t>(size));
    close(file);
    return path;
  }
  void Remove(const std::string& name) const { unlink(Path(name).c_str()); }

 private:
  char path_[64] = "/dev/shm/strata-fuzz-XXXXXX";
};

}  // namespace strata::fuzz

#endif  // STRATA_TESTS_FUZZ_SCRATCH_H_
