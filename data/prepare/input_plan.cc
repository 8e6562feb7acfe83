#include "data/prepare/input_plan.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/digest.h"
#include "common/status_macros.h"
#include "data/files/input_file.h"
#include "data/files/token_layout.h"

namespace strata::data {
namespace {

constexpr double kMostWeight = 1000;
constexpr double kShares = 4294967296.0;  // 2^32

absl::Status CheckWeight(const std::string& path, double weight) {
  if (weight > 0 && weight <= kMostWeight) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": weight ", weight, " must be greater than 0 and at most ", kMostWeight));
}

absl::string_view WithoutCompression(absl::string_view path) {
  if (!absl::ConsumeSuffix(&path, ".gz")) absl::ConsumeSuffix(&path, ".zst");
  return path;
}

// Kinds of files that are neither text nor JSONL, whatever their bytes may be read as.
absl::Status CheckName(const std::string& path) {
  const auto refuse = [&](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
  };
  const absl::string_view name = WithoutCompression(path);
  if (absl::EndsWith(name, ".json")) {
    return refuse(
        "is JSON by its name, which is not read — write a record a line into a .jsonl, or say "
        "--format-in jsonl or text if it is that");
  }
  if (absl::EndsWith(name, ".parquet") || absl::EndsWith(name, ".arrow")) {
    return refuse("is of a kind that is not read — convert it to JSONL");
  }
  if (absl::EndsWith(name, ".bin") || absl::EndsWith(name, ".idx")) {
    return refuse("is a token file by its name — name it in the job as it is");
  }
  return absl::OkStatus();
}

absl::Status CheckContent(const InputFile& file) {
  unsigned char start[kMagicBytes];
  const int64_t known = std::min(kMagicBytes, file.size());
  RETURN_IF_ERROR(file.ReadAt(0, known, start));
  if (KindByMagic({start, static_cast<size_t>(known)}) != TokenFileKind::kNone) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": is a token file already — name it in the job as it is"));
  }
  if (known >= 4 && std::memcmp(start, "PAR1", 4) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": is Parquet, which is not read — convert it to JSONL"));
  }
  return absl::OkStatus();
}

// Size, time of change, and digests of the first and the last bytes.
absl::StatusOr<std::string> IdentityOf(const InputFile& file) {
  constexpr int64_t kEndBytes = 64 << 10;
  struct stat status;
  if (fstat(file.descriptor(), &status) != 0) {
    return absl::UnavailableError(absl::StrCat(file.path(), ": ", std::strerror(errno)));
  }
  std::string ends(static_cast<size_t>(std::min(file.size(), 2 * kEndBytes)), '\0');
  const auto first = static_cast<int64_t>((ends.size() + 1) / 2);
  const int64_t last = static_cast<int64_t>(ends.size()) - first;
  RETURN_IF_ERROR(file.ReadAt(0, first, ends.data()));
  RETURN_IF_ERROR(file.ReadAt(file.size() - last, last, ends.data() + first));
  return absl::StrCat(file.size(), " ", status.st_mtim.tv_sec, ".", status.st_mtim.tv_nsec, " ",
                      common::DigestOf(ends));
}

absl::StatusOr<PlannedInput> PlanInput(const PrepareInput& input) {
  RETURN_IF_ERROR(CheckWeight(input.path, input.weight));
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(input.path));
  ASSIGN_OR_RETURN(const bool lines, IsJsonLines(input));
  RETURN_IF_ERROR(CheckContent(file));
  PlannedInput plan;
  plan.path = input.path;
  plan.lines = lines;
  plan.bytes = file.size();
  plan.whole_passes = static_cast<int64_t>(std::floor(input.weight));
  plan.last_share = static_cast<uint64_t>((input.weight - std::floor(input.weight)) * kShares);
  ASSIGN_OR_RETURN(plan.identity, IdentityOf(file));
  if (!lines && plan.last_share > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(input.path, ": weight ", input.weight,
                     ": a text is one document, which is taken a whole number of times"));
  }
  return plan;
}

}  // namespace

bool PlannedInput::Takes(int64_t pass, int64_t document) const {
  if (pass < whole_passes) return true;
  const auto taken_before = [this](int64_t count) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(count) * last_share >> 32);
  };
  return taken_before(document + 1) > taken_before(document);
}

absl::StatusOr<std::vector<PlannedInput>> PlanInputs(const PrepareOptions& options) {
  if (options.inputs.empty()) return absl::InvalidArgumentError("there is no input");
  std::vector<PlannedInput> plans;
  std::vector<std::string> problems;
  absl::Status first;
  for (const PrepareInput& input : options.inputs) {
    absl::StatusOr<PlannedInput> plan = PlanInput(input);
    first.Update(plan.status());
    if (!plan.ok()) problems.emplace_back(plan.status().message());
    if (plan.ok()) plans.push_back(*std::move(plan));
  }
  if (first.ok()) return plans;
  return absl::Status(first.code(), absl::StrJoin(problems, "\n"));
}

absl::StatusOr<bool> IsJsonLines(const PrepareInput& input) {
  if (input.kind != PrepareInput::Kind::kByName) {
    return input.kind == PrepareInput::Kind::kJsonLines;
  }
  RETURN_IF_ERROR(CheckName(input.path));
  const absl::string_view name = WithoutCompression(input.path);
  return absl::EndsWith(name, ".jsonl") || absl::EndsWith(name, ".ndjson");
}

absl::StatusOr<PrepareInput> ParsePrepareInput(const std::string& text) {
  PrepareInput input;
  input.path = text;
  if (text == "-") {
    return absl::InvalidArgumentError(
        "-: standard input cannot be read again after an interruption — name a file");
  }
  std::error_code error;
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || std::filesystem::exists(text, error)) {
    return input;
  }
  double weight = 0;
  if (!absl::SimpleAtod(text.substr(colon + 1), &weight)) return input;
  input.path = text.substr(0, colon);
  input.weight = weight;
  RETURN_IF_ERROR(CheckWeight(input.path, weight));
  return input;
}

}  // namespace strata::data
