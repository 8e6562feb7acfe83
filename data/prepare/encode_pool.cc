#include "data/prepare/encode_pool.h"

#include <utility>

#include "common/check.h"

namespace strata::data {

EncodePool::EncodePool(int threads, EncodePiece encode)
    : encode_(std::move(encode)), most_(static_cast<size_t>(2 * threads + 1)) {
  STRATA_CHECK(threads > 0);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

EncodePool::~EncodePool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    waiting_.clear();
  }
  given_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void EncodePool::Work() {
  for (;;) {
    std::shared_ptr<Chunk> chunk;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      given_.wait(lock, [this] { return stopped_ || !waiting_.empty(); });
      if (stopped_) return;
      chunk = std::move(waiting_.front());
      waiting_.pop_front();
    }
    for (const Piece& piece : chunk->pieces) chunk->encoded.push_back(encode_(piece));
    chunk->pieces.clear();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      chunk->done = true;
    }
    done_.notify_one();
  }
}

void EncodePool::Give(std::vector<Piece> pieces) {
  auto chunk = std::make_shared<Chunk>();
  chunk->pieces = std::move(pieces);
  in_order_.push_back(chunk);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(std::move(chunk));
  }
  given_.notify_one();
}

std::vector<EncodedPiece> EncodePool::Take() {
  STRATA_CHECK(!empty());
  const std::shared_ptr<Chunk> chunk = std::move(in_order_.front());
  in_order_.pop_front();
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [&] { return chunk->done; });
  return std::move(chunk->encoded);
}

}  // namespace strata::data
