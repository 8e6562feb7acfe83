// Files for this folder's tests.
#ifndef STRATA_DATA_TESTING_H_
#define STRATA_DATA_TESTING_H_

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/rng.h"
#include "data/token_source.h"

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

// Tokens, documents and a mask as they are given.
class GivenTokens final : public TokenSource {
 public:
  // Documents of these lengths, of tokens 0, 1, 2, … all through. `trained` [tokens]; empty: all.
  explicit GivenTokens(const std::vector<int64_t>& lengths, std::vector<bool> trained = {})
      : trained_(std::move(trained)) {
    for (const int64_t length : lengths) ends_.push_back(tokens() + length);
    STRATA_CHECK(trained_.empty() || static_cast<int64_t>(trained_.size()) == tokens());
  }

  const std::string& path() const override { return path_; }
  int64_t tokens() const override { return ends_.empty() ? 0 : ends_.back(); }
  int64_t bytes() const override { return 4 * tokens(); }
  int64_t vocabulary() const override { return tokens(); }
  const char* unit() const override { return "tokens"; }
  absl::Status Read(int64_t begin, int64_t count, int32_t* tokens) const override {
    STRATA_CHECK(begin >= 0 && count >= 0 && begin + count <= this->tokens());
    std::iota(tokens, tokens + count, static_cast<int32_t>(begin));
    return absl::OkStatus();
  }
  absl::Status MaskTargets(int64_t begin, int64_t count, int32_t* targets) const override {
    STRATA_CHECK(begin >= 0 && count >= 0 && begin + count <= tokens());
    for (int64_t i = 0; masked() && i < count; ++i) {
      if (!trained_[static_cast<size_t>(begin + i)]) targets[i] = -1;
    }
    return absl::OkStatus();
  }
  bool masked() const override { return !trained_.empty(); }
  absl::StatusOr<std::vector<int64_t>> DocumentEnds() const override { return ends_; }

 private:
  const std::string path_ = "given";
  const std::vector<bool> trained_;
  std::vector<int64_t> ends_;
};

// Documents of random lengths, of which `long_share` percent are up to 3 sequences long.
inline std::vector<int64_t> RandomLengths(uint64_t seed, int64_t documents, int64_t sequence,
                                          uint64_t long_share) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < documents; ++i) {
    const uint64_t bits = common::MixBits(seed, static_cast<uint64_t>(i));
    const auto most = static_cast<uint64_t>(bits % 100 < long_share ? 3 * sequence : sequence / 2);
    lengths.push_back(1 + static_cast<int64_t>((bits >> 16) % (most + 1)));
  }
  return lengths;
}

// `size` bytes, each telling its position.
inline std::string Counting(int size) {
  std::string text;
  for (int i = 0; i < size; ++i) text.push_back(static_cast<char>(i * 7 % 251));
  return text;
}

}  // namespace strata::data

#endif  // STRATA_DATA_TESTING_H_
