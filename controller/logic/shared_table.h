// A sorted table whose copies share what is the same: a copy costs a pointer for each of some
// hundred parts, a change the copy of one part.
#ifndef STRATA_CONTROLLER_LOGIC_SHARED_TABLE_H_
#define STRATA_CONTROLLER_LOGIC_SHARED_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace strata::controller {

// `Traits::KeyOf(const T&)` is the entry's key. One thread changes a table; copies of it may be
// read by any thread meanwhile.
template <typename T, typename Traits>
class SharedTable {
 public:
  using Pointer = std::shared_ptr<const T>;
  using Key = std::remove_cvref_t<decltype(Traits::KeyOf(std::declval<const T&>()))>;

  // Adds it, or puts it in the place of the entry of its key.
  void Set(Pointer value) {
    const Key& key = Traits::KeyOf(*value);
    if (parts_.empty()) parts_.push_back(std::make_shared<Part>());
    const size_t at = PartOf(key);
    Part& part = Own(at);
    const auto found = LowerBound(part, key);
    if (found != part.end() && Traits::KeyOf(**found) == key) {
      *found = std::move(value);
      return;
    }
    ++size_;
    part.insert(found, std::move(value));
    if (part.size() < kMost) return;
    const auto middle = part.begin() + kMost / 2;
    auto upper = std::make_shared<Part>(middle, part.end());
    part.erase(middle, part.end());
    parts_.insert(parts_.begin() + static_cast<ptrdiff_t>(at) + 1, std::move(upper));
  }

  void Erase(const Key& key) {
    if (parts_.empty()) return;
    const size_t at = PartOf(key);
    const auto there = LowerBound(*parts_[at], key);
    if (there == parts_[at]->end() || Traits::KeyOf(**there) != key) return;
    const ptrdiff_t index = there - parts_[at]->begin();
    Part& part = Own(at);
    part.erase(part.begin() + index);
    --size_;
    if (part.empty()) parts_.erase(parts_.begin() + static_cast<ptrdiff_t>(at));
  }

  // Null: there is none.
  Pointer Find(const Key& key) const {
    if (parts_.empty()) return nullptr;
    const Part& part = *parts_[PartOf(key)];
    const auto found = LowerBound(part, key);
    return found != part.end() && Traits::KeyOf(**found) == key ? *found : nullptr;
  }

  size_t size() const { return size_; }

  // In the order of keys, from the first one greater than `after` on, until `visit` says false.
  template <typename Visit>
  void ForEachAfter(const Key& after, Visit visit) const {
    if (parts_.empty()) return;
    for (size_t at = PartOf(after); at < parts_.size(); ++at) {
      for (const Pointer& value : *parts_[at]) {
        if (Traits::KeyOf(*value) > after && !visit(*value)) return;
      }
    }
  }
  // Backwards, from the last one less than `before` on.
  template <typename Visit>
  void ForEachBefore(const Key& before, Visit visit) const {
    if (parts_.empty()) return;
    for (size_t end = PartOf(before) + 1; end > 0; --end) {
      const Part& part = *parts_[end - 1];
      for (auto value = part.rbegin(); value != part.rend(); ++value) {
        if (Traits::KeyOf(**value) < before && !visit(**value)) return;
      }
    }
  }

 private:
  using Part = std::vector<Pointer>;
  static constexpr size_t kMost = 256;  // entries of a part

  template <typename SomePart>
  static auto LowerBound(SomePart& part, const Key& key) {
    return std::lower_bound(
        part.begin(), part.end(), key,
        [](const Pointer& value, const Key& than) { return Traits::KeyOf(*value) < than; });
  }

  // The last part that begins with the key or before, else the first.
  size_t PartOf(const Key& key) const {
    const auto next = std::upper_bound(parts_.begin() + 1, parts_.end(), key,
                                       [](const Key& than, const std::shared_ptr<Part>& part) {
                                         return than < Traits::KeyOf(*part->front());
                                       });
    return static_cast<size_t>(next - parts_.begin()) - 1;
  }

  // Its own copy where other tables have the part too.
  Part& Own(size_t at) {
    if (parts_[at].use_count() > 1) parts_[at] = std::make_shared<Part>(*parts_[at]);
    return *parts_[at];
  }

  std::vector<std::shared_ptr<Part>> parts_;  // ascending; none is empty
  size_t size_ = 0;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_SHARED_TABLE_H_
