// main() of the fuzz targets where there is no libFuzzer: runs the seeds, then mutations of them
// that are the same in every run, until so many or so much time is spent.
//
//   TARGET [--runs N] [--seconds S] [--seed N] SEED-FILE-OR-FOLDER…
//
// A crash leaves what caused it in $TEST_UNDECLARED_OUTPUTS_DIR or the working directory, as
// crash-TARGET; running the target on that file alone repeats it.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/rng.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = size_t{1} << 16;

const std::string* current = nullptr;  // what a crash is to be told with
char crash_path[4096];

void OnCrash(int number) {
  const int file = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0 && current != nullptr) {
    const ssize_t written = write(file, current->data(), current->size());
    static_cast<void>(written);
    close(file);
  }
  signal(number, SIG_DFL);
  raise(number);
}

void Run(const std::string& input) {
  current = &input;
  // A copy of its exact size: reading beyond it is found.
  std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

class Mutator {
 public:
  Mutator(std::vector<std::string> seeds, uint64_t key) : seeds_(std::move(seeds)), key_(key) {}

  std::string Next() {
    std::string text = Seed();
    for (uint64_t edits = 1 + Below(6); edits > 0; --edits) Edit(text);
    if (text.size() > kMostBytes) text.resize(kMostBytes);
    return text;
  }

 private:
  uint64_t Below(uint64_t bound) {
    return bound == 0 ? 0 : strata::common::MixBits(key_, count_++) % bound;
  }
  const std::string& Seed() { return seeds_[Below(seeds_.size())]; }

  void Edit(std::string& text) {
    const size_t at = Below(text.size() + 1);
    const size_t length = std::min(1 + Below(16), text.size() - at);
    switch (Below(9)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.resize(at);
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(Below(256));
        break;
      case 3:
        if (at < text.size()) text[at] ^= static_cast<char>(1 << Below(8));
        break;
      case 4:
        text.insert(Below(text.size() + 1), text.substr(at, length * (1 + Below(8))));
        break;
      case 5:  // a number at the edge of some type
        Overwrite(text, at, Number());
        break;
      case 6: {  // a piece of another seed
        const std::string& other = Seed();
        const size_t from = Below(other.size() + 1);
        text.insert(at, other.substr(from, 1 + Below(64)));
        break;
      }
      case 7: {
        static constexpr const char* kWords[] = {
            "{",       "}",       "[",    "]",  "\"",    ":",
            ",",       "null",    "true", "-1", "1e999", "9223372036854775808",
            "\\u0000", "\\ud800", "\n",   " ",  "\xff",  "\xc3\xa9",
            "{{",      "%}"};
        text.insert(at, kWords[Below(std::size(kWords))]);
        break;
      }
      default:  // nested deeply
        text.insert(at, std::string(1 + Below(3000), "[{(\"-"[Below(5)]));
    }
  }
  static void Overwrite(std::string& text, size_t at, const std::string& bytes) {
    text.replace(at, std::min(bytes.size(), text.size() - at), bytes);
  }
  std::string Number() {
    static constexpr uint64_t kEdges[] = {0,
                                          1,
                                          127,
                                          128,
                                          255,
                                          256,
                                          32767,
                                          32768,
                                          65535,
                                          65536,
                                          2147483647,
                                          2147483648,
                                          4294967295,
                                          4294967296,
                                          9223372036854775807u,
                                          9223372036854775808u,
                                          18446744073709551615u};
    const uint64_t number = kEdges[Below(std::size(kEdges))] + Below(3) - 1;
    char bytes[sizeof(number)];
    std::memcpy(bytes, &number, sizeof(number));
    return std::string(bytes, size_t{1} << Below(4));
  }

  const std::vector<std::string> seeds_;
  const uint64_t key_;
  uint64_t count_ = 0;
};

void AddSeeds(const fs::path& path, std::vector<std::string>& seeds) {
  if (fs::is_directory(path)) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) AddSeeds(file, seeds);
    return;
  }
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  seeds.push_back(bytes.str());
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t runs = 0, key = 1;
  double seconds = 1e9;
  std::vector<std::string> seeds;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool valued = word == "--runs" || word == "--seconds" || word == "--seed";
    if (valued && i + 1 < argc) {
      const char* value = argv[++i];
      if (word == "--runs") runs = std::strtoull(value, nullptr, 10);
      if (word == "--seconds") seconds = std::strtod(value, nullptr);
      if (word == "--seed") key = std::strtoull(value, nullptr, 10);
    } else {
      AddSeeds(word, seeds);
    }
  }
  const char* folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  std::snprintf(crash_path, sizeof(crash_path), "%s/crash-%s", folder == nullptr ? "." : folder,
                fs::path(argv[0]).filename().c_str());
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(number, OnCrash);

  const strata::common::MonotonicClock clock;
  const double begin = clock.Now();
  for (const std::string& seed : seeds) Run(seed);
  seeds.emplace_back();
  Mutator mutator(seeds, key);
  uint64_t done = 0;
  double slowest = 0;
  for (double now = clock.Now(); done < runs && now - begin < seconds; ++done) {
    Run(mutator.Next());
    const double after = clock.Now();
    slowest = std::max(slowest, after - now);
    now = after;
  }
  std::printf("%zu seeds and %llu mutations in %.1f s, the slowest %.3f s\n", seeds.size(),
              static_cast<unsigned long long>(done), clock.Now() - begin, slowest);
  return 0;
}
