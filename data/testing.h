// Files for this folder's tests.
#ifndef STRATA_DATA_TESTING_H_
#define STRATA_DATA_TESTING_H_

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/check.h"

namespace strata::data {

// A folder that goes away with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* base = std::getenv("TEST_TMPDIR");
    path_ = std::string(base != nullptr ? base : "/tmp") + "/strata-XXXXXX";
    STRATA_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& content) const {
    std::ofstream(Path(name), std::ios::binary) << content;
    return Path(name);
  }

 private:
  std::string path_;
};

// `size` bytes, each telling its position.
inline std::string Counting(int size) {
  std::string text;
  for (int i = 0; i < size; ++i) text.push_back(static_cast<char>(i * 7 % 251));
  return text;
}

}  // namespace strata::data

#endif  // STRATA_DATA_TESTING_H_
