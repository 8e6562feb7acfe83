// The rates of the SSD tier on one disk: what memory/ssd's queues read, write and do of both at
// once, by back end, size of request and depth, against plain direct I/O of the same shape (that
// many threads, each with pread(2) or pwrite(2)) and the same followed by the checksum, as it would
// be without the queues' overlap. Variants take turns, so that a disk that slows down harms all.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "memory/ssd/ssd_store.h"

namespace strata::memory {
namespace {

constexpr int64_t kLeastTransfer = 16 << 20, kMostTransfer = 128 << 20;

struct Flags {
  std::string directory = "/var/tmp";
  std::vector<int64_t> request_kib = {256, 1024, 4096};
  std::vector<int> depths = {1, 4, 16};
  int rounds = 2;
  double seconds = 0.15;
};

struct Shape {
  int64_t request_bytes = 0;
  int depth = 0;
  // Each long enough for what its ends cost to count little.
  int64_t transfer_bytes() const {
    return std::clamp(2 * depth * request_bytes, kLeastTransfer, kMostTransfer);
  }
};

enum class Mode : uint8_t { kRead, kWrite, kMixed };
constexpr Mode kModes[] = {Mode::kRead, Mode::kWrite, Mode::kMixed};
constexpr const char* kModeNames[] = {"read", "write", "mixed 1:1"};

// One thread's.
using Transfer = std::function<absl::Status(bool write, absl::Span<std::byte> memory)>;

struct Variant {
  std::string name;
  std::function<Transfer()> open;  // on the thread that calls it
  struct Sum {
    double bytes = 0, seconds = 0, processor_seconds = 0;
    std::vector<double> rates;  // by round
  } sums[std::size(kModes)];
};

// What compresses as little as weights do.
BlockBuffer RandomBuffer(int64_t bytes) {
  BlockBuffer buffer(bytes);
  std::mt19937_64 random(1);
  auto* words = reinterpret_cast<uint64_t*>(buffer.data());
  for (int64_t word = 0; word < bytes / 8; ++word) words[word] = random();
  return buffer;
}

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A file without a name, of two transfers: the first is read, the second written.
class PlainFile {
 public:
  static absl::StatusOr<std::unique_ptr<PlainFile>> Create(const std::string& directory,
                                                           int64_t bytes) {
    std::string name = directory + "/strata-bench-XXXXXX";
    const int file = mkostemp(name.data(), O_CLOEXEC);
    if (file < 0) return absl::ErrnoToStatus(errno, absl::StrCat(directory, ": a file"));
    unlink(name.c_str());
    std::unique_ptr<PlainFile> plain(new PlainFile(file));
    if (const int failed = posix_fallocate(file, 0, bytes); failed != 0) {
      return absl::ErrnoToStatus(failed, absl::StrCat(directory, ": ", bytes, " bytes"));
    }
    if (fcntl(file, F_SETFL, O_DIRECT) != 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat(directory, ": direct I/O"));
    }
    return plain;
  }
  ~PlainFile() { close(file_); }

  // As dd(1) with direct I/O, several at once.
  absl::Status Move(bool write, int64_t begin, absl::Span<std::byte> memory, const Shape& shape) {
    std::atomic<int64_t> next = 0;
    std::atomic<bool> failed = false;
    const auto work = [&] {
      for (int64_t at = next.fetch_add(shape.request_bytes);
           at < static_cast<int64_t>(memory.size()); at = next.fetch_add(shape.request_bytes)) {
        std::byte* const data = memory.data() + at;
        const int64_t moved = write ? pwrite(file_, data, shape.request_bytes, begin + at)
                                    : pread(file_, data, shape.request_bytes, begin + at);
        if (moved != shape.request_bytes) failed = true;
      }
    };
    std::vector<std::thread> others;
    for (int t = 1; t < shape.depth; ++t) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
    return failed ? absl::DataLossError("plain I/O failed") : absl::OkStatus();
  }

 private:
  explicit PlainFile(int file) : file_(file) {}
  const int file_;
};

// Seconds and processor seconds of transfers of one or two threads, in step with each other.
absl::Status RunCell(Variant& variant, Mode mode, double seconds, absl::Span<std::byte> read,
                     absl::Span<std::byte> written) {
  const common::MonotonicClock clock;
  double begin = 0, end = 0, processor = 0;
  int turns = -1;
  std::atomic<bool> over = false;
  const auto turn = [&]() noexcept {
    end = clock.Now();
    if (++turns == 0) {
      begin = end;
      processor = ProcessorSeconds();
    } else if (end - begin >= seconds) {
      over = true;
    }
  };
  std::barrier together(mode == Mode::kMixed ? 2 : 1, turn);
  absl::Status statuses[2];
  const auto work = [&](bool write) {
    const Transfer transfer = variant.open();
    together.arrive_and_wait();
    while (!over) {
      statuses[write].Update(transfer(write, write ? written : read));
      together.arrive_and_wait();
    }
  };
  std::vector<std::thread> threads;
  if (mode != Mode::kWrite) threads.emplace_back(work, false);
  if (mode != Mode::kRead) threads.emplace_back(work, true);
  for (std::thread& thread : threads) thread.join();
  Variant::Sum& sum = variant.sums[static_cast<int>(mode)];
  sum.bytes += static_cast<double>(turns) * static_cast<double>(threads.size() * read.size());
  sum.seconds += end - begin;
  sum.rates.push_back(static_cast<double>(turns) *
                      static_cast<double>(threads.size() * read.size()) / (end - begin));
  sum.processor_seconds += ProcessorSeconds() - processor;
  statuses[0].Update(statuses[1]);
  return statuses[0];
}

void AddPlain(const Shape& shape, PlainFile* file, std::vector<Variant>& variants) {
  for (const bool hashes : {false, true}) {
    const auto move = [=](bool write, absl::Span<std::byte> memory) -> absl::Status {
      static std::atomic<uint64_t> checksum;  // or the compiler leaves it out
      if (write && hashes) checksum = XXH3_64bits(memory.data(), memory.size());
      RETURN_IF_ERROR(file->Move(write, write ? shape.transfer_bytes() : 0, memory, shape));
      if (!write && hashes) checksum = XXH3_64bits(memory.data(), memory.size());
      return absl::OkStatus();
    };
    variants.push_back({.name = hashes ? "plain, then checksum" : "plain",
                        .open = [move]() -> Transfer { return move; }});
  }
}

absl::Status AddStores(const Flags& flags, const Shape& shape,
                       std::vector<std::unique_ptr<SsdStore>>& stores,
                       std::vector<Variant>& variants) {
  for (const IoBackendKind kind :
       {IoBackendKind::kUring, IoBackendKind::kAio, IoBackendKind::kThreads}) {
    const int64_t bytes = shape.transfer_bytes();
    auto store = SsdStore::Create({.paths = {{flags.directory}},
                                   .backend = kind,
                                   .request_bytes = shape.request_bytes,
                                   .queue_depth = shape.depth},
                                  {{0, bytes}, {bytes, bytes}});
    if (absl::IsUnavailable(store.status())) {
      std::cerr << Name(kind) << ": " << store.status().message() << "\n";
      continue;
    }
    RETURN_IF_ERROR(store.status());
    if (!(*store)->direct()) {
      return absl::FailedPreconditionError(
          absl::StrCat(flags.directory, ": no direct I/O — name a folder on the disk itself"));
    }
    stores.push_back(*std::move(store));
    const auto open = [store = stores.back().get(), bytes]() -> Transfer {
      std::shared_ptr<SsdQueue> queue = store->OpenQueue();
      return [queue, bytes](bool write, absl::Span<std::byte> memory) {
        return write ? queue->Write(SsdClass::kStateWrite, bytes, memory)
                     : queue->Read(SsdClass::kStateRead, 0, memory);
      };
    };
    variants.push_back({.name = Name(kind), .open = open});
    RETURN_IF_ERROR(
        stores.back()->OpenQueue()->Write(SsdClass::kStateWrite, 0, RandomBuffer(bytes).bytes()));
  }
  return absl::OkStatus();
}

// Median over the rounds: a disk's rate drifts, but not much within one.
double ShareOf(const Variant::Sum& plain, const Variant::Sum& sum) {
  std::vector<double> shares;
  for (size_t r = 0; r < sum.rates.size(); ++r) shares.push_back(sum.rates[r] / plain.rates[r]);
  std::sort(shares.begin(), shares.end());
  const size_t middle = shares.size() / 2;
  return shares.size() % 2 == 1 ? shares[middle] : (shares[middle - 1] + shares[middle]) / 2;
}

void Print(const Shape& shape, const std::vector<Variant>& variants) {
  for (size_t mode = 0; mode < std::size(kModes); ++mode) {
    std::string line = absl::StrFormat("| %d KiB | %d | %s |", shape.request_bytes >> 10,
                                       shape.depth, kModeNames[mode]);
    for (const Variant& variant : variants) {
      const Variant::Sum& sum = variant.sums[mode];
      absl::StrAppendFormat(&line, " %.0f (%.2f; %.3f) |", sum.bytes / sum.seconds * 1e-6,
                            ShareOf(variants[0].sums[mode], sum),
                            sum.processor_seconds / sum.bytes * static_cast<double>(1 << 30));
    }
    std::cout << line << std::endl;
  }
}

absl::Status MeasureShape(const Flags& flags, const Shape& shape, bool first) {
  const int64_t bytes = shape.transfer_bytes();
  const BlockBuffer read = RandomBuffer(bytes), written = RandomBuffer(bytes);
  ASSIGN_OR_RETURN(const std::unique_ptr<PlainFile> file,
                   PlainFile::Create(flags.directory, 2 * bytes));
  RETURN_IF_ERROR(file->Move(true, 0, written.bytes(), shape));
  std::vector<std::unique_ptr<SsdStore>> stores;
  std::vector<Variant> variants;
  AddPlain(shape, file.get(), variants);
  RETURN_IF_ERROR(AddStores(flags, shape, stores, variants));
  if (first) {
    std::string head = "| Request | Depth | |", rule = "|---|---|---|";
    for (const Variant& variant : variants) {
      absl::StrAppend(&head, " ", variant.name, " |");
      absl::StrAppend(&rule, "---|");
    }
    std::cout << "MB/s (share of plain, median of rounds; processor seconds per GiB)\n\n"
              << head << "\n"
              << rule << std::endl;
  }
  for (Variant& variant : variants) {  // Files' first bytes take longer: they get their places.
    RETURN_IF_ERROR(variant.open()(true, written.bytes()));
  }
  for (int round = 0; round < flags.rounds; ++round) {
    for (const Mode mode : kModes) {
      for (Variant& variant : variants) {
        RETURN_IF_ERROR(RunCell(variant, mode, flags.seconds, read.bytes(), written.bytes()));
      }
    }
  }
  Print(shape, variants);
  return absl::OkStatus();
}

absl::Status Measure(const Flags& flags) {
  bool first = true;
  for (const int64_t kib : flags.request_kib) {
    for (const int depth : flags.depths) {
      RETURN_IF_ERROR(MeasureShape(flags, {.request_bytes = kib << 10, .depth = depth}, first));
      first = false;
    }
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Rates of the SSD tier against plain direct I/O");
  app.add_option("--dir", flags.directory, "a folder on the disk")->capture_default_str();
  app.add_option("--requests", flags.request_kib, "their sizes, KiB")->capture_default_str();
  app.add_option("--depths", flags.depths, "requests in flight")->capture_default_str();
  app.add_option("--rounds", flags.rounds, "turns of each variant")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seconds", flags.seconds, "of each turn at least")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Measure(flags);
  if (!status.ok()) std::cerr << "ssd_bench: " << status.message() << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace strata::memory

int main(int argc, char** argv) { return strata::memory::Main(argc, argv); }
