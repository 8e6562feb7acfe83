#include "data/token_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "data/files/input_file.h"
#include "data/files/stored_tokens.h"
#include "data/files/token_layout.h"

namespace strata::data {
namespace {

using Source = std::shared_ptr<const TokenSource>;

absl::StatusOr<TokenFileKind> KindOf(const InputFile& file) {
  unsigned char start[kMagicBytes];
  const int64_t known = std::min(kMagicBytes, file.size());
  RETURN_IF_ERROR(file.ReadAt(0, known, start));
  return KindByMagic({start, static_cast<size_t>(known)});
}

// Whose header is a page at its start.
absl::StatusOr<Source> OpenArray(InputFile file, TokenFileKind kind, int64_t vocabulary) {
  std::vector<unsigned char> header(static_cast<size_t>(std::min(kHeaderBytes, file.size())));
  RETURN_IF_ERROR(file.ReadAt(0, static_cast<int64_t>(header.size()), header.data()));
  absl::StatusOr<TokenLayout> layout;
  switch (kind) {
    case TokenFileKind::kLlmq:
      layout = ParseLlmqHeader(header, file.size());
      break;
    case TokenFileKind::kLlmc:
      layout = ParseLlmcHeader(header, file.size());
      break;
    default:
      layout = RawLayout(file.size());
  }
  if (!layout.ok()) return AtPath(file.path(), layout.status());
  return StoredTokens::Array(std::move(file), *layout, vocabulary);
}

absl::StatusOr<Source> OpenMegatron(InputFile index, int64_t vocabulary) {
  absl::string_view stem = index.path();
  if (!absl::ConsumeSuffix(&stem, ".idx")) {
    return absl::InvalidArgumentError(absl::StrCat(
        index.path(), ": is a Megatron index, whose name should end in .idx — rename it"));
  }
  ASSIGN_OR_RETURN(InputFile data, InputFile::Open(absl::StrCat(stem, ".bin")));
  ASSIGN_OR_RETURN(const MegatronIndex layout, ReadMegatronIndex(index, data.size()));
  return StoredTokens::Megatron(std::move(index), std::move(data), layout, vocabulary);
}

// A .bin without a header may be the data of a Megatron index, with other tokens than 16-bit ones.
absl::Status CheckNoIndexBeside(const std::string& path) {
  const std::string index = absl::StrCat(absl::StripSuffix(path, ".bin"), ".idx");
  const absl::StatusOr<InputFile> file = InputFile::Open(index);
  if (!file.ok()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const TokenFileKind kind, KindOf(*file));
  if (kind != TokenFileKind::kMegatronIndex) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is the data of a Megatron index — name ", index, " instead"));
}

bool IsJsonLines(absl::string_view path) {
  if (!absl::ConsumeSuffix(&path, ".gz")) absl::ConsumeSuffix(&path, ".zst");
  return absl::EndsWith(path, ".jsonl");
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenSource>> OpenTokenSource(const std::string& path,
                                                                   int64_t vocabulary) {
  ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  ASSIGN_OR_RETURN(const TokenFileKind kind, KindOf(file));
  if (kind == TokenFileKind::kMegatronIndex) return OpenMegatron(std::move(file), vocabulary);
  if (kind != TokenFileKind::kNone) return OpenArray(std::move(file), kind, vocabulary);
  if (absl::EndsWith(path, ".bin")) {
    RETURN_IF_ERROR(CheckNoIndexBeside(path));
    return OpenArray(std::move(file), kind, vocabulary);
  }
  if (absl::EndsWith(path, ".idx")) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": is no Megatron index: it does not begin with MMIDIDX — copy or make it again"));
  }
  if (IsJsonLines(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": JSONL has no tokens yet — make a token file of it: strata data "
                     "prepare ",
                     path, " -o FILE.bin --tokenizer DIR"));
  }
  return StoredTokens::Text(std::move(file), vocabulary);
}

}  // namespace strata::data
