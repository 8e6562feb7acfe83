#include "data/prepare/journal.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/small_file.h"
#include "common/status_macros.h"

namespace strata::data {
namespace {

using nlohmann::json;

// Every number of a journal, by name.
std::vector<std::pair<const char*, int64_t*>> NumbersOf(Journal& journal) {
  PrepareReport& counts = journal.counts;
  ReaderPosition& reader = journal.input.reader;
  return {
      {"date", &journal.date},
      {"input", &journal.input.input},
      {"pass", &journal.input.pass},
      {"offset", &reader.offset},
      {"line", &reader.line},
      {"input_documents", &reader.documents},
      {"output_tokens", &journal.output.tokens},
      {"output_documents", &journal.output.documents},
      {"trained", &counts.trained},
      {"longest", &counts.longest},
      {"truncated", &counts.truncated},
      {"skipped", &counts.skipped},
  };
}

}  // namespace

std::string JournalPath(const TokenFile& output) {
  return absl::StrCat(PathForJobs(output), ".partial.journal");
}

absl::StatusOr<Journal> ReadJournal(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, common::ReadFile(path));
  const json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto damaged = [&] {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is no journal"));
  };
  if (!parsed.is_object()) return damaged();
  Journal journal;
  const auto digest = parsed.find("digest"), cut = parsed.find("cut");
  if (digest == parsed.end() || !digest->is_string()) return damaged();
  if (cut == parsed.end() || !cut->is_boolean()) return damaged();
  journal.digest = digest->get<std::string>();
  journal.cut = cut->get<bool>();
  for (const auto& [name, number] : NumbersOf(journal)) {
    const auto found = parsed.find(name);
    if (found == parsed.end() || !found->is_number_unsigned()) return damaged();
    const auto value = found->get<uint64_t>();
    if (value > uint64_t{1} << 60) return damaged();
    *number = static_cast<int64_t>(value);
  }
  return journal;
}

absl::Status WriteJournal(const std::string& path, const Journal& journal) {
  Journal copy = journal;
  json written = {{"digest", copy.digest}, {"cut", copy.cut}};
  for (const auto& [name, number] : NumbersOf(copy)) written[name] = *number;
  return common::ReplaceFile(path, written.dump(1) + "\n", /*durable=*/true);
}

}  // namespace strata::data
