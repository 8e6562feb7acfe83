// Cuts an input file into what is encoded at once: lines of JSONL, pieces of a text.
#ifndef STRATA_DATA_PREPARE_DOCUMENT_READER_H_
#define STRATA_DATA_PREPARE_DOCUMENT_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/prepare/input_stream.h"

namespace strata::data {

inline constexpr int64_t kMostLineBytes = int64_t{64} << 20;
inline constexpr int64_t kMostWholeTextBytes = int64_t{128} << 20;

// A line of JSONL, which is a document, or a part of a text, which is one document.
struct Piece {
  std::string bytes;
  int64_t line = 0;  // of JSONL, counted from 1; 0: a part of a text
  bool begins_document = true;
  bool ends_document = true;
};

// How far a reader is; what it reads next follows from nothing else.
struct ReaderPosition {
  int64_t offset = 0;     // bytes of the decompressed input
  int64_t line = 0;       // lines before it
  int64_t documents = 0;  // before it
};

class DocumentReader {
 public:
  enum class Cuts {
    kLines,     // JSONL: at each newline
    kAnywhere,  // text, at any byte
    kSafely,    // text, where its tokens stay the same (line_cuts.h)
    kNever,     // text, as a whole
  };
  // Used by one thread. `at`: where an earlier reader of the same file was after a piece.
  static absl::StatusOr<std::unique_ptr<DocumentReader>> Open(const std::string& path, Cuts cuts,
                                                              const ReaderPosition& at);

  // The next piece; blank lines are left out. Nothing at the end. InvalidArgument: a line or a text
  // is too long to be held; the text names the path.
  absl::StatusOr<std::optional<Piece>> Next();
  const ReaderPosition& position() const { return position_; }
  const InputStream& stream() const { return *stream_; }

 private:
  DocumentReader(std::string path, Cuts cuts, std::unique_ptr<InputStream> stream)
      : path_(std::move(path)), cuts_(cuts), stream_(std::move(stream)) {}

  absl::Status SkipTo(const ReaderPosition& at);
  // Reads on until the buffer holds `size` bytes, or the input ends.
  absl::Status Fill(size_t size);
  std::string Take(size_t size);
  absl::StatusOr<std::optional<Piece>> NextLine();
  absl::StatusOr<std::optional<Piece>> NextText();
  size_t CutOf(size_t target) const;

  const std::string path_;
  const Cuts cuts_;
  const std::unique_ptr<InputStream> stream_;
  std::string buffer_;
  size_t begin_ = 0;  // of what is not taken yet
  bool ended_ = false;
  ReaderPosition position_;
};

}  // namespace strata::data

#endif  // STRATA_DATA_PREPARE_DOCUMENT_READER_H_
