// Encodes chunks of an input on several threads and hands them back in their order, so that what
// comes out does not depend on how many threads there are.
#ifndef STRATA_DATA_PREPARE_ENCODE_POOL_H_
#define STRATA_DATA_PREPARE_ENCODE_POOL_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "data/prepare/document_reader.h"
#include "data/records/record_encoder.h"

namespace strata::data {

struct EncodedPiece {
  absl::Status status;
  EncodedDocument document;
  int64_t line = 0;
  bool ends_document = true;
};

// Called by several threads at once.
using EncodePiece = std::function<EncodedPiece(const Piece& piece)>;

class EncodePool {
 public:
  EncodePool(int threads, EncodePiece encode);
  ~EncodePool();  // chunks not taken are dropped
  EncodePool(const EncodePool&) = delete;
  EncodePool& operator=(const EncodePool&) = delete;

  // Of one thread: chunks may be given until full(), and are taken in the order they were given.
  bool full() const { return in_order_.size() >= most_; }
  bool empty() const { return in_order_.empty(); }
  void Give(std::vector<Piece> pieces);
  std::vector<EncodedPiece> Take();

 private:
  struct Chunk {
    std::vector<Piece> pieces;
    std::vector<EncodedPiece> encoded;
    bool done = false;
  };
  void Work();

  const EncodePiece encode_;
  const size_t most_;
  std::deque<std::shared_ptr<Chunk>> in_order_;
  std::mutex mutex_;
  std::condition_variable given_, done_;
  std::deque<std::shared_ptr<Chunk>> waiting_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace strata::data

#endif  // STRATA_DATA_PREPARE_ENCODE_POOL_H_
