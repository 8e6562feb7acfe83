#include "client/prepared_data.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "client/machine.h"
#include "client/prepare_teller.h"
#include "common/clock.h"
#include "common/digest.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "data/file_identity.h"
#include "data/files/input_file.h"
#include "data/prepare/prepare.h"
#include "data/token_source.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigitsInName = 16;

// What is wrong with a file is the user's, whatever it is.
absl::Status AsUsage(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return absl::InvalidArgumentError(status.message());
    default:
      return status;
  }
}

// Records, whatever their compression, and what else is compressed: told by the name alone.
bool IsNeverRead(const std::string& path) {
  const bool compressed = absl::EndsWith(path, ".gz") || absl::EndsWith(path, ".zst");
  return compressed || data::IsJsonLines({path}).value_or(false);
}

// The file's name without its endings, of characters that need no quoting.
std::string PlainStem(const std::string& path) {
  std::string stem = fs::path(path).filename().string();
  const size_t dot = stem.find('.', 1);
  if (dot != std::string::npos) stem.resize(dot);
  for (char& c : stem) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
    if (!plain) c = '-';
  }
  return stem.substr(0, 64);
}

data::PrepareOptions OptionsFor(const std::string& path, const std::string& tokenizer,
                                const std::string& output) {
  data::PrepareOptions options;
  options.inputs.push_back({path});
  options.tokenizer = tokenizer;
  options.output = output;
  options.threads = static_cast<int>(UsableCores());
  return options;
}

}  // namespace

absl::StatusOr<bool> NeedsPreparation(const std::string& path, bool has_tokenizer) {
  if (IsNeverRead(path)) {
    const auto file = data::InputFile::Open(path);
    if (!file.ok()) return AsUsage(file.status());
    return true;
  }
  if (!has_tokenizer) return false;
  const auto source = data::OpenTokenSource(path);
  if (!source.ok()) return AsUsage(source.status());
  return absl::string_view((*source)->unit()) == "bytes";
}

absl::StatusOr<TokenFileCache::Entry> TokenFileCache::Get(const std::string& path) {
  Entry entry;
  const absl::StatusOr<data::FileIdentity> identity = data::IdentifyFile(path);
  if (!identity.ok()) return AsUsage(identity.status());
  entry.source.set_path(path);
  entry.source.set_bytes(identity->bytes);
  entry.source.set_digest(identity->digest);
  const fs::path folder =
      folder_.empty() ? fs::path(path).parent_path() / ".strata" : fs::path(folder_);
  const std::string stem = (folder / PlainStem(path)).string();
  const absl::StatusOr<std::string> made_by =
      data::PrepareDigest(OptionsFor(path, tokenizer_, stem + ".bin"));
  if (!made_by.ok()) return AsUsage(made_by.status());
  const std::string digest = common::DigestOf(absl::StrCat(*made_by, " ", identity->digest));
  entry.path = absl::StrCat(stem, "-", digest.substr(0, kDigitsInName), ".bin");
  std::error_code error;
  if (fs::is_regular_file(entry.path, error)) {
    terminal_.Say(absl::StrCat(path, ": its tokens are in ", entry.path));
    return entry;
  }
  fs::create_directories(folder, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder.string(), ": cannot be created (", error.message(), ") — prepare ", path,
        " elsewhere (strata data prepare FILE -o OUT.bin), and name what that makes\n"));
  }
  RETURN_IF_ERROR(Make(path, entry.path));
  const absl::StatusOr<data::FileIdentity> now = data::IdentifyFile(path);
  if (now.ok() && *now == *identity) return entry;
  fs::remove(entry.path, error);
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": changed while its tokens were made — begin again when it is written\n"));
}

absl::Status TokenFileCache::Make(const std::string& path, const std::string& token_file) {
  const common::MonotonicClock clock{};
  PrepareTeller teller(terminal_, clock);
  data::PrepareEvents events;
  events.progress = [&](const data::PrepareProgress& progress) {
    teller.Tell(progress);
    return true;
  };
  events.notice = [&](const std::string& notice) { terminal_.Say(notice); };
  const absl::StatusOr<data::PrepareReport> report =
      data::PrepareData(OptionsFor(path, tokenizer_, token_file), events, clock);
  if (!report.ok()) return AsUsage(report.status());
  const double trained = 100.0 * static_cast<double>(report->trained) /
                         static_cast<double>(std::max<int64_t>(1, report->tokens));
  terminal_.Say(absl::StrFormat("%s: %d documents, %d tokens (%.1f%% trained on) in %s, %s", path,
                                report->documents, report->tokens, trained, token_file,
                                common::FormatSeconds(report->seconds)));
  return absl::OkStatus();
}

}  // namespace strata::client
