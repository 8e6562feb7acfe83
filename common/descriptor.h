// Owns a file descriptor.
#ifndef STRATA_COMMON_DESCRIPTOR_H_
#define STRATA_COMMON_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace strata::common {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      Close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  ~Descriptor() { Close(); }

  int get() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  void Close() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

}  // namespace strata::common

#endif  // STRATA_COMMON_DESCRIPTOR_H_
