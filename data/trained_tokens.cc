#include "data/trained_tokens.h"

#include <algorithm>

#include "common/check.h"
#include "common/status_macros.h"

namespace strata::data {
namespace {

// Of targets that are looked at at once.
constexpr int64_t kTargets = int64_t{1} << 18;

class MaskReader {
 public:
  // How many of the targets [begin, begin + count) of a source are trained on.
  absl::StatusOr<int64_t> Count(const TokenSource& source, int64_t begin, int64_t count) {
    int64_t trained = 0;
    for (int64_t done = 0; done < count; done += kTargets) {
      RETURN_IF_ERROR(Read(source, begin + done, std::min(kTargets, count - done)));
      trained += Trained(0, std::min(kTargets, count - done));
    }
    return trained;
  }

  // Of `windows` windows that follow each other, the first of which has its first target at
  // `begin`.
  absl::Status CountWindows(const TokenSource& source, int64_t begin, int64_t sequence,
                            std::vector<int32_t>& counts) {
    const int64_t together = std::max<int64_t>(1, kTargets / sequence);
    const int64_t windows = static_cast<int64_t>(counts.size());
    for (int64_t first = 0; first < windows; first += together) {
      const int64_t read = std::min(together, windows - first);
      if (read == 1) {
        ASSIGN_OR_RETURN(const int64_t trained, Count(source, begin + first * sequence, sequence));
        counts[static_cast<size_t>(first)] = static_cast<int32_t>(trained);
        continue;
      }
      RETURN_IF_ERROR(Read(source, begin + first * sequence, read * sequence));
      for (int64_t w = 0; w < read; ++w) {
        counts[static_cast<size_t>(first + w)] =
            static_cast<int32_t>(Trained(w * sequence, sequence));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Read(const TokenSource& source, int64_t begin, int64_t count) {
    std::fill_n(targets_.begin(), count, 0);
    return source.MaskTargets(begin, count, targets_.data());
  }
  int64_t Trained(int64_t begin, int64_t count) const {
    return std::count_if(targets_.begin() + begin, targets_.begin() + begin + count,
                         [](int32_t target) { return target >= 0; });
  }

  std::vector<int32_t> targets_ = std::vector<int32_t>(kTargets);
};

absl::Status CountPacked(const SplitSource& source, MaskReader& reader,
                         std::vector<int32_t>& counts) {
  for (size_t window = 0; window < counts.size(); ++window) {
    const Packing::Pieces pieces =
        source.packing->Of(source.first_window + static_cast<int64_t>(window));
    for (int64_t i = 0; i < pieces.size(); ++i) {
      ASSIGN_OR_RETURN(const int64_t trained,
                       reader.Count(*source.tokens, pieces[i].begin + 1, pieces[i].rows));
      counts[window] += static_cast<int32_t>(trained);
    }
  }
  return absl::OkStatus();
}

}  // namespace

TrainedTokens::TrainedTokens(const Split& split)
    : split_(split),
      full_(std::all_of(split.sources.begin(), split.sources.end(),
                        [](const SplitSource& source) {
                          return source.packing == nullptr && !source.tokens->masked();
                        })),
      counts_(split.sources.size()) {}

absl::StatusOr<TrainedTokens> TrainedTokens::Count(const Split& split) {
  TrainedTokens result(split);
  MaskReader reader;
  for (size_t s = 0; s < split.sources.size(); ++s) {
    const SplitSource& source = split.sources[s];
    if (!source.tokens->masked()) continue;
    std::vector<int32_t>& counts = result.counts_[s];
    counts.resize(static_cast<size_t>(source.windows));
    if (source.packing != nullptr) {
      RETURN_IF_ERROR(CountPacked(source, reader, counts));
    } else {
      RETURN_IF_ERROR(reader.CountWindows(*source.tokens, source.first_window * split.sequence + 1,
                                          split.sequence, counts));
    }
  }
  return result;
}

int64_t TrainedTokens::Of(SampleRef sample) const {
  const auto s = static_cast<size_t>(sample.source);
  const SplitSource& source = split_.sources[s];
  STRATA_CHECK(sample.window >= 0 && sample.window < source.windows);
  if (!counts_[s].empty()) return counts_[s][static_cast<size_t>(sample.window)];
  if (source.packing == nullptr) return split_.sequence;
  return source.packing->Of(source.first_window + sample.window).rows();
}

int64_t TrainedTokens::Of(const Sampler& sampler, int64_t first, int64_t count) const {
  if (full_) return count * split_.sequence;
  int64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += Of(sampler.At(first + i));
  return sum;
}

int64_t TrainedTokens::OfSpread(int64_t count) const {
  if (full_) return count * split_.sequence;
  int64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += Of(split_.Spread(i, count));
  return sum;
}

}  // namespace strata::data
