#include "data/files/document_ends.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/files/input_file.h"

namespace strata::data {
namespace {

constexpr char kDocumentsMagic[] = "STRDOCS\n";
constexpr uint32_t kDocumentsVersion = 1;

struct DocumentsHead {
  char magic[8];
  uint32_t version;
  uint32_t zero;
  int64_t documents;
  int64_t tokens;
};
static_assert(sizeof(DocumentsHead) == kDocumentsHeaderBytes);

absl::StatusOr<std::vector<int64_t>> ReadEnds(const InputFile& file, int64_t tokens) {
  const auto damaged = [](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(what, " — prepare the token file again"));
  };
  DocumentsHead header;
  if (file.size() < kDocumentsHeaderBytes) return damaged("its header is cut short");
  RETURN_IF_ERROR(file.ReadAt(0, sizeof(header), &header));
  if (std::memcmp(header.magic, kDocumentsMagic, sizeof(header.magic)) != 0) {
    return damaged("is no list of documents: its first bytes are others");
  }
  if (header.version != kDocumentsVersion || header.zero != 0) {
    return damaged(absl::StrCat("is of version ", header.version, ", only 1 is read"));
  }
  if (header.tokens != tokens) {
    return damaged(absl::StrCat("is of a file of ", header.tokens, " tokens, not of ", tokens));
  }
  const int64_t listed = (file.size() - kDocumentsHeaderBytes) / 8;
  if (header.documents != listed || file.size() != kDocumentsHeaderBytes + 8 * listed) {
    return damaged(absl::StrCat("its header says ", header.documents, " documents, its ",
                                file.size(), " bytes hold ", listed));
  }
  if (listed > tokens) return damaged(absl::StrCat("more documents (", listed, ") than tokens"));
  std::vector<int64_t> ends(static_cast<size_t>(listed));
  RETURN_IF_ERROR(file.ReadAt(kDocumentsHeaderBytes, 8 * listed, ends.data()));
  int64_t last = 0;
  for (const int64_t end : ends) {
    if (end <= last) return damaged(absl::StrCat("a document ends at ", end, " after ", last));
    last = end;
  }
  if (last != tokens) return damaged(absl::StrCat("the last document ends at ", last));
  return ends;
}

}  // namespace

std::string DocumentsPath(const std::string& token_file) {
  return absl::StrCat(token_file, ".documents");
}

absl::StatusOr<std::vector<int64_t>> ReadDocumentEnds(const std::string& token_file,
                                                      int64_t tokens) {
  const std::string path = DocumentsPath(token_file);
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (absl::IsNotFound(file.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat(token_file, ": does not tell where its documents end, and there is no ", path,
                     " that does — make the file with strata data prepare, which writes both"));
  }
  RETURN_IF_ERROR(file.status());
  absl::StatusOr<std::vector<int64_t>> ends = ReadEnds(*file, tokens);
  if (ends.ok() || absl::IsDataLoss(ends.status())) return ends;
  return AtPath(path, ends.status());
}

std::array<char, kDocumentsHeaderBytes> DocumentsHeader(int64_t documents, int64_t tokens) {
  DocumentsHead header = {};
  std::memcpy(header.magic, kDocumentsMagic, sizeof(header.magic));
  header.version = kDocumentsVersion;
  header.documents = documents;
  header.tokens = tokens;
  std::array<char, kDocumentsHeaderBytes> bytes;
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

}  // namespace strata::data
