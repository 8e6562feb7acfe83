#include "protocol/parts.h"

namespace strata::protocol {

std::vector<v1::MessagePart> CutBytes(uint64_t number, const std::string& bytes) {
  std::vector<v1::MessagePart> parts;
  const size_t count = (bytes.size() + kPartBytes - 1) / kPartBytes;
  for (size_t index = 0; index < count; ++index) {
    v1::MessagePart& part = parts.emplace_back();
    part.set_message(number);
    part.set_index(static_cast<int>(index));
    part.set_count(static_cast<int>(count));
    part.set_data(bytes.substr(index * kPartBytes, kPartBytes));
  }
  return parts;
}

absl::StatusOr<std::optional<std::string>> PartBook::Add(v1::MessagePart part) {
  const bool in_order = part.index() == next_ && part.index() < part.count() &&
                        (next_ == 0 || (part.message() == message_ && part.count() == count_));
  if (!in_order) {
    return absl::InvalidArgumentError(absl::StrCat("piece ", part.index(), " of ", part.count(),
                                                   " of message ", part.message(),
                                                   " is out of order"));
  }
  // All but the last are full: so their number bounds the size, and nobody sends crumbs for ever.
  const bool last = part.index() + 1 == part.count();
  if (part.data().empty() || part.data().size() > kPartBytes ||
      (!last && part.data().size() != kPartBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a piece of ", part.data().size(), " bytes, piece ", part.index()));
  }
  if (bytes_.size() + part.data().size() > most_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a message of more than ", most_bytes_, " bytes"));
  }
  bytes_ += part.data();
  message_ = part.message();
  count_ = part.count();
  ++next_;
  if (!last) return std::optional<std::string>();
  next_ = 0;
  return std::optional<std::string>(std::exchange(bytes_, {}));
}

}  // namespace strata::protocol
