// Where the documents of a token file end: FILE.documents beside FILE, for formats that cannot
// tell it themselves.
//
// "STRDOCS\n", u32 version 1, u32 0, i64 documents, i64 tokens of FILE, then an i64 for each
// document: the token after its last one. Ascending, so no document is empty; the last one is the
// number of tokens. Little-endian.
#ifndef STRATA_DATA_FILES_DOCUMENT_ENDS_H_
#define STRATA_DATA_FILES_DOCUMENT_ENDS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::data {

inline constexpr int64_t kDocumentsHeaderBytes = 32;

std::string DocumentsPath(const std::string& token_file);

// FailedPrecondition: there is no such file; InvalidArgument: it is damaged, or not of a file with
// so many tokens. Errors name its path.
absl::StatusOr<std::vector<int64_t>> ReadDocumentEnds(const std::string& token_file,
                                                      int64_t tokens);

std::array<char, kDocumentsHeaderBytes> DocumentsHeader(int64_t documents, int64_t tokens);

}  // namespace strata::data

#endif  // STRATA_DATA_FILES_DOCUMENT_ENDS_H_
