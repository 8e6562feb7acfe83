#include "data/prepare/input_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/files/input_file.h"

namespace strata::data {
namespace {

constexpr int64_t kPieceBytes = 256 << 10;  // of compressed bytes read at once

class PlainStream final : public InputStream {
 public:
  explicit PlainStream(InputFile file) : file_(std::move(file)) {}

  absl::StatusOr<int64_t> Read(char* out, int64_t size) override {
    const int64_t count = std::min(size, file_.size() - done_);
    RETURN_IF_ERROR(file_.ReadAt(done_, count, out));
    done_ += count;
    return count;
  }
  int64_t done() const override { return done_; }
  int64_t total() const override { return file_.size(); }

 private:
  const InputFile file_;
  int64_t done_ = 0;
};

// What compressed streams share: the bytes to be decompressed next.
class CompressedStream : public InputStream {
 public:
  explicit CompressedStream(InputFile file) : file_(std::move(file)), piece_(kPieceBytes) {}

  int64_t done() const override { return done_; }
  int64_t total() const override { return file_.size(); }

 protected:
  // Makes [next_, end_) not empty unless the file has ended.
  absl::Status Fill() {
    if (next_ < end_) return absl::OkStatus();
    const int64_t count = std::min(kPieceBytes, file_.size() - done_);
    RETURN_IF_ERROR(file_.ReadAt(done_, count, piece_.data()));
    done_ += count;
    next_ = 0, end_ = count;
    return absl::OkStatus();
  }
  absl::Status Damaged(const char* what) const {
    return absl::InvalidArgumentError(absl::StrCat(file_.path(), ": ", what, " near byte ", done_,
                                                   " — copy or compress it again"));
  }

  const InputFile file_;
  std::vector<unsigned char> piece_;
  int64_t next_ = 0, end_ = 0;
  int64_t done_ = 0;
};

// A .gz may hold several streams, one after the other.
class GzipStream final : public CompressedStream {
 public:
  explicit GzipStream(InputFile file) : CompressedStream(std::move(file)) {}
  ~GzipStream() override {
    if (begun_) inflateEnd(&state_);
  }

  absl::StatusOr<int64_t> Read(char* out, int64_t size) override {
    if (!begun_) {
      if (inflateInit2(&state_, 16 + MAX_WBITS) != Z_OK) return Damaged("out of memory");
      begun_ = true;
    }
    const auto wanted = static_cast<uInt>(std::min<int64_t>(size, 1 << 30));
    state_.next_out = reinterpret_cast<Bytef*>(out);
    state_.avail_out = wanted;
    while (state_.avail_out == wanted) {
      RETURN_IF_ERROR(Fill());
      if (next_ == end_) {
        if (between_) return 0;
        return Damaged("its compressed bytes are cut short");
      }
      if (between_) inflateReset(&state_), between_ = false;
      state_.next_in = piece_.data() + next_;
      state_.avail_in = static_cast<uInt>(end_ - next_);
      const int code = inflate(&state_, Z_NO_FLUSH);
      next_ = end_ - state_.avail_in;
      if (code == Z_STREAM_END) between_ = true;
      if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
        return Damaged("its compressed bytes are damaged");
      }
    }
    return static_cast<int64_t>(wanted - state_.avail_out);
  }

 private:
  z_stream state_ = {};
  bool begun_ = false;
  bool between_ = false;  // a stream has ended, none has begun
};

class ZstdStream final : public CompressedStream {
 public:
  explicit ZstdStream(InputFile file)
      : CompressedStream(std::move(file)), state_(ZSTD_createDStream()) {}
  ~ZstdStream() override { ZSTD_freeDStream(state_); }

  absl::StatusOr<int64_t> Read(char* out, int64_t size) override {
    if (state_ == nullptr) return Damaged("out of memory");
    ZSTD_outBuffer written = {out, static_cast<size_t>(size), 0};
    while (written.pos == 0) {
      RETURN_IF_ERROR(Fill());
      const bool ended = next_ == end_;
      if (ended && left_ == 0) return 0;
      ZSTD_inBuffer read = {piece_.data() + next_, static_cast<size_t>(end_ - next_), 0};
      left_ = ZSTD_decompressStream(state_, &written, &read);
      next_ += static_cast<int64_t>(read.pos);
      if (ZSTD_isError(left_)) return Damaged(ZSTD_getErrorName(left_));
      if (ended && written.pos == 0) return Damaged("its compressed bytes are cut short");
    }
    return static_cast<int64_t>(written.pos);
  }

 private:
  ZSTD_DStream* const state_;
  size_t left_ = 0;  // 0: a frame has ended, none has begun
};

}  // namespace

absl::StatusOr<std::unique_ptr<InputStream>> InputStream::Open(const std::string& path) {
  ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  unsigned char start[4] = {};
  RETURN_IF_ERROR(file.ReadAt(0, std::min<int64_t>(sizeof(start), file.size()), start));
  if (std::memcmp(start, "\x1f\x8b", 2) == 0) {
    return std::make_unique<GzipStream>(std::move(file));
  }
  if (std::memcmp(start, "\x28\xb5\x2f\xfd", 4) == 0) {
    return std::make_unique<ZstdStream>(std::move(file));
  }
  return std::make_unique<PlainStream>(std::move(file));
}

}  // namespace strata::data
