#include "data/files/megatron_index.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/files/array_reader.h"

namespace strata::data {
namespace {

constexpr std::pair<uint8_t, TokenType> kTypes[] = {
    {1, TokenType::kU8},  {2, TokenType::kI8},  {3, TokenType::kI16},
    {4, TokenType::kI32}, {5, TokenType::kI64}, {8, TokenType::kU16},
};

std::optional<TokenType> TypeOf(uint8_t code) {
  for (const auto& [known, type] : kTypes) {
    if (known == code) return type;
  }
  return std::nullopt;
}

int64_t PointersAt(const MegatronIndex& index) {
  return kMegatronHeaderBytes + 4 * index.sequences;
}
int64_t BoundariesAt(const MegatronIndex& index) { return PointersAt(index) + 8 * index.sequences; }
int64_t ModesAt(const MegatronIndex& index) { return BoundariesAt(index) + 8 * index.boundaries; }

absl::Status Damaged(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(what, " — copy or make both files again"));
}

absl::StatusOr<MegatronIndex> ReadHeader(const InputFile& file) {
  if (file.size() < kMegatronHeaderBytes) {
    return Damaged(absl::StrCat("its header is cut short: ", file.size(), " bytes, it has ",
                                kMegatronHeaderBytes));
  }
  unsigned char header[kMegatronHeaderBytes];
  RETURN_IF_ERROR(file.ReadAt(0, kMegatronHeaderBytes, header));
  uint64_t version, sequences, boundaries;
  std::memcpy(&version, header + 9, sizeof(version));
  std::memcpy(&sequences, header + 18, sizeof(sequences));
  std::memcpy(&boundaries, header + 26, sizeof(boundaries));
  if (version != 1) {
    return absl::UnimplementedError(
        absl::StrCat("is a Megatron index of version ", version, " — only version 1 is read"));
  }
  const std::optional<TokenType> type = TypeOf(header[17]);
  if (!type.has_value()) {
    return absl::UnimplementedError(
        absl::StrCat("its type code ", int{header[17]}, " is not one of integers (1 to 5, and 8)"));
  }
  const auto left = static_cast<uint64_t>(file.size() - kMegatronHeaderBytes);
  const auto missing = [&] {
    return Damaged(absl::StrCat("its header says ", sequences, " sequences and ", boundaries,
                                " boundaries of documents, which do not fit its ", file.size(),
                                " bytes"));
  };
  if (sequences > left / 12 || boundaries > (left - 12 * sequences) / 8) return missing();
  MegatronIndex index;
  index.type = *type;
  index.sequences = static_cast<int64_t>(sequences);
  index.boundaries = static_cast<int64_t>(boundaries);
  const int64_t modes = file.size() - ModesAt(index);
  if (modes != 0 && modes != index.sequences) return missing();
  return index;
}

// Adds up the tokens; each sequence begins where the one before ends, the last ends with the file.
absl::Status CheckSequences(const InputFile& file, int64_t data_bytes, MegatronIndex& index) {
  ArrayReader<int32_t> lengths(file, kMegatronHeaderBytes, index.sequences);
  ArrayReader<int64_t> pointers(file, PointersAt(index), index.sequences);
  const int64_t width = BytesOf(index.type);
  for (int64_t s = 0; s < index.sequences; ++s) {
    ASSIGN_OR_RETURN(const int32_t length, lengths.Next());
    ASSIGN_OR_RETURN(const int64_t pointer, pointers.Next());
    if (length < 0) return Damaged(absl::StrCat("sequence ", s, " has ", length, " tokens"));
    if (pointer != index.tokens * width) {
      return absl::UnimplementedError(absl::StrCat(
          "sequence ", s, " begins at byte ", pointer, " of the data file, not at ",
          index.tokens * width,
          " where the one before it ends — only files whose sequences lie one after the other are "
          "read"));
    }
    index.tokens += length;
    if (index.tokens > data_bytes / width) {
      return Damaged(absl::StrCat("sequence ", s, " ends at token ", index.tokens,
                                  ", the data file has ", data_bytes / width));
    }
  }
  if (index.tokens == 0) return absl::InvalidArgumentError("holds no tokens");
  if (index.tokens * width == data_bytes) return absl::OkStatus();
  return Damaged(absl::StrCat("its sequences have ", index.tokens, " tokens, ",
                              index.tokens * width, " bytes, but the data file has ", data_bytes));
}

absl::Status CheckBoundaries(const InputFile& file, const MegatronIndex& index) {
  ArrayReader<int64_t> boundaries(file, BoundariesAt(index), index.boundaries);
  int64_t last = 0;
  for (int64_t b = 0; b < index.boundaries; ++b) {
    ASSIGN_OR_RETURN(const int64_t boundary, boundaries.Next());
    if ((b == 0 && boundary != 0) || boundary < last || boundary > index.sequences) {
      return Damaged(absl::StrCat("boundary ", b, " of its documents is sequence ", boundary));
    }
    last = boundary;
  }
  if (index.boundaries >= 2 && last == index.sequences) return absl::OkStatus();
  return Damaged(absl::StrCat("its documents end with sequence ", last, " of ", index.sequences));
}

// Modes mark sequences that are no text.
absl::Status CheckModes(const InputFile& file, const MegatronIndex& index) {
  if (file.size() == ModesAt(index)) return absl::OkStatus();
  ArrayReader<int8_t> modes(file, ModesAt(index), index.sequences);
  for (int64_t s = 0; s < index.sequences; ++s) {
    ASSIGN_OR_RETURN(const int8_t mode, modes.Next());
    if (mode == 0) continue;
    return absl::UnimplementedError(absl::StrCat("sequence ", s, " has mode ", int{mode},
                                                 ": it is no text — only text is read"));
  }
  return absl::OkStatus();
}

absl::StatusOr<MegatronIndex> ReadIndex(const InputFile& file, int64_t data_bytes) {
  ASSIGN_OR_RETURN(MegatronIndex index, ReadHeader(file));
  RETURN_IF_ERROR(CheckSequences(file, data_bytes, index));
  RETURN_IF_ERROR(CheckBoundaries(file, index));
  RETURN_IF_ERROR(CheckModes(file, index));
  return index;
}

}  // namespace

uint8_t MegatronCode(TokenType type) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const auto& entry) { return entry.second == type; });
  return found->first;
}

absl::StatusOr<MegatronIndex> ReadMegatronIndex(const InputFile& file, int64_t data_bytes) {
  absl::StatusOr<MegatronIndex> index = ReadIndex(file, data_bytes);
  if (index.ok() || absl::IsDataLoss(index.status())) return index;  // that names the path
  return AtPath(file.path(), index.status());
}

absl::StatusOr<std::vector<int64_t>> ReadMegatronDocuments(const InputFile& file,
                                                           const MegatronIndex& index) {
  ArrayReader<int64_t> boundaries(file, BoundariesAt(index), index.boundaries);
  ArrayReader<int32_t> lengths(file, kMegatronHeaderBytes, index.sequences);
  std::vector<int64_t> ends;
  int64_t sequence = 0, tokens = 0;
  for (int64_t b = 0; b < index.boundaries; ++b) {
    ASSIGN_OR_RETURN(const int64_t boundary, boundaries.Next());
    // Also should the file have changed meanwhile.
    for (; sequence < std::min(boundary, index.sequences); ++sequence) {
      ASSIGN_OR_RETURN(const int32_t length, lengths.Next());
      tokens += length;
    }
    if (tokens > (ends.empty() ? 0 : ends.back())) ends.push_back(tokens);
  }
  if (!ends.empty() && ends.back() == index.tokens) return ends;
  return absl::DataLossError(absl::StrCat(file.path(), ": has changed since it was opened"));
}

}  // namespace strata::data
