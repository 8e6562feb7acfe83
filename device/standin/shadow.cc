#include "device/standin/shadow.h"

#include <bit>

namespace strata::standin {

void Shadow::Clear() { ++generation_; }

// Makes cells small enough that begin and end of a range lie on their borders.
void Shadow::Split(Chunk& chunk, uint64_t begin, uint64_t end) const {
  if (chunk.generation != generation_) {
    chunk.generation = generation_;
    chunk.log2_bytes = 8;
    chunk.cells.assign(1, first_);
  }
  const uint8_t needed = static_cast<uint8_t>(std::countr_zero(begin | end | kChunkBytes));
  if (needed >= chunk.log2_bytes) return;
  std::vector<Cell> cells(kChunkBytes >> needed);
  const int shift = chunk.log2_bytes - needed;
  for (size_t i = 0; i < cells.size(); ++i) cells[i] = chunk.cells[i >> shift];
  chunk.cells = std::move(cells);
  chunk.log2_bytes = needed;
}

bool Checker::Ordered(const Stamp& before, const Accessor& now) {
  if (before.operation <= kLoaded) return true;
  if (before.operation != now.stamp.operation) {
    if (before.operation != last_before_ || now.stamp.operation != last_now_) {
      last_before_ = before.operation;
      last_now_ = now.stamp.operation;
      last_ordered_ = operations_.Ordered(before.operation, now.stamp.operation);
    }
    return last_ordered_;
  }
  if (now.warp == nullptr) return true;
  const uint32_t lane = now.stamp.thread % kLanes;
  if (before.block == now.stamp.block) {
    if (before.thread == now.stamp.thread) return true;
    if (before.thread / kLanes == now.stamp.thread / kLanes) {
      if (before.time <= now.warp->seen_lanes[lane][before.thread % kLanes]) return true;
    } else if (before.time <= now.warp->seen_warps[before.thread / kLanes]) {
      return true;
    }
  }
  return now.warp->acquired[lane] != nullptr && now.warp->acquired[lane]->Knows(before);
}

std::string Checker::Describe(const Stamp& stamp) const {
  const std::string& name = operations_.NameOf(stamp.operation);
  if (stamp.time == 0) return name;
  return "thread " + std::to_string(stamp.thread) + " of block " + std::to_string(stamp.block) +
         " of " + name;
}

void Checker::Report(FindingKind kind, const Stamp& stamp, const std::string& text) {
  findings_.Report(kind, operations_.NameOf(stamp.operation), stamp.site,
                   text + " by " + Describe(stamp));
}

void Checker::Race(const Stamp& before, Access access, const Accessor& who,
                   const std::string& place) {
  std::string text = access == Access::kRead ? "read of " : "write of ";
  text += place + ", unordered after a " + (before.Has(Stamp::kWrite) ? "write" : "read") + " by " +
          Describe(before);
  if (before.site != 0) text += " (" + findings_.TextOf(before.site) + ")";
  Report(FindingKind::kRace, who.stamp, text + ",");
}

void Checker::Remember(Cell& cell, const Accessor& who, const Stamp& stamp) {
  int same_warp = -1, same_operation = 2;  // slots whose loss hurts little
  for (int i = 0; i < 3; ++i) {
    Stamp& other = cell.others[i];
    if (other.operation == kNever || Ordered(other, who)) {
      other = stamp;  // whatever follows this access follows that one
      return;
    }
    if (other.operation == stamp.operation && other.block == stamp.block &&
        other.thread / kLanes == stamp.thread / kLanes) {
      same_warp = i;
    } else if (i > 0 && other.operation == stamp.operation) {
      same_operation = i;
    }
  }
  cell.others[same_warp < 0 ? same_operation : same_warp] = stamp;
}

void Checker::TouchCell(Cell& cell, uint64_t offset, Access access, const Accessor& who,
                        const Name& name) {
  const bool atomic = who.stamp.Has(Stamp::kAtomic), write = access != Access::kRead;
  const auto conflicts = [&](const Stamp& other) {
    return other.operation != kNever && (write || other.Has(Stamp::kWrite)) &&
           !(atomic && other.Has(Stamp::kAtomic)) && !Ordered(other, who);
  };
  const auto place = [&] { return name.text + "+" + std::to_string(offset - name.origin); };
  if (cell.write.Has(Stamp::kInFlight)) {
    Report(FindingKind::kAsyncCopy, who.stamp,
           place() + ", the target of a copy that was not waited for, is used");
  }
  if (conflicts(cell.write)) Race(cell.write, access, who, place());
  for (const Stamp& other : cell.others) {
    if (conflicts(other)) Race(other, access, who, place());
  }
  if (access != Access::kWrite &&
      (cell.write.operation == kNever || cell.write.Has(Stamp::kUnwritten))) {
    Report(FindingKind::kUninitialised, who.stamp, "read of " + place() + ", never written,");
  }
  Stamp stamp = who.stamp;
  if (!write) {
    Remember(cell, who, stamp);
    return;
  }
  stamp.flags |= Stamp::kWrite;
  const Stamp before = cell.write;
  if (!atomic) {
    cell = Cell{};
  } else if (before.operation > kLoaded && before.Has(Stamp::kAtomic) && !Ordered(before, who)) {
    Remember(cell, who, before);
  }
  cell.write = stamp;
}

void Checker::Touch(Shadow& shadow, uint64_t offset, uint64_t bytes, Access access,
                    const Accessor& who, const Name& name) {
  ++accesses_;
  shadow.ForEachCell(offset, bytes,
                     [&](Cell& cell, uint64_t at) { TouchCell(cell, at, access, who, name); });
}

void Checker::Mark(Shadow& shadow, uint64_t offset, uint64_t bytes, const Stamp& stamp) {
  shadow.ForEachCell(offset, bytes, [&](Cell& cell, uint64_t) {
    cell = Cell{};
    cell.write = stamp;
    cell.write.flags |= Stamp::kWrite;
  });
}

}  // namespace strata::standin
