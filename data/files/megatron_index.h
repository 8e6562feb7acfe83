// Megatron's index of a data file: NAME.idx beside NAME.bin.
//
// "MMIDIDX\0\0", u64 version 1, u8 type, u64 sequences, u64 boundaries, then from byte 34 on:
// i32 length in tokens of each sequence, i64 byte at which it begins, i64 boundaries (the sequence
// that begins each document, and the number of sequences), and for some files i8 modes.
#ifndef STRATA_DATA_FILES_MEGATRON_INDEX_H_
#define STRATA_DATA_FILES_MEGATRON_INDEX_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "data/files/input_file.h"
#include "data/files/token_layout.h"

namespace strata::data {

inline constexpr int64_t kMegatronHeaderBytes = 34;

struct MegatronIndex {
  TokenType type = TokenType::kU16;
  int64_t sequences = 0;
  int64_t boundaries = 0;
  int64_t tokens = 0;
};

// Type code of the index for tokens of a type that it can tell.
uint8_t MegatronCode(TokenType type);

// Checks all of the index against its size and against its data file of `data_bytes` bytes, whose
// sequences lie one after the other. Errors start with the path of the index. Time grows with the
// number of sequences, memory does not.
absl::StatusOr<MegatronIndex> ReadMegatronIndex(const InputFile& file, int64_t data_bytes);

// Ends of the documents that are not empty, in tokens, of an index read before.
absl::StatusOr<std::vector<int64_t>> ReadMegatronDocuments(const InputFile& file,
                                                           const MegatronIndex& index);

}  // namespace strata::data

#endif  // STRATA_DATA_FILES_MEGATRON_INDEX_H_
