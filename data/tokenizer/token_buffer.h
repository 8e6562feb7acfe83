// Tokens that are being collected: a vector that can be written past its end.
#ifndef STRATA_DATA_TOKENIZER_TOKEN_BUFFER_H_
#define STRATA_DATA_TOKENIZER_TOKEN_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace strata::data {

class TokenBuffer {
 public:
  const int32_t* data() const { return tokens_.get(); }
  size_t size() const { return size_; }
  void clear() { size_ = 0; }

  // Room for `count` more behind data() + size(), to be written and then added by Grow().
  int32_t* Room(size_t count) {
    if (capacity_ - size_ < count) Extend(count);
    return tokens_.get() + size_;
  }
  void Grow(size_t count) { size_ += count; }
  void Add(int32_t token) {
    *Room(1) = token;
    ++size_;
  }
  // Gives back memory beyond what `most` tokens take.
  void Shrink(size_t most) {
    if (capacity_ <= most) return;
    tokens_.reset();
    size_ = capacity_ = 0;
  }

 private:
  void Extend(size_t count) {
    capacity_ = std::max(size_ + count, 2 * capacity_ + 64);
    std::unique_ptr<int32_t[]> larger(new int32_t[capacity_]);
    std::copy_n(tokens_.get(), size_, larger.get());
    tokens_ = std::move(larger);
  }

  std::unique_ptr<int32_t[]> tokens_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_TOKEN_BUFFER_H_
